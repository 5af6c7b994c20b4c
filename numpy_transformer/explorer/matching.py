"""Finds how the code of a composite component computed an array from the values that it had at hand.

An array that shares memory with a value is a view of it. A new array is tried as a sum and as a product of two
values, then as a copy, a rearrangement or a selection of one. Comparisons are exact: the same sum gives the same bits.
"""

import itertools

import numpy as np

from ..layers import PerHead
from .origin import Computation, is_close, same_array, sum_to
from .rearranging import find_joined, find_rearranged, find_selected, find_slice, find_stacked


def find_value(array, scope, copies):
    """Returns the Value that equals the array, a Computation that gives it, or None for an unknown array."""
    values = [value for value in reversed(scope.values) if value.array.dtype.kind == array.dtype.kind]
    if array.dtype.kind != "f":
        return find_equal(array, values) or find_outside(array, scope)
    views = [value for value in values if copies.owner(value.array) == copies.owner(array)]
    per_head = isinstance(scope.call.module, PerHead)
    operands = values + [value for value in scope.parameters if value not in values]
    return (find_equal(array, views) or find_rearranged(array, views, per_head) or find_sum(array, operands)
            or find_product(array, operands) or find_equal(array, values) or find_rearranged(array, values, per_head)
            or find_selected(array, values, scope.values) or find_slice(array, values)
            or find_joined(array, values) or find_stacked(array, values) or find_outside(array, scope)
            or find_sum_of_three(array, values) or find_combination(array, values) or own_code(values, scope.parameters))


def find_equal(array, values):
    return next((value for value in values if same_array(value.array, array)), None)


def find_outside(array, scope):
    """Returns an equal value of an enclosing component: what comes in as an attribute, for example."""
    outer = scope.outer
    while outer is not None:
        match = find_equal(array, [value for value in reversed(outer.values) if value.array.dtype == array.dtype])
        if match is not None:
            return match
        outer = outer.outer
    return None


def find_sum(array, values):
    for first, second in pairs(array, values, np.add):
        def backward(dy, a=first.array, b=second.array):
            return {"a": sum_to(dy, a.shape), "b": sum_to(dy, b.shape)}
        return Computation("add", {"a": first, "b": second}, backward)
    return None


def find_product(array, values):
    for first, second in pairs(array, values, np.multiply):
        def backward(dy, a=first.array, b=second.array):
            return {"a": sum_to(dy * b, a.shape), "b": sum_to(dy * a, b.shape)}
        return Computation("multiply", {"a": first, "b": second}, backward)
    return None


def find_sum_of_three(array, values):
    """Finds a + b + c, such as a block whose two sublayers run side by side: x + attention + feed forward."""
    values = [value for value in values if value.array.shape == array.shape and np.isfinite(value.array).all()]
    last = (-1,) * array.ndim
    for operands in itertools.combinations(reversed(values), 3):
        a, b, c = (value.array for value in operands)
        if array.size and np.isclose(a[last] + b[last] + c[last], array[last], rtol=1e-9) and is_close(a + b + c, array):
            return Computation("add", dict(zip("abc", operands)), lambda dy: dict.fromkeys("abc", dy))
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
        if array.size and function(a[last], b[last]) == array[last] and same_array(function(a, b), array):
            yield first, second


def find_combination(array, values):
    """Finds 2 a, a - b, (a + b) / 2 and the like: one or two values, each times a number."""
    values = [value for value in values if value.array.shape == array.shape and np.isfinite(value.array).all()]
    if array.size < 4 or not np.isfinite(array).all():      # any few numbers are a combination of others
        return None
    for operands in [*itertools.combinations(values, 1), *itertools.combinations(values, 2)]:
        operands = operands[::-1]                           # the earlier one first
        columns = np.stack([value.array.ravel() for value in operands], -1)
        factors = np.linalg.lstsq(columns, array.ravel(), rcond=None)[0]
        if is_close(columns @ factors, array.ravel()) and np.abs(factors).min() > 1e-9:
            factors = dict(zip("ab", (float(round(factor, 12)) for factor in factors)))
            return Computation("combination", dict(zip("ab", operands)),
                         lambda dy: {slot: factor * dy for slot, factor in factors.items()},
                         numbers={f"factor_{slot}": factor for slot, factor in factors.items()})
    return None


def own_code(values, parameters):
    """An array that the component's code computes in a way that is not known, from what was not used before.

    What it uses besides is seen later, from gradients that nothing else explains: see gradients.py.
    """
    used = [value for value in values if not value.consumers] or values[:1]
    if not used:
        return None
    used = [*reversed(used), *(value for value in parameters if not value.consumers)]
    slots = ["x", *(f"x{number}" for number in range(2, len(used) + 1))]
    return Computation("own code", dict(zip(slots, used)), visible=[*values, *parameters])
