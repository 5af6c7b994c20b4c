"""Finds how the code of a composite component computed an array from the values that it had at hand.

An array that shares memory with a value is a view of it. A new array is tried as a sum and as a product of two
values, then as a copy, a rearrangement or a selection of one. Comparisons are exact: the same sum gives the same bits.
"""

import itertools
from dataclasses import dataclass, field
from typing import Callable

import numpy as np

MOST_AXES = 4                                   # no transpositions are tried for arrays with more


@dataclass(eq=False, repr=False)
class Found:
    """How an array was computed.

    Attributes:
        kind : "add", "multiply", "reshape", "select", "own code", ... as in FORMAT.md
        inputs : {slot: Value}
        backward : function from the gradient of the result to {slot: gradient}, or None if it is unknown
        name : what its id ends with
        numbers : {name: number}
        visible : for "own code", all values that it may have used
    """

    kind: str
    inputs: dict
    backward: Callable = None
    name: str = ""
    numbers: dict = field(default_factory=dict)
    visible: list = ()

    def __repr__(self):
        return f"Found({self.name!r})"

    def __post_init__(self):
        self.name = self.name or self.kind.replace(" ", "_")


def find(array, scope, copies):
    """Returns the Value that equals the array, a Found that computes it, or None for an unknown array."""
    values = [value for value in reversed(scope.values) if value.array.dtype.kind == array.dtype.kind]
    if array.dtype.kind != "f":
        return find_equal(array, values) or find_outside(array, scope)
    views = [value for value in values if copies.owner(value.array) == copies.owner(array)]
    operands = values + [value for value in scope.parameters if value not in values]
    return (find_equal(array, views) or find_rearranged(array, views) or find_sum(array, operands)
            or find_product(array, operands) or find_equal(array, values) or find_rearranged(array, values)
            or find_selected(array, values, scope.values) or find_outside(array, scope)
            or find_combination(array, values) or own_code(values))


def find_equal(array, values):
    return next((value for value in values if same(value.array, array)), None)


def find_outside(array, scope):
    """Returns an equal value of an enclosing component: what comes in as an attribute, for example."""
    outer = scope.outer
    while outer is not None:
        found = find_equal(array, [value for value in reversed(outer.values) if value.array.dtype == array.dtype])
        if found is not None:
            return found
        outer = outer.outer
    return None


def find_sum(array, values):
    for first, second in pairs(array, values, np.add):
        def backward(dy, a=first.array, b=second.array):
            return {"a": sum_to(dy, a.shape), "b": sum_to(dy, b.shape)}
        return Found("add", {"a": first, "b": second}, backward)
    return None


def find_product(array, values):
    for first, second in pairs(array, values, np.multiply):
        def backward(dy, a=first.array, b=second.array):
            return {"a": sum_to(dy * b, a.shape), "b": sum_to(dy * a, b.shape)}
        return Found("multiply", {"a": first, "b": second}, backward)
    return None


def pairs(array, values, function):
    """Yields pairs of values, the earlier one first, for which function(first, second) is the array."""
    for second, first in [*itertools.combinations(values, 2), *((value, value) for value in values)]:
        if second.kind == "parameter" and first.kind == "parameter":
            continue
        if first.kind == "parameter" or second.kind == "parameter":
            first, second = sorted((first, second), key=lambda value: value.kind == "parameter")
        try:
            shape = np.broadcast_shapes(first.array.shape, second.array.shape)
        except ValueError:
            continue
        if shape != array.shape or array.shape not in (first.array.shape, second.array.shape):
            continue
        last = (-1,) * array.ndim
        a, b = (np.broadcast_to(value.array, shape) for value in (first, second))
        if array.size and function(a[last], b[last]) == array[last] and same(function(a, b), array):
            yield first, second


def find_rearranged(array, values):
    for value in values:
        if value.array.size != array.size:
            continue
        for name, forward, backward in rearrangements(value.array, array.shape):
            if same(forward(value.array), array):
                return Found("reshape", {"x": value}, lambda dy: {"x": backward(dy)}, name)
    return None


