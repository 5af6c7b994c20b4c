"""Where the wrong entries of an array are: in which rows or columns, where a mask is False, where ids are repeated."""

import math

import numpy as np

from .cases import listed

SEVERAL = "every second", "outside", "half"       # regions of several rows or columns, which must all be wrong
MOST_LINES = 4                                  # rows or columns that a sentence lists
CORRECT_IS_0 = "where 0 is expected"
LIKELY = math.log(1e-3)                         # entries that lie in a region by chance are no reason to name it


def place(pairs):
    """The smallest region that has a name and contains all wrong entries in every case."""
    if not all(p.same_shape and p.right.size > 1 and p.bad.any() for p in pairs):
        return ""
    if all(p.bad.all() for p in pairs):
        return ""
    best = None
    tables = [named_regions(p) for p in pairs]
    for words in tables[0]:
        at = [table.get(words) for table in tables]
        if any(y is None for y in at) or any((p.bad & ~y).any() for p, y in zip(pairs, at)):
            continue
        chance = sum(p.bad.sum() * math.log(max(y.mean(), 1e-9)) for p, y in zip(pairs, at))
        all_of_it = all((p.bad == y).all() for p, y in zip(pairs, at))
        size = sum(float(y.mean()) for y in at) / len(at)
        filled = sum(p.bad.sum() for p in pairs) / max(1, sum(y.sum() for y in at))
        least = 0.6 if any(word in words for word in SEVERAL) else 0.03
        if chance > LIKELY or size > 0.95 or filled < least:
            continue
        if words.startswith("outside") and not any(p.right[~y].any() for p, y in zip(pairs, at)):
            continue                            # zeros inside are no evidence that the answer is correct there
        if best is None or (not all_of_it, size) < best[0]:
            best = (not all_of_it, size), words, at
    if best is None:
        return ""
    (partly, _), words, at = best
    if words.startswith("outside") and not partly:
        return f"is correct only {words.replace('outside', 'in')}"
    return f"is wrong only {words}" + ("" if words == CORRECT_IS_0 else what_is_there(pairs))


def wrong_lines(name, pairs):
    """Returns a sentence about the rows or columns with wrong entries in the first wrong case, if some have none."""
    p = next((p for p in pairs if not p.fine), None)
    if p is None or not p.same_shape or p.right.size < 2 or p.bad.all() or p.bad.sum() == 0:
        return ""
    case = f"In case {pairs.index(p) + 1}," if len(pairs) > 1 else "Here"
    best = None
    for axis in range(-p.right.ndim, 0):
        others = tuple(a for a in range(-p.right.ndim, 0) if a != axis)
        at = np.flatnonzero(p.bad.any(others))
        if len(at) < p.right.shape[axis] and (best is None or len(at) < len(best[1])):
            best = axis_name(axis, p.right.ndim), at
    if best and len(best[1]) <= MOST_LINES:
        words, at = best
        line, _, of_axis = (plural(words) if len(at) > 1 else words).partition(" ")
        where = f"{line} {listed([*map(str, at)])} {of_axis}".strip()
        return f"{case} all wrong entries of {name} are in {where} (counted from 0)"
    if p.kind != "f" or p.bad.mean() > 0.9:
        return ""                               # whole numbers and booleans have been counted already
    return f"{case} {p.bad.sum()} of {p.right.size} entries of {name} are wrong"


def what_is_there(pairs):
    """Says what stands at the wrong entries, if it is the same everywhere."""
    w, r = (np.concatenate([y[p.bad] for p, y in zip(pairs, arrays)])
            for arrays in ([p.wrong for p in pairs], [p.right for p in pairs]))
    if not r.any():
        return ", where 0 is expected" if pairs[0].kind != "b" else ", where False is expected"
    if not w.any():
        return ": there it is 0" if pairs[0].kind != "b" else ": there it is False"
    if np.isnan(w).all():
        return ": there it is NaN"
    if pairs[0].kind == "b":
        return ": there it is True" if w.all() else ""
    if pairs[0].kind == "f" and len(w) > 2 and np.isfinite(w).all() and r.all():
        factors = w / r
        if np.ptp(factors) <= 1e-8 * abs(factors[0]):
            number = float(factors[0])
            if abs(number + 1) < 1e-8:
                return ": there the sign is wrong"
            return f": there it is multiplied by {number:.6g}"
    return ""


