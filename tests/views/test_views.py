import io

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import numpy_transformer as nt
from numpy_transformer import views
from numpy_transformer.views.save import write_figure

TABLE = nt.SinusoidalPositionalEncoding(16, 30).table
ROWS = [{"step": n, "loss": 3 / n, **({"validation": 4 / n} if n % 20 == 0 else {})} for n in range(1, 101)]


WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(7), (5, 4))


@pytest.mark.slow
@pytest.mark.parametrize("draw", [
    lambda: views.positional_heatmap(TABLE), lambda: views.positional_waves(TABLE),
    lambda: views.attention_heads(WEIGHTS, list("abcd"), list("uvwxyz␣")),
    lambda: views.mask_pictures({"causal": nt.causal_mask(4)[0, 0]}), lambda: views.learning_curves({"a": ROWS}),
])
def test_every_picture_is_labeled_and_can_be_written(draw):
    figure = draw()
    assert all(axes.get_xlabel() or axes.get_ylabel() or axes.get_title() or not axes.axison for axes in figure.axes)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    assert buffer.getvalue().startswith(b"\x89PNG")


def test_each_head_is_drawn_in_its_own_place():
    axes = views.attention_heads(WEIGHTS, list("abcd"), list("uvwxyz␣")).axes
    for head in range(5):
        np.testing.assert_array_equal(axes[head].images[0].get_array(), WEIGHTS[head])
        assert axes[head].images[0].get_clim() == (0, 1)            # one scale for all heads
    assert [label.get_text() for label in axes[0].get_xticklabels()] == list("uvwxyz␣")
    assert [label.get_text() for label in axes[0].get_yticklabels()] == list("abcd")


def test_the_axes_say_what_rows_and_columns_are():
    named, plain = (views.attention_heads(WEIGHTS, *tokens).axes for tokens in ((list("abcd"), list("uvwxyz␣")), ()))
    for axes, kind in (named, "token"), (plain, "position"):
        assert (axes[0].get_ylabel(), axes[4].get_xlabel()) == (f"query {kind}", f"key {kind}")
    other = views.attention_heads(WEIGHTS, list("abcd"), query_label="predicted token").axes
    assert (other[0].get_ylabel(), other[4].get_xlabel()) == ("predicted token", "key position")


def test_masks_are_drawn_as_they_are():
    mask = nt.causal_mask(4)[0, 0]
    axes = views.mask_pictures({"causal": mask}).axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), mask)
    assert [text.get_text() for text in axes.texts] == ["1" if seen else "0" for seen in mask.ravel()]


@pytest.mark.slow
def test_waves_are_columns_and_rows_of_the_table():
    left, right = views.positional_waves(TABLE, dimensions=(0, 3, 8), positions=(2, 7, 99)).axes
    for line, dimension in zip(left.lines, (0, 3, 8), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), TABLE[:, dimension])
    for line, position in zip(right.lines, (2, 7), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), TABLE[position, 0::2])


def test_learning_curves_show_every_step_the_smoothed_loss_and_the_validation():
    raw, smooth, validation = views.learning_curves({"a": ROWS}).axes[0].lines
    np.testing.assert_array_equal(raw.get_ydata(), [row["loss"] for row in ROWS])
    np.testing.assert_allclose(smooth.get_ydata()[0], np.mean([3, 3 / 2]))          # 100 steps: windows of two
    np.testing.assert_array_equal(validation.get_xdata(), [20, 40, 60, 80, 100])
    np.testing.assert_allclose(validation.get_ydata(), [4 / 20, 4 / 40, 4 / 60, 4 / 80, 4 / 100])


def test_the_heatmap_shows_the_table_the_right_way_round():
    image = views.positional_heatmap(TABLE).axes[0]
    np.testing.assert_array_equal(image.images[0].get_array(), TABLE)
    assert (image.get_xlabel(), image.get_ylabel()) == ("dimension", "position")
    turned = views.positional_heatmap(TABLE, transposed=True).axes[0]
    np.testing.assert_array_equal(turned.images[0].get_array(), TABLE.T)
    assert (turned.get_xlabel(), turned.get_ylabel()) == ("position", "dimension")


def test_pictures_are_saved_and_a_bad_folder_is_named(tmp_path):
    path = views.save(views.positional_heatmap(TABLE), tmp_path / "new" / "folder", "pe")
    assert path == tmp_path / "new" / "folder" / "pe.png" and path.stat().st_size > 1000
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="pictures cannot be written to .*file"):
        views.check_folder(tmp_path / "file")
    assert list((tmp_path / "new" / "folder").iterdir()) == [path]


def test_the_curve_with_the_bug_is_labeled_as_such():
    axes = views.bug_curves(np.full(30, 1.0), np.full(30, 4.0), "a bug").axes[0]
    handles, labels = axes.get_legend_handles_labels()
    assert sorted(labels) == ["with the bug", "without the bug"]
    levels = {label: np.unique(np.round(line.get_ydata(), 12)) for line, label in zip(handles, labels)}
    assert levels == {"with the bug": [4.0], "without the bug": [1.0]}
    legend = axes.get_legend()
    for line, text in zip(legend.get_lines(), legend.get_texts(), strict=True):
        assert line.get_color() == dict(zip(labels, handles))[text.get_text()].get_color()


def test_the_bars_of_an_exercise_follow_each_other():
    """Two students passed, one failed, three handed in the skeleton: the bars cover 0 to 2, 2 to 3 and 3 to 6."""
    axes = views.class_report({"ex01_1_softmax": {"todo": 3, "pass": 2, "fail": 1}, "ex01_2_backward": {"fail": 4}},
                              []).axes[0]
    spans = {group.get_label(): [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in group]
             for group in axes.containers}
    assert spans == {"pass": [(0, 2), (0, 0)], "fail": [(2, 3), (0, 4)], "todo": [(3, 6), (4, 4)]}


def test_a_saved_figure_says_what_it_shows(tmp_path):
    figure = Figure()
    figure.suptitle("Two\nruns")
    left, right = figure.subplots(1, 2)
    left.set(title="Loss", xlabel="step", ylabel="nats")
    image = right.imshow([[0, 1]])
    right.set(title="Weights")
    figure.colorbar(image, label="weight")
    said = "Two runs; Loss: nats over step; Weights"
    with Image.open(write_figure(figure, tmp_path / "a.png")) as picture:
        assert picture.text["Description"] == said
    assert f"<dc:description>{said}</dc:description>" in write_figure(figure, tmp_path / "a.svg").read_text(encoding="utf-8")
    assert b"/Subject (Two runs; Loss: nats over step; Weights)" in write_figure(figure, tmp_path / "a.pdf").read_bytes()
