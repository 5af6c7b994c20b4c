"""Formulas of what stands between components: sums, products, rearranged axes and picked rows.

What flows into such an operation has no fixed names; most often they are a and b.
"""

import math

import numpy as np

from ...layers.multi_head import merge_heads, split_heads
from .room import spells

AXES = "ijklmn"


@spells("add")
def add(op):
    yield f"{entry(op, 'y')} = " + " + ".join(entry(op, name) for name in op.inputs)
    for name in op.inputs:
        yield gradient(op, name, [])


@spells("multiply")
def multiply(op):
    yield f"{entry(op, 'y')} = " + " * ".join(entry(op, name) for name in op.inputs)
    for name in op.inputs:
        yield gradient(op, name, [entry(op, other) for other in op.inputs if other != name])


def entry(op, name):
    """Returns the text of the entry that belongs to an entry of y; an array of fewer axes is broadcast."""
    if op.shape(name) == op.shape("y"):
        shortest = min(len(op.shape(other)) for other in op.inputs)
        if shortest == len(op.shape("y")):
            return f"{name}[...]"
        return f"{name}[{', '.join(['...', *AXES[:shortest]])}]"
    return f"{name}[{', '.join(AXES[:len(op.shape(name))])}]"


def gradient(op, name, factors):
    """Returns the gradient of one input: dy times the other factors, summed over the axes along which it is broadcast.

    Raises: KeyError, which leaves the operation without formulas, if an axis of 1 is broadcast.
    """
    product = " * ".join([entry(op, "y").replace("y[", "dy[", 1), *factors])
    shape, whole = op.shape(name), op.shape("y")
    if shape == whole:
        return f"d{entry(op, name)} = {product}"
    if shape != whole[len(whole) - len(shape):]:
        raise KeyError(name)
    return f"d{entry(op, name)} = sum(..., {product})"


@spells("sum")
def total(op):
    """The loss of a model that is given none: the sum of its outputs."""
    yield "y = sum(..., x[...])"
    yield "dx[...] = dy"


@spells("select")
def select(op):
    yield "y[..., k, c] = x[..., positions[..., k], c]"
    yield "dx[..., t, c] = sum(k, dy[..., k, c], where=positions[..., k] == t)"


@spells("reshape")
def reshape(op):
    """Splitting and merging heads, transposed axes, or another shape for the same numbers in the same order."""
    x, y = op.arrays["x"], op.arrays["y"]
    if x.ndim >= 2 and y.ndim == x.ndim + 1 and same(split_heads(x, y.shape[-3]), y):
        op.name(d=y.shape[-1])
        yield "y[..., h, t, c] = x[..., t, h * d + c]"
        yield "dx[..., t, i] = dy[..., i // d, t, i % d]"
    elif x.ndim >= 3 and y.ndim == x.ndim - 1 and same(merge_heads(x), y):
        op.name(d=x.shape[-1])
        yield "y[..., t, i] = x[..., i // d, t, i % d]"
        yield "dx[..., h, t, c] = dy[..., t, h * d + c]"
    elif x.ndim >= 2 and same(x.swapaxes(-1, -2), y):
        yield "y[..., i, j] = x[..., j, i]"
        yield "dx[..., j, i] = dy[..., i, j]"
    elif same(x.reshape(y.shape), y):
        yield same_order("y", y.shape, "x", x.shape)
        yield same_order("dx", x.shape, "dy", y.shape)


def same(a, b):
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=True)


def same_order(target, shape, source, source_shape):
    """Returns the formula that rearranges the axes of `source` into `shape`, with the entries in the same order.

    Axes are matched in groups of the same product: (3, 4) and (12,), or (5,) and (5, 1).
    """
    variables, places = [], []
    for left, right in groups(shape, source_shape):
        own = [AXES[len(variables) + number] for number in range(len(left))]
        variables += own
        flat = " + ".join(scaled(name, math.prod(left[number + 1:])) for number, name in enumerate(own)) or "0"
        for number, size in enumerate(right):
            step = math.prod(right[number + 1:])
            place = flat if step == 1 else f"({flat}) // {step}"
            places.append(place if number == 0 else f"({place}) % {size}")
    return f"{target}{index_of(variables)} = {source}{index_of(places)}"


def scaled(name, step):
    return name if step == 1 else f"{name} * {step}"


def index_of(places):
    return f"[{', '.join(places)}]" if places else ""


def groups(left, right):
    """Yields pairs of pieces of two shapes that hold the same number of entries, as short as possible."""
    left, right = list(left), list(right)
    while left or right:
        a, b = left[:1], right[:1]
        del left[:1], right[:1]
        while math.prod(a) != math.prod(b):
            if math.prod(a) < math.prod(b):
                a.append(left.pop(0))
            else:
                b.append(right.pop(0))
        yield a, b