def named_regions(pair):
    """Returns {words: boolean array} of the regions of an output that sentences can name."""
    shape = pair.right.shape
    found = {**by_position(shape), **by_value(pair)}
    if len(shape) >= 2:
        row, column = np.ogrid[:shape[-2], :shape[-1]]
        found |= {"on the diagonal": row == column, "off the diagonal": row != column,
                  "above the diagonal": row < column, "below the diagonal": row > column,
                  "on and above the diagonal": row <= column, "on and below the diagonal": row >= column}
    found |= by_mask(pair) | by_id(pair)
    return {words: np.broadcast_to(y, shape) for words, y in found.items()}


def by_position(shape):
    """The first, the last and all other positions along each axis; even and odd columns."""
    found = {}
    for axis in range(-len(shape), 0):
        n = shape[axis]
        if n < 2:
            continue
        place = np.arange(n).reshape([n if a == axis else 1 for a in range(-len(shape), 0)])
        name = axis_name(axis, len(shape))
        found |= {f"in the first {name}": place == 0, f"outside the first {name}": place > 0,
                  f"in the last {name}": place == n - 1, f"outside the last {name}": place < n - 1}
        if n > 2:
            found |= {f"in every second {name}, from the first": place % 2 == 0,
                      f"in every second {name}, from the second": place % 2 == 1}
        if n > 3 and n % 2 == 0:
            found |= {f"in the first half of the {plural(name)}": place < n // 2,
                      f"in the second half of the {plural(name)}": place >= n // 2}
    return found


def axis_name(axis, ndim):
    if ndim == 1:
        return "entry"
    if axis in (-1, -2):
        return "column" if axis == -1 else "row"
    return "item of the batch" if axis == -ndim else f"position of axis {axis}"


def plural(name):
    """Returns the plural of an axis_name: "items of the batch" for "item of the batch"."""
    line, space, of_axis = name.partition(" ")
    return ("entries" if line == "entry" else f"{line}s") + space + of_axis


def by_value(pair):
    """Where the correct value or an argument of the same shape is zero, positive or negative."""
    found = {}
    if pair.kind == "f":
        found |= {CORRECT_IS_0: pair.right == 0, "where the correct value is negative": pair.right < 0,
                  "where the correct value is positive": pair.right > 0}
    for name, y in pair.arrays.items():
        if "argument" not in name or y.dtype.kind != "f" or not spreads(y, pair.right.shape) or y.ndim == 0:
            continue
        short = name.removeprefix("the argument ")
        found |= {f"where {short} is 0": y == 0, f"where {short} is not 0": y != 0,
                  f"where {short} is negative": y < 0, f"where {short} is positive": y > 0}
    return found


def by_mask(pair):
    """Where a boolean argument is True or False, along the axes that it has."""
    found = {}
    for name, y in pair.arrays.items():
        if y.dtype.kind != "b" or "argument" not in name or y.ndim == 0:
            continue
        short = name.removeprefix("the argument ")
        for shown in (y, y[..., None], y[..., None, :]):
            if spreads(shown, pair.right.shape):
                found |= {f"where {short} is False": ~shown, f"where {short} is True": shown}
                break
        if y.ndim >= 2 and pair.right.shape[:y.ndim - 1] == y.shape[:-1]:
            rest = (...,) + (None,) * (pair.right.ndim - y.ndim + 1)
            found[f"in rows in which {short} is False everywhere"] = ~y.any(-1)[rest]
    return found


def by_id(pair):
    """Rows of a table by how often an argument of ids names them, and positions whose id is the padding."""
    found = {}
    pad = pair.scalars.get("pad_id")
    for name, ids in pair.arrays.items():
        if ids.dtype.kind != "i" or ids.ndim == 0 or not ids.size or "argument" not in name or ids.min() < 0:
            continue
        short, shape = name.removeprefix("the argument "), pair.right.shape
        if shape and shape[0] > ids.max() and shape != ids.shape:
            count = np.bincount(ids.ravel(), minlength=shape[0])[(...,) + (None,) * (len(shape) - 1)]
            found |= {f"in rows whose number occurs more than once in {short}": count > 1,
                      f"in rows whose number occurs in {short}": count > 0,
                      f"in rows whose number does not occur in {short}": count == 0}
            if isinstance(pad, int):
                found["in the row of pad_id"] = np.arange(shape[0])[(...,) + (None,) * (len(shape) - 1)] == pad
        if isinstance(pad, int) and shape[:ids.ndim] == ids.shape:
            rest = (...,) + (None,) * (len(shape) - ids.ndim)
            padding = (ids == pad)[rest]
            found |= {f"where {short} is pad_id": padding, f"where {short} is not pad_id": ~padding}
    return found


def spreads(y, shape):
    try:
        return np.broadcast_shapes(y.shape, shape) == shape
    except ValueError:
        return False
