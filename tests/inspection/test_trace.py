"""The lockstep trace: every gradient beside its differences, formulas from the docstrings, and a mistake is seen."""

import numpy as np
import pytest
from helpers.commands import refused, run

import numpy_transformer as nt
from numpy_transformer.inspection.trace import KINDS, example, side_by_side, trace


def calls(kind, only="", width=120):
    _, model, inputs = example(kind)
    return list(trace(model, inputs, only, width))


@pytest.mark.parametrize("kind, only, count", [
    pytest.param("encoder", "", 21, marks=pytest.mark.slow), pytest.param("decoder", "", 21, marks=pytest.mark.slow),
    pytest.param("encoder-decoder", "cross_", 7, marks=pytest.mark.slow), ("encoder", "feed_forward", 4)])
def test_backward_agrees_with_the_differences_in_every_call(kind, only, count):
    found = calls(kind, only)
    assert len(found) == count and all(error < 1e-7 for _, error in found)
    for text, _ in found:
        assert max(map(len, text.split("\n  forward")[-1].splitlines()[2:]), default=0) <= 120


def test_the_columns_are_value_gradient_and_differences():
    (text, error), = calls("decoder", "attention.softmax")
    _, model, inputs = example("decoder")
    with nt.record(model) as tape:
        model(*inputs)
        model.backward(1.0)
    softmax, = tape.of(nt.Softmax)
    rows = [line.split("|") for line in text.splitlines() if "|" in line and "." in line]
    x, dx, numeric = (np.array([[float(n) for n in row[column].split()] for row in rows[:6]]) for column in range(3))
    np.testing.assert_allclose(x, softmax.inputs[0].reshape(6, 3), atol=6e-4)
    np.testing.assert_allclose(dx, softmax.gradients[0].reshape(6, 3), atol=6e-4)
    np.testing.assert_allclose(numeric, dx, atol=1.1e-3)
    assert np.abs(dx).max() > 0.1 and "-inf" in text                       # large enough for a pencil
    assert "y_i = exp(x_i) / sum_j exp(x_j)" in text and "dx = y * (dy - sum_j dy_j y_j)" in text


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_small_and_gradients_are_not_tiny(kind):
    _, model, inputs = example(kind)
    with nt.record(model) as tape:
        model(*inputs)
        model.backward(1.0)
    for call in tape.calls:
        assert np.abs(np.nan_to_num(call.output, neginf=0)).max() < 10 and np.shape(call.output)[-1:] <= (5,)
    assert all(np.abs(call.gradients[0]).max() > 0.04 for call in tape.of(nt.Softmax))
    assert all(set(np.unique(np.abs(p.data))) <= {0.5, 1} for p in model.parameters())


@pytest.mark.parametrize("component, only", [
    (nt.Softmax, "softmax"), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in
                               ((nt.LayerNorm, "norm1"), (nt.Linear, "output")))])
def test_a_wrong_backward_is_seen_in_its_own_call(component, only, monkeypatch, capsys):
    right = component.backward
    monkeypatch.setattr(component, "backward", lambda self, dy: 1.5 * right(self, dy))
    code, out, _ = run(capsys, "trace", "--only", only.upper())
    assert code == 1 and "Backward is WRONG" in out
    monkeypatch.setattr(component, "backward", lambda self, dy: np.nan * right(self, dy))
    code, out, _ = run(capsys, "trace", "--only", only)
    assert code == 1 and "Backward is WRONG: they differ by at most nan" in out


@pytest.mark.slow
def test_a_wrong_backward_anywhere_makes_the_whole_trace_wrong(monkeypatch, capsys):
    right = nt.Embedding.backward               # the first one shown
    monkeypatch.setattr(nt.Embedding, "backward", lambda self, dy: right(self, 1.5 * dy))
    assert run(capsys, "trace")[0] == 1


def test_a_model_can_be_traced_again():
    _, model, inputs = example("encoder")
    for _ in range(2):
        assert all(error < 1e-7 for _, error in trace(model, inputs, "output"))


def test_no_line_of_a_table_is_longer_than_the_width():
    x = np.arange(8.0).reshape(2, 4)
    for width in range(40, 130):
        lines = side_by_side(["x", "dx", "dx by differences"], [x, x, x], width).splitlines()
        assert max(map(len, lines)) <= width


@pytest.mark.slow
def test_the_command_prints_all_and_says_that_they_agree(capsys):
    code, out, err = run(capsys, "trace", "--model", "encoder")
    assert code == 0 and "Backward and finite differences agree" in out and "(calls shown: 21)" in " ".join(out.split())
    assert out.count("by differences") > 40 and err == ""
    assert out.index("embedding: Embedding") < out.index("encoder.norm: LayerNorm") < out.index("loss: CrossEntropy")


def test_in_a_narrow_terminal_the_columns_stand_below_each_other():
    x = np.arange(8.0).reshape(2, 4)
    wide, narrow = (side_by_side(["x", "dx", "numeric"], [x, 2 * x, 3 * x], width) for width in (120, 60))
    assert len(wide.splitlines()) == 3 and len(narrow.splitlines()) == 9
    assert max(map(len, narrow.splitlines())) <= 60
    assert sorted(wide.replace("|", " ").split()) == sorted(narrow.split())


@pytest.mark.slow
@pytest.mark.parametrize("width", [60, pytest.param(100, marks=pytest.mark.slow)])
def test_the_command_fits_the_terminal(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = run(capsys, "trace", "--model", "encoder-decoder", "--only", "attention")
    assert max(map(len, out.splitlines())) <= width


def test_positions_of_the_target_have_their_own_name():
    titles = [text.split()[0] for text, _ in calls("encoder-decoder", "_positions")]
    assert titles == ["source_positions:", "target_positions:"]


def test_an_unknown_part_is_refused(capsys):
    assert "no component's name or class contains 'sotfmax'" in refused(capsys, "trace", "--only", "sotfmax")
    assert "--model" in refused(capsys, "trace", "--model", "rnn")
