"""The page's evaluator of formulas: the numbers of NumPy's components, and the same derivation as the one in Python."""

import math

import numpy as np
from helpers.browser import example

from numpy_transformer.explorer.document import make_step
from numpy_transformer.explorer.formulas import formulas_of, spell

EVALUATE = """
    const { evaluate, reviveNumbers } = await import("explorer/evaluate");
    const [formula, arrays, indexes] = given;
    for (const array of Object.values(arrays)) array.data = array.data.map((x) => typeof x === "string" ? Number(x) : x);
    const plain = (x) => typeof x === "number" && !Number.isFinite(x) ? String(x) : x;
    if (indexes) return JSON.parse(JSON.stringify(indexes.map((index) => evaluate(formula, arrays, index)), (key, x) => plain(x)));
    const { shape } = arrays[formula.target];
    const count = shape.reduce((product, size) => product * size, 1);
    const indexOf = (flat) => shape.map((size, axis) =>
        Math.floor(flat / shape.slice(axis + 1).reduce((product, size) => product * size, 1)) % size);
    return Array.from({ length: count }, (_, flat) => plain(evaluate(formula, arrays, indexOf(flat)).value));"""


def sent(array):
    """An array as JSON, which has no infinities."""
    return {"shape": list(np.shape(array)),
            "data": [x if math.isfinite(x) else str(x).replace("inf", "Infinity").replace("nan", "NaN")
                     for x in np.asarray(array, float).ravel().tolist()]}


def test_every_entry_of_every_array_of_the_tiny_models(live, kind):
    page = live()
    inputs, targets, tokens = example(kind).read()
    step = make_step(example(kind).model, inputs, targets, example(kind).criterion, tokens=tokens)
    rng, entries, formulas = np.random.default_rng(0), 0, 0
    for op in step.ops.values():
        arrays = op.arrays()
        named = {name: sent(array) for name, array in arrays.items()}
        for target, formula in formulas_of(op).items():
            needed = {name: named[name] for name in {*formula.names, target}}
            found = np.array([float(x) for x in page.run(EVALUATE, formula.tree(), needed, None)]).reshape(np.shape(arrays[target]))
            right = np.asarray(arrays[target], float)
            finite = np.isfinite(right)
            assert np.array_equal(found[~finite], right[~finite]), (op.id, target)
            error = np.linalg.norm(found[finite] - right[finite]) / max(np.linalg.norm(right[finite]), 1e-6)
            assert error < 1e-10, (op.id, target, error)
            indexes = [[int(rng.integers(size)) for size in right.shape] for _ in range(2)]
            for index, spelled in zip(indexes, page.run(EVALUATE, formula.tree(), needed, indexes), strict=True):
                same(spelled, spell(formula, arrays, tuple(index)), f"{op.id} {target} {index}")
            entries, formulas = entries + right.size, formulas + 1
    assert entries > 3_000 and formulas > 50 and page.errors() == []


def same(found, wanted, where):
    """Asserts that two derivations have the same parts, and the same numbers up to rounding."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), where
        for key in wanted:
            same(found[key], wanted[key], f"{where}.{key}")
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted), where
        for i, pair in enumerate(zip(found, wanted, strict=True)):
            same(*pair, f"{where}.{i}")
    elif isinstance(wanted, float) and isinstance(found, (int, float)):
        assert math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12), (where, found, wanted)
    elif isinstance(wanted, str) and wanted in ("inf", "-inf", "nan"):
        assert found.replace("Infinity", "inf").replace("NaN", "nan") == wanted, where
    else:
        assert found == wanted, (where, found, wanted)
