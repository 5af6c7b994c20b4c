"""Where the wrong entries of an array are: in which rows or columns, where a mask is False, where ids are repeated."""

import math

import numpy as np

from ....texts import Message, listed
from .pairs import ARGUMENT, rounded

SEVERAL = {"every_second_from_first", "every_second_from_second", "outside_first", "outside_last", "first_half",
           "second_half"}                       # regions of several rows or columns, which must all be wrong
INSIDE = {"outside_first": "first", "outside_last": "last"}
ZERO_EXPECTED = Message("relations.region.zero_expected")
MOST_LINES = 4                                  # rows or columns that a sentence lists
FEWEST_WRONG, FEWEST_RIGHT = 4, 10               # entries that a limit has to separate
LIKELY = math.log(1e-3)                         # entries that lie in a region by chance are no reason to name it


def place(pairs):
    """The smallest region that has a name and contains all wrong entries in every case."""
    if not all(p.same_shape and p.right.size > 1 and p.bad.any() for p in pairs):
        return None
    if all(p.bad.all() for p in pairs):
        return None
    best = None
    tables = [named_regions(p) for p in pairs]
    for name in tables[0]:
        at = [table.get(name) for table in tables]
        if any(y is None for y in at) or any((p.bad & ~y).any() for p, y in zip(pairs, at)):
            continue
        key = key_of(name)
        chance = sum(p.bad.sum() * math.log(max(y.mean(), 1e-9)) for p, y in zip(pairs, at))
        all_of_it = all((p.bad == y).all() for p, y in zip(pairs, at))
        size = sum(float(y.mean()) for y in at) / len(at)
        filled = sum(p.bad.sum() for p in pairs) / max(1, sum(y.sum() for y in at))
        least = 0.6 if key in SEVERAL else 0.03
        if chance > LIKELY or size > 0.95 or filled < least:
            continue
        if key in INSIDE and not any(p.right[~y].any() for p, y in zip(pairs, at)):
            continue                            # zeros inside are no evidence that the answer is correct there
        if best is None or (not all_of_it, size) < best[0]:
            best = (not all_of_it, size), name
    if best is None:
        return None
    (partly, _), name = best
    if key_of(name) in INSIDE and not partly:
        return Message("relations.correct_only.region", region=region(INSIDE[key_of(name)], **name.values))
    key, factor = ("region", {}) if name == ZERO_EXPECTED else what_is_there(pairs)
    return Message(f"relations.wrong_only.{key}", region=name, **factor)


def limit(pairs):
    """Where an argument of the same shape, or its absolute value, lies beyond a number: there all entries are wrong."""
    if not all(p.same_shape and p.right.size > 1 and p.bad.any() for p in pairs):
        return None
    bad = np.concatenate([p.bad.ravel() for p in pairs])
    if bad.sum() < FEWEST_WRONG or (~bad).sum() < FEWEST_RIGHT:
        return None
    for name, _ in arguments(pairs[0], "f"):
        arrays = [dict(arguments(p, "f"))[name] for p in pairs]
        if not all(y.shape == p.right.shape for p, y in zip(pairs, arrays)):
            continue
        values = np.concatenate([y.ravel() for y in arrays])
        for size, kind in ((values, ""), (abs(values), "size_")):
            for sign, side in ((1, "larger"), (-1, "smaller")):
                least, most = min(sign * size[bad]), max(sign * size[~bad])
                if most < least and most * least > 0:
                    number = sign * short_number_between(most, least)
                    key, factor = what_is_there(pairs)
                    return Message(f"relations.wrong_only.{key}", region=region(kind + side, name=name, limit=number), **factor)
    return None


def short_number_between(low, high):
    """Returns the number between these that has the fewest digits."""
    middle = (low + high) / 2
    numbers = (rounded(middle, digits) for digits in range(1, 16))
    return next((number for number in numbers if low <= number <= high), middle)


def wrong_lines(name, pairs):
    """Returns a sentence about the rows or columns with wrong entries in the first wrong case, if some have none."""
    p = next((p for p in pairs if not p.fine), None)
    if p is None or not p.same_shape or p.right.size < 2 or p.bad.all() or p.bad.sum() == 0:
        return None
    case = {"case": pairs.index(p) + 1} if len(pairs) > 1 else {}
    best = None
    for axis in range(-p.right.ndim, 0):
        others = tuple(a for a in range(-p.right.ndim, 0) if a != axis)
        at = np.flatnonzero(p.bad.any(others))
        if len(at) < p.right.shape[axis] and (best is None or len(at) < len(best[1])):
            best = axis, at
    if best and len(best[1]) <= MOST_LINES:
        axis, at = best
        lines = Message(f"relations.lines.{axis_key(axis, p.right.ndim)}", n=len(at), numbers=listed(at.tolist()), axis=axis)
        return Message("relations.lines.in_case" if case else "relations.lines.here", name=name, lines=lines, **case)
    if p.kind != "f" or p.bad.mean() > 0.9:
        return None                             # whole numbers and booleans have been counted already
    return Message("relations.lines.count_in_case" if case else "relations.lines.count_here", name=name,
                   wrong=int(p.bad.sum()), size=p.right.size, **case)


