"""Formulas of what stands between components: sums, products, rearranged axes and picked rows.

What flows into such an operation has no fixed names; most often they are a and b.
"""

import itertools
import math

from ...layers.heads import merge_heads, split_heads
from ..origin import same_array
from .writers import spells

AXES = "ijklmn"
OTHER_AXES = "uvwxyz"                               # of an input that is stretched along this axis


@spells("add")
def add(op):
    letters = letters_of(op)
    terms = {name: entry(op, name, letters) for name in op.inputs}
    yield f"{entry(op, 'y', letters)} = {' + '.join(terms.values())}"
    for name in op.inputs:
        yield gradient(op, name, letters)


@spells("combination")
def combination(op):
    """y = factor_a a + factor_b b, with one or two inputs."""
    letters = letters_of(op)
    terms = [f"factor_{name} * {entry(op, name, letters)}" for name in op.inputs]
    yield f"{entry(op, 'y', letters)} = {' + '.join(terms)}"
    for name in op.inputs:
        yield gradient(op, name, letters, f" * factor_{name}")


@spells("multiply")
def multiply(op):
    letters = letters_of(op)
    terms = {name: entry(op, name, letters) for name in op.inputs}
    yield f"{entry(op, 'y', letters)} = {' * '.join(terms.values())}"
    for name in op.inputs:
        others = [term for other, term in terms.items() if other != name]
        yield gradient(op, name, letters, "".join(f" * {term}" for term in others))


def gradient(op, name, letters, factors=""):
    """Returns the formula of one input's gradient: dy times the factors, summed where the input is stretched."""
    target, ranges = gradient_index(op, name, letters)
    product = f"d{entry(op, 'y', letters)}{factors}"       # dy comes first: its axes are the ranges of the sum
    return f"d{name}{index_of(target)} = " + (f"sum({', '.join(ranges)}, {product})" if ranges else product)


def letters_of(op):
    """Returns the index of y: "..." as far as all arrays have the same axes, then a letter for each axis."""
    y = op.shape("y")
    shapes = [op.shape(name) for name in op.inputs]
    if all(shape == y for shape in shapes):
        return ["..."]
    shortest = min(shapes, key=len)
    if all(shape in (y, shortest) for shape in shapes) and shortest == y[len(y) - len(shortest):]:
        return ["...", *AXES[:len(shortest)]]
    return list(AXES[:len(y)])


def entry(op, name, letters):
    """Returns the text of the entry of an array that belongs to an entry of y."""
    if len(op.shape(name)) < len(op.shape("y")):
        letters = [letter for letter in letters if letter != "..."][-len(op.shape(name)):] if op.shape(name) else []
    return name + index_of(letters)


def gradient_index(op, name, letters):
    """Returns the index of an input's gradient, and the letters over which dy is summed: those along which the input
    is stretched to the shape of y."""
    shape, y = op.shape(name), op.shape("y")
    if "..." in letters:
        return (letters, []) if shape == y else (letters[1:], ["..."])
    missing = len(y) - len(shape)
    stretched = [axis < missing or shape[axis - missing] != size for axis, size in enumerate(y)]
    target = [OTHER_AXES[axis] if stretched[axis] else letters[axis] for axis in range(missing, len(y))]
    return target, [letter for letter, summed in zip(letters, stretched) if summed]


@spells("sum")
def total(op):
    """The loss of a model that is given none: the sum of its outputs."""
    yield "y = sum(..., x[...])"
    yield "dx[...] = dy"


@spells("select")
def select(op):
    """Rows that positions pick, or one entry of an axis, such as the first token."""
    if op.has("positions"):
        yield "y[..., k, c] = x[..., positions[..., k], c]"
        yield "dx[..., t, c] = sum(k, dy[..., k, c], where=positions[..., k] == t)"
        return
    letters = list(AXES[:len(op.shape("x"))])
    place = op.numbers["axis"]
    own = letters.pop(place)
    yield f"y{index_of(letters)} = x{index_of([*letters[:place], 'at', *letters[place:]])}"
    yield f"dx{index_of([*letters[:place], own, *letters[place:]])} = dy{index_of(letters)} if {own} == at else 0"


@spells("slice")
def part(op):
    """x[..., start:stop] along any axis."""
    letters = list(AXES[:len(op.shape("x"))])
    axis = op.numbers["axis"]
    own = letters[axis]
    moved = [*letters[:axis], f"{own} + start", *letters[axis + 1:]]
    back = [*letters[:axis], f"{own} - start", *letters[axis + 1:]]
    yield f"y{index_of(letters)} = x{index_of(moved)}"
    yield f"dx{index_of(letters)} = dy{index_of(back)} if start <= {own} and {own} < stop else 0"


