"""Finds arrays that hold the entries of other arrays: in another shape or order, some of them, or those of several."""

import itertools

import numpy as np

from .origin import Computation, same_array

MOST_AXES = 4                                   # no transpositions are tried for arrays with more


def find_rearranged(array, values):
    for value in values:
        if value.array.size != array.size:
            continue
        for name, forward, backward in rearrangements(value.array, array.shape):
            if same_array(forward(value.array), array):
                return Computation("reshape", {"x": value}, lambda dy: {"x": backward(dy)}, name)
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
    if name == "reshape" and min(len(shape), x.ndim) >= 2:                        # for a norm of each head
        if shape[:-2] == x.shape[:-1]:
            name = "separate_heads"
        elif shape[:-1] == x.shape[:-2]:
            name = "join_heads"
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
                    if same_array(np.take_along_axis(x, rows[..., None], -2), array):
                        return Computation("select", {"x": value, "positions": chosen}, scatter(x, rows))
        for axis in range(x.ndim):
            if x.shape[:axis] + x.shape[axis + 1:] == array.shape:
                for at in range(x.shape[axis]):
                    if same_array(x.take(at, axis), array):
                        return Computation("select", {"x": value}, scatter_entry(x, axis, at),
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


def find_slice(array, values):
    """Finds x[..., start:stop] along any axis: the features of one head, for example."""
    for value in values:
        x = value.array
        differing = [axis for axis in range(x.ndim) if x.ndim == array.ndim and x.shape[axis] != array.shape[axis]]
        if len(differing) != 1 or x.shape[differing[0]] < array.shape[differing[0]]:
            continue
        axis = differing[0]
        length = array.shape[axis]
        for start in range(x.shape[axis] - length + 1):
            place = (slice(None),) * axis + (slice(start, start + length),)
            if same_array(x[place], array):
                return Computation("slice", {"x": value}, lambda dy: {"x": into_zeros(x.shape, place, dy)},
                             numbers={"axis": axis, "start": start, "stop": start + length})
    return None


def into_zeros(shape, place, dy):
    dx = np.zeros(shape)
    dx[place] = dy
    return dx


def find_stacked(array, values):
    """Finds values of one shape side by side along a new axis, such as the outputs of several heads of a model."""
    for axis in range(array.ndim):
        parts = [next((value for value in values if same_array(value.array, part)), None) for part in np.moveaxis(array, axis, 0)]
        if len(parts) > 1 and None not in parts:
            slots = [f"x{number}" for number in range(1, len(parts) + 1)]
            return Computation("stack", dict(zip(slots, parts)),
                               lambda dy: {slot: dy.take(at, axis) for at, slot in enumerate(slots)}, numbers={"axis": axis})
    return None


def find_joined(array, values):
    """Finds a concatenation of values along one axis, such as the outputs of several heads."""
    for axis in reversed(range(array.ndim)):
        parts = []
        places = []
        start = 0
        while start < array.shape[axis]:
            for value in values:
                x = value.array
                stop = start + (x.shape[axis] if x.ndim == array.ndim else 0)
                place = (slice(None),) * axis + (slice(start, stop),)
                if start < stop <= array.shape[axis] and same_array(array[place], x):
                    parts.append(value)
                    places.append(place)
                    start = stop
                    break
            else:
                break
        if start == array.shape[axis] and len(parts) > 1:
            slots = [f"x{number}" for number in range(1, len(parts) + 1)]
            return Computation("concatenate", dict(zip(slots, parts)),
                         lambda dy: {slot: dy[place] for slot, place in zip(slots, places)}, numbers={"axis": axis})
    return None