def what_is_there(pairs):
    """Returns what stands at the wrong entries, if it is the same everywhere: a key of [wrong_only], and its factor."""
    w, r = (np.concatenate([y[p.bad] for p, y in zip(pairs, arrays)])
            for arrays in ([p.wrong for p in pairs], [p.right for p in pairs]))
    is_boolean = pairs[0].kind == "b"
    if not r.any():
        return "false_expected" if is_boolean else "zero_expected", {}
    if not w.any():
        return "false" if is_boolean else "zero", {}
    if np.isnan(w).all():
        return "nan", {}
    if is_boolean:
        return "true" if w.all() else "region", {}
    if pairs[0].kind == "f" and len(w) > 2 and np.isfinite(w).all() and r.all():
        factors = w / r
        if np.ptp(factors) <= 1e-8 * abs(factors[0]):
            number = float(factors[0])
            return ("sign", {}) if abs(number + 1) < 1e-8 else ("multiple", {"factor": rounded(number)})
    return "region", {}


def region(key, **values):
    return Message(f"relations.region.{key}", **values)


def key_of(name):
    """Returns the key of a region's name."""
    return name.kind.removeprefix("relations.region.")


def named_regions(pair):
    """Returns {Message: boolean array} of the regions of an output that sentences can name."""
    shape = pair.right.shape
    regions = {**by_position(shape), **by_value(pair)}
    if len(shape) >= 2:
        row, column = np.ogrid[:shape[-2], :shape[-1]]
        regions |= {region("diagonal"): row == column, region("off_diagonal"): row != column,
                    region("above"): row < column, region("below"): row > column,
                    region("on_and_above"): row <= column, region("on_and_below"): row >= column}
    regions |= by_mask(pair) | by_id(pair)
    return {name: np.broadcast_to(y, shape) for name, y in regions.items()}


def by_position(shape):
    """The first, the last and all other positions along each axis; even and odd columns."""
    regions = {}
    for axis in range(-len(shape), 0):
        n = shape[axis]
        if n < 2:
            continue
        place = np.arange(n).reshape([n if a == axis else 1 for a in range(-len(shape), 0)])
        one, several = (Message(f"relations.axis.{axis_key(axis, len(shape))}", n=number, axis=axis) for number in (1, 2))
        regions |= {region("first", axis=one): place == 0, region("outside_first", axis=one): place > 0,
                    region("last", axis=one): place == n - 1, region("outside_last", axis=one): place < n - 1}
        if n > 2:
            regions |= {region("every_second_from_first", axis=one): place % 2 == 0,
                        region("every_second_from_second", axis=one): place % 2 == 1}
        if n > 3 and n % 2 == 0:
            regions |= {region("first_half", axes=several): place < n // 2,
                        region("second_half", axes=several): place >= n // 2}
    return regions


def axis_key(axis, ndim):
    """Returns the key of an axis, for the sections [axis] and [lines]."""
    if ndim == 1:
        return "entry"
    if axis in (-1, -2):
        return "column" if axis == -1 else "row"
    return "item" if axis == -ndim else "position"


def by_value(pair):
    """Where the correct value or an argument of the same shape is zero, positive or negative."""
    regions = {}
    if pair.kind == "f":
        regions |= {ZERO_EXPECTED: pair.right == 0, region("negative_expected"): pair.right < 0,
                    region("positive_expected"): pair.right > 0}
    for name, y in arguments(pair, "f"):
        if spreads(y, pair.right.shape):
            regions |= {region("zero", name=name): y == 0, region("not_zero", name=name): y != 0,
                        region("negative", name=name): y < 0, region("positive", name=name): y > 0}
    return regions


def arguments(pair, kind):
    """Yields (name, array) of the arguments with this kind of dtype and at least one axis."""
    for name, y in pair.arrays.items():
        if name.kind == ARGUMENT and y.dtype.kind == kind and y.ndim:
            yield name.values["name"], y


def by_mask(pair):
    """Where a boolean argument is True or False, along the axes that it has."""
    regions = {}
    for name, y in arguments(pair, "b"):
        for shown in (y, y[..., None], y[..., None, :]):
            if spreads(shown, pair.right.shape):
                regions |= {region("false", name=name): ~shown, region("true", name=name): shown}
                break
        if y.ndim >= 2 and pair.right.shape[:y.ndim - 1] == y.shape[:-1]:
            rest = (...,) + (None,) * (pair.right.ndim - y.ndim + 1)
            regions[region("false_everywhere", name=name)] = ~y.any(-1)[rest]
    return regions


def by_id(pair):
    """Rows of a table by how often an argument of ids names them, and positions whose id is the padding."""
    regions = {}
    pad, shape = pair.scalars.get("pad_id"), pair.right.shape
    for name, ids in arguments(pair, "i"):
        if not ids.size or ids.min() < 0:
            continue
        if shape and shape[0] > ids.max() and shape != ids.shape:
            count = np.bincount(ids.ravel(), minlength=shape[0])[(...,) + (None,) * (len(shape) - 1)]
            regions |= {region("more_than_once", name=name): count > 1, region("occurs", name=name): count > 0,
                        region("does_not_occur", name=name): count == 0}
            if isinstance(pad, int):
                regions[region("row_of_pad_id")] = np.arange(shape[0])[(...,) + (None,) * (len(shape) - 1)] == pad
        if isinstance(pad, int) and shape[:ids.ndim] == ids.shape:
            rest = (...,) + (None,) * (len(shape) - ids.ndim)
            padding = (ids == pad)[rest]
            regions |= {region("pad_id", name=name): padding, region("not_pad_id", name=name): ~padding}
    return regions


def spreads(y, shape):
    try:
        return np.broadcast_shapes(y.shape, shape) == shape
    except ValueError:
        return False
