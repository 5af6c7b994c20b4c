"""The page's evaluator gives the same spelling as Python's, for every formula; and each formula can be drawn."""

import json
import math

import numpy as np
import pytest
from helpers.formulas import LEAVES, run

from numpy_transformer.explorer.formulas import formulas_of, spell
from numpy_transformer.explorer.formulas.spelling import jsonable

EVALUATE = """
const [cases, done] = arguments;
Promise.all([import("explorer/evaluate"), import("explorer/spelling"), import("explorer/mathml")]).then(
    ([{ evaluate }, { reviveNumbers }, { formulaToMathML }]) => {
        // Numbers that are not finite become strings, as JSON from Python has them.
        const plain = (value) => typeof value === "number" && !Number.isFinite(value)
            ? { NaN: "nan", Infinity: "inf", "-Infinity": "-inf" }[value] : value;
        done(cases.map(({ formula, arrays, index }) => {
            for (const array of Object.values(arrays)) {
                array.data = reviveNumbers(array.data.map((value) => ({ value }))).map(({ value }) => value);
            }
            const spelled = evaluate(formula, arrays, index);
            const drawn = formulaToMathML(formula).map((line) => line.textContent);
            return { spelled: JSON.stringify(spelled, (key, value) => plain(value)), drawn };
        }));
    }).catch((error) => done(String(error)));
"""


def cases(sample, rng):
    op, arrays = run(*sample.make())
    for target, formula in formulas_of(op).items():
        shape_of = target if target in op.outputs else target[1:]
        needed = {name: np.asarray(arrays[name]) for name in {*formula.names, shape_of}}
        yield formula, needed, [int(rng.integers(size)) for size in arrays[target].shape]


def as_page_has_it(array):
    return {"shape": list(array.shape), "data": [jsonable(value) for value in array.ravel().tolist()]}


def assert_same(a, b, place):
    """Compares two spellings: structure and texts exactly, numbers up to rounding."""
    if isinstance(a, dict):
        assert set(a) == set(b), place
        for key in a:
            assert_same(a[key], b[key], f"{place}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), place
        for number, (left, right) in enumerate(zip(a, b)):
            assert_same(left, right, f"{place}[{number}]")
    elif isinstance(a, float):
        assert b == pytest.approx(a, rel=1e-11, abs=1e-13), place
    else:
        assert a == b, place


def test_the_page_evaluates_formulas_as_python_does(live):
    driver = live().driver
    for sample in LEAVES:
        chosen = list(cases(sample, np.random.default_rng(0)))
        answers = driver.execute_async_script(EVALUATE, [
            {"formula": formula.tree(), "arrays": {name: as_page_has_it(array) for name, array in arrays.items()},
             "index": index} for formula, arrays, index in chosen])
        assert isinstance(answers, list), answers
        for (formula, arrays, index), answer in zip(chosen, answers, strict=True):
            assert_same(spell(formula, arrays, index), json.loads(answer["spelled"]), f"{sample.name} {formula.target}")
            assert len(answer["drawn"]) >= len(formula.text.splitlines())


def test_erf_of_the_page(live):
    xs = [*np.linspace(-7, 7, 1401), 1e-300, 1e-9, 0.0, 26.0, 30.0]
    found = live().driver.execute_async_script("""
        const [xs, done] = arguments;
        import("explorer/erf").then(({ erf }) => done(xs.map(erf)));""", [float(x) for x in xs])
    np.testing.assert_allclose(found, [math.erf(x) for x in xs], rtol=2e-15, atol=0)
