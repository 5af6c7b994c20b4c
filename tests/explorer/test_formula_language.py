"""The language of formulas, and how the evaluator reads arrays and reports what it cannot work out."""

import json

import numpy as np
import pytest

from numpy_transformer.explorer.formulas import evaluator, formula, spell

X = np.arange(24.0).reshape(2, 3, 4)


def test_a_spelling_holds_every_number_on_the_way():
    spelled = spell(formula("y[..., o] = scale * sum(i, x[..., i] * w[i, o])", scale=2.0),
                    {"x": np.array([[1.0, 2.0], [3.0, 4.0]]), "w": np.array([[5.0], [6.0]]), "y": np.zeros((2, 1))}, (1, 0))
    assert spelled["value"] == 2 * (3 * 5 + 4 * 6)
    scale, total = spelled["tree"]["terms"]
    assert scale == {"kind": "number", "value": 2.0, "terms": [], "name": "scale"}
    assert total["places"] == [{"i": 0}, {"i": 1}] and [term["value"] for term in total["terms"]] == [15.0, 24.0]
    assert total["terms"][1]["terms"][0] == {"kind": "entry", "value": 4.0, "terms": [], "array": "x", "index": [1, 1]}
    assert [(entry["array"], entry["index"]) for entry in spelled["entries"]] == [
        ("x", [1, 0]), ("w", [0, 0]), ("x", [1, 1]), ("w", [1, 0])]


def test_intermediates_are_listed_once_with_their_own_terms():
    text = """
        mu[...] = mean(j, x[..., j])
        c[..., i] = x[..., i] - mu[...]
        y[..., i] = c[..., i] * c[..., i]
    """
    spelled = spell(formula(text), {"x": X, "y": X}, (1, 2, 0))
    assert spelled["value"] == 2.25
    assert {key: term["value"] for key, term in spelled["named"].items()} == {"c[1,2,0]": -1.5, "mu[1,2]": 21.5}
    assert [term["key"] for term in spelled["tree"]["terms"]] == ["c[1,2,0]", "c[1,2,0]"]


def test_terms_whose_condition_does_not_hold_are_left_out():
    spelled = spell(formula("dw[v] = sum(..., dy[...], where=ids[...] == v)"),
                    {"ids": np.array([[2, 0], [2, 2]]), "dy": np.array([[1.0, 2.0], [4.0, 8.0]]), "w": np.zeros(3)}, (2,))
    assert spelled["value"] == 13.0
    assert spelled["tree"]["places"] == [{"...": [0, 0]}, {"...": [1, 0]}, {"...": [1, 1]}]


@pytest.mark.parametrize("text, arrays, index, expected", [
    ("y[..., i] = x[..., i] + b[i]", {"b": np.arange(4.0)}, (1, 2, 3), 26.0),
    ("y[..., t, i] = x[..., t, i] * m[..., t, i]", {"m": np.full((1, 1, 2, 1, 4), 2.0)}, (1, 2, 3), 46.0),    # too many axes
    ("y[..., t, i] = g[..., t, i]", {"g": np.array([[[7.0]], [[8.0]]])}, (1, 2, 3), 8.0),       # stretched axes
    ("y[b, ..., i] = p[b, i]", {"p": np.arange(8.0).reshape(2, 4)}, (1, 2, 3), 7.0),            # "..." in the middle
    ("y[..., i] = x[..., (i + 1) % n]", {}, (0, 0, 3), 0.0),
    ("y[..., i] = x[..., i // 2 * 2] if i > 1 and i != 2 else -inf", {}, (0, 0, 3), 2.0),
    ("y[..., i] = x[..., i // 2 * 2] if i > 1 and i != 2 else -inf", {}, (0, 0, 2), "-inf"),
    ("y[..., i] = sum(r < n, t, x[0, t, r]) - max(j, x[..., j]) ** 2", {}, (0, 1, 0), 66.0 - 49.0),
    ("y[..., i] = log(x[..., i])", {}, (0, 0, 0), "-inf"),
    ("y[..., i] = x[..., i] / (i - i)", {}, (0, 0, 0), "nan"),
    ("y[..., i] = exp(1000 * x[..., i])", {}, (1, 0, 0), "inf"),
])
def test_what_the_language_can_say(text, arrays, index, expected):
    spelled = spell(formula(text, n=4), {"x": X, "y": X, **arrays}, index)
    assert spelled["value"] == expected
    json.dumps(spelled, allow_nan=False)


@pytest.mark.parametrize("text, sentence", [
    ("x[i]", "a formula is an assignment"),
    ("y[i] = sum(j, x[i])", "indexes no axis"),
    ("y[i] = arcsinh(x[i])", "no function 'arcsinh'"),
    ("y[i] = x[i] or 1", "joined by"),
    ("y[i] = [x[i]]", "formulas have no List"),
])
def test_texts_that_are_no_formulas(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        formula(text)


def test_entries_that_do_not_exist():
    double = formula("y[...] = 2 * x[...]")
    for index in [(2, 0, 0), (0, 0), (0, 0, -1)]:
        with pytest.raises(ValueError, match="There is no entry"):
            spell(double, {"x": X, "y": X}, index)
    with pytest.raises(ValueError, match="reads an array “x”, but this operation has none"):
        spell(double, {"y": X}, (0, 0, 0))
    with pytest.raises(ValueError, match=r"reads x\[3\], but x has the shape 3"):
        spell(formula("y[i] = x[i + 1]"), {"x": np.ones(3), "y": np.ones(3)}, (2,))


def test_a_number_that_depends_on_too_many_others(monkeypatch):
    monkeypatch.setattr(evaluator, "MOST", 50)
    total = formula("y = sum(..., x[...])")
    assert spell(total, {"x": X, "y": np.array(0.0)}, ())["value"] == X.sum()
    with pytest.raises(ValueError, match="depends on more than 50 others"):
        spell(total, {"x": np.ones(60), "y": np.array(0.0)}, ())


def test_only_the_nearest_intermediates_are_listed(monkeypatch):
    monkeypatch.setattr(evaluator, "LISTED", 10)
    text = """
        total[...] = sum(j, x[..., j])
        y = sum(..., total[...])
    """
    spelled = spell(formula(text), {"x": X, "y": np.array(0.0)}, ())
    assert spelled["value"] == X.sum() and set(spelled["named"]) == {"total[0,0]", "total[0,1]"}