@spells("concatenate")
def concatenate(op):
    """Several arrays, one after another along an axis. One of them may be the same along another axis, such as all heads."""
    letters = list(AXES[:len(op.shape("y"))])
    axis = op.numbers["axis"]
    own = letters[axis]
    text = ""
    start = sum(op.shape(name)[axis] for name in op.inputs)
    for name in reversed(list(op.inputs)):
        end = start
        start -= op.shape(name)[axis]
        stretched = [place for place, size in enumerate(op.shape("y")) if place != axis and op.shape(name)[place] != size]
        index = ["0" if place in stretched else letter for place, letter in enumerate(letters)]
        term = name + index_of([*index[:axis], f"{own} - {start}", *index[axis + 1:]])
        text = f"{term} if {own} < {end} else {text}" if text else term
        target = [OTHER_AXES[place] if place in stretched else letter for place, letter in enumerate(letters)]
        moved = f"dy{index_of([*letters[:axis], f'{own} + {start}', *letters[axis + 1:]])}"
        ranges = "".join(f"{letters[place]}, " for place in stretched)
        yield f"d{name}{index_of(target)} = {f'sum({ranges}{moved})' if stretched else moved}"
    yield f"y{index_of(letters)} = {text}"


@spells("stack")
def stack(op):
    """Several arrays side by side along a new axis."""
    letters = list(AXES[:len(op.shape("y"))])
    axis = op.numbers["axis"]
    own = letters.pop(axis)
    text = ""
    for at, name in reversed(list(enumerate(op.inputs))):
        term = name + index_of(letters)
        text = f"{term} if {own} == {at} else {text}" if text else term
        yield f"d{name}{index_of(letters)} = dy{index_of([*letters[:axis], str(at), *letters[axis:]])}"
    yield f"y{index_of([*letters[:axis], own, *letters[axis:]])} = {text}"


@spells("head product")
def head_product(op):
    """Each head times its own columns of one weight, or times their transpose."""
    op.name(stop=op.numbers["start"] + op.shape("x" if op.numbers["transposed"] else "y")[-1])
    if op.numbers["transposed"]:
        yield "y[..., h, t, r] = sum(i, x[..., h, t, i] * weight[r, h * width + start + i])"
        yield "dx[..., h, t, i] = sum(r, dy[..., h, t, r] * weight[r, h * width + start + i])"
        term = "x[..., c // width, t, c % width - start] * dy[..., c // width, t, r]"
    else:
        yield "y[..., h, t, o] = sum(r, x[..., h, t, r] * weight[r, h * width + start + o])"
        yield "dx[..., h, t, r] = sum(o, dy[..., h, t, o] * weight[r, h * width + start + o])"
        term = "x[..., c // width, t, r] * dy[..., c // width, t, c % width - start]"
    yield f"dweight[r, c] = sum(..., t, {term}) if start <= c % width and c % width < stop else 0"


@spells("reshape")
def reshape(op):
    """Splitting and merging heads, another shape for the same numbers in the same order, or permuted axes."""
    x, y = op.arrays["x"], op.arrays["y"]
    splits = y.ndim == x.ndim + 1 >= 3 and y.shape[-3] * y.shape[-1] == x.shape[-1]
    merges = y.ndim == x.ndim - 1 >= 2 and x.shape[-3] * x.shape[-1] == y.shape[-1]
    if splits and same_array(split_heads(x, y.shape[-3]), y):
        op.name(d=y.shape[-1])
        yield "y[..., h, t, c] = x[..., t, h * d + c]"
        yield "dx[..., t, i] = dy[..., i // d, t, i % d]"
    elif merges and same_array(merge_heads(x), y):
        op.name(d=x.shape[-1])
        yield "y[..., t, i] = x[..., i // d, t, i % d]"
        yield "dx[..., h, t, c] = dy[..., t, h * d + c]"
    elif same_array(x.reshape(y.shape), y):
        yield same_order("y", y.shape, "x", x.shape)
        yield same_order("dx", x.shape, "dy", y.shape)
    else:
        order = next((axes for axes in itertools.permutations(range(x.ndim)) if same_array(x.transpose(axes), y)), None)
        if order is None:
            return
        of_x = AXES[:x.ndim]
        of_y = [of_x[axis] for axis in order]
        yield f"y{index_of(of_y)} = x{index_of(of_x)}"
        yield f"dx{index_of(of_x)} = dy{index_of(of_y)}"


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