def rearrangements(x, shape):
    """Yields (name, function, its inverse) for the ways to rearrange x into an array of this shape.

    The name follows from the shapes: code that splits heads with a wrong reshape still means to split them.
    """
    name = "reshape"
    if len(shape) == x.ndim + 1 >= 3 and shape[-2] == x.shape[-2] and shape[-3] * shape[-1] == x.shape[-1]:
        name = "split_heads"
        yield (name, lambda x: x.reshape(*x.shape[:-1], shape[-3], shape[-1]).swapaxes(-2, -3),
               lambda dy: dy.swapaxes(-2, -3).reshape(x.shape))
    if len(shape) == x.ndim - 1 >= 2 and shape[-2] == x.shape[-2] and x.shape[-3] * x.shape[-1] == shape[-1]:
        name = "merge_heads"
        yield (name, lambda x: x.swapaxes(-2, -3).reshape(shape),
               lambda dy: dy.reshape(*shape[:-1], x.shape[-3], x.shape[-1]).swapaxes(-2, -3))
    yield name, lambda x: x.reshape(shape), lambda dy: dy.reshape(x.shape)
    if len(shape) == x.ndim <= MOST_AXES:
        for axes in itertools.permutations(range(x.ndim)):
            if tuple(x.shape[axis] for axis in axes) == tuple(shape):
                yield ("transpose", lambda x, axes=axes: x.transpose(axes),
                       lambda dy, axes=axes: dy.transpose(np.argsort(axes)))


def find_selected(array, values, all_values):
    """Finds rows that integer positions select, and one entry of an axis, such as the first token."""
    positions = [value for value in all_values if value.array.dtype.kind in "iu"]
    for value in values:
        x = value.array
        for chosen in positions:
            rows = chosen.array
            if rows.shape == array.shape[:-1] and x.ndim == array.ndim and x.shape[:-2] == array.shape[:-2]:
                if rows.min() >= 0 and rows.max() < x.shape[-2]:
                    if same(np.take_along_axis(x, rows[..., None], -2), array):
                        return Found("select", {"x": value, "positions": chosen}, scatter(x, rows))
        for axis in range(x.ndim):
            if x.shape[:axis] + x.shape[axis + 1:] == array.shape:
                for at in range(x.shape[axis]):
                    if same(x.take(at, axis), array):
                        return Found("select", {"x": value}, scatter_entry(x, axis, at),
                                     numbers={"axis": axis, "at": at})
    return None


def scatter(x, rows):
    """Returns the backward of a selection of rows: each goes back to its place, and repeated ones are added."""
    def backward(dy):
        dx = np.zeros(x.shape)
        leading = np.indices(rows.shape)[:-1]
        np.add.at(dx, (*leading, rows), dy)
        return {"x": dx}
    return backward


def scatter_entry(x, axis, at):
    def backward(dy):
        dx = np.zeros(x.shape)
        np.moveaxis(dx, axis, 0)[at] = dy
        return {"x": dx}
    return backward


def find_combination(array, values):
    """Finds 2 a, a - b, (a + b) / 2 and the like: one or two values, each times a number."""
    values = [value for value in values if value.array.shape == array.shape and np.isfinite(value.array).all()]
    if array.size < 4 or not np.isfinite(array).all():      # any few numbers are a combination of others
        return None
    for operands in [*itertools.combinations(values, 1), *itertools.combinations(values, 2)]:
        operands = operands[::-1]                           # the earlier one first
        columns = np.stack([value.array.ravel() for value in operands], -1)
        factors = np.linalg.lstsq(columns, array.ravel(), rcond=None)[0]
        is_close = np.abs(columns @ factors - array.ravel()).max() <= 1e-13 * np.abs(columns * factors).max(initial=0)
        if is_close and np.abs(factors).min() > 1e-9:
            factors = dict(zip("ab", (float(round(factor, 12)) for factor in factors)))
            return Found("combination", dict(zip("ab", operands)),
                         lambda dy: {slot: factor * dy for slot, factor in factors.items()},
                         numbers={f"factor_{slot}": factor for slot, factor in factors.items()})
    return None


def own_code(values):
    """An array that the component's code computes in a way that is not known, from what was not used before.

    What it uses besides is seen later, from gradients that nothing else explains: see gradients.py.
    """
    used = [value for value in values if not value.consumers] or values[:1]
    if not used:
        return None
    return Found("own code", dict(zip(["x", *(f"x{number}" for number in range(2, len(used) + 1))], reversed(used))),
                 visible=values)


def same(a, b):
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=True)


def sum_to(gradient, shape):
    """Sums a gradient over the axes along which an array of this shape was broadcast."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1 and gradient.shape[axis] != 1)
    return gradient.sum(stretched, keepdims=True) if stretched else gradient
