import io

import numpy as np
import pytest
from matplotlib.image import imread

import numpy_transformer as nt
from numpy_transformer import views

TABLE = nt.SinusoidalPositionalEncoding(16, 30).table
ROWS = [{"step": n, "loss": 3 / n, **({"validation": 4 / n} if n % 20 == 0 else {})} for n in range(1, 101)]


@pytest.mark.parametrize("draw", [
    lambda: views.positional_heatmap(TABLE), lambda: views.positional_heatmap(TABLE, transposed=True),
    lambda: views.positional_waves(TABLE),
    lambda: views.attention_heads(np.random.default_rng(0).dirichlet(np.ones(7), (5, 4)), list("abcd"),
                                  list("uvwxyz␣")),
    lambda: views.mask_pictures({"causal": nt.causal_mask(4)[0, 0]}),
    lambda: views.learning_curves({"a": ROWS, "b": ROWS}),
])
def test_every_picture_has_something_on_it_and_labels(draw):
    figure = draw()
    assert all(axes.get_xlabel() or axes.get_ylabel() or axes.get_title() or not axes.axison for axes in figure.axes)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    buffer.seek(0)
    pixels = imread(buffer)[..., :3]
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20


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
