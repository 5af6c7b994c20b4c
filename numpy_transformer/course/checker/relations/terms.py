"""Relations with the arguments: the answer is another array, or has a term or a factor too many or too few."""

import itertools

import numpy as np

from ..matching import equal

COEFFICIENTS = (1, -1, 2, -2, 0.5, -0.5)        # that count as evidence where an output is a single number


def other_array(pairs):
    """The answer is another correct output or an argument."""
    for name in pairs[0].arrays:
        if all(name in p.arrays and p.equal(p.wrong, np.asarray(p.arrays[name], float)) for p in pairs):
            return f"is {name}"
    return ""


def two_arguments(pairs):
    """The answer is the sum, the difference or the product of two arguments, without anything else."""
    if not all(p.kind == "f" and p.wrong.size > 1 for p in pairs):
        return ""
    names = [name for name, y in pairs[0].arrays.items() if name.startswith("the argument") and y.dtype.kind == "f"]
    for a, b in itertools.permutations(names, 2):
        for words, operation in ((f"is {a} minus {b}", np.subtract), (f"is {a} plus {b}", np.add),
                                 (f"is {a} times {b}, entry by entry,", np.multiply)):
            if all(fits(p.arrays[a], p.wrong) and fits(p.arrays[b], p.wrong)
                   and p.equal(p.wrong, operation(p.arrays[a], p.arrays[b])) for p in pairs):
                return words
    return ""


def terms(pair):
    """Returns {words: array} of simple functions of the arguments and the other outputs that fit the correct output."""
    found = {}
    floats = {name: np.asarray(y, float) for name, y in pair.arrays.items() if y.dtype.kind == "f" and y.size}
    for name, y in floats.items():
        found[name] = y
        if y.ndim:
            found[f"the sums of {name} over its last axis"] = y.sum(-1, keepdims=True)
            found[f"the sum of {name} over its first axis"] = y.sum(0)
        if y.ndim > 1:
            found[f"the sum of {name} over all rows"] = y.reshape(-1, y.shape[-1]).sum(0)
    arguments = [name for name in floats if name.startswith("the argument")]
    for i, name in enumerate(arguments):
        for other in arguments[i:]:
            if floats[name].shape == floats[other].shape:
                product = f"{name.split()[-1]} times {other.split()[-1]}, entry by entry"
                if name == other:
                    product = f"the square of {name.split()[-1]}, entry by entry"
                found[product] = floats[name] * floats[other]
    if pair.right.ndim == 0:
        found |= {f"the mean of {name}": y.mean() for name, y in floats.items()}
        found |= {f"the sum of {name}": y.sum() for name, y in floats.items()}
    return {words: np.asarray(y) for words, y in found.items() if fits(y, pair.right)}


def fits(y, right):
    try:
        return np.broadcast_shapes(np.shape(y), right.shape) == right.shape
    except ValueError:
        return False


def usable(pairs):
    return pairs[0].kind == "f" and all(p.same_shape and np.isfinite(p.wrong).all() for p in pairs) and sum(
        p.right.size for p in pairs) >= 3


def extra_term(pairs):
    """The answer is the correct result plus a multiple of a simple array."""
    if not usable(pairs):
        return ""
    first = max(pairs[:3], key=lambda p: p.right.size)
    found = {words: coefficient(first, term) for words, term in terms(first).items()}
    found = {words: number for words, number in found.items() if number is not None}
    for p in pairs:
        if p is first or not found:
            continue
        own = terms(p)
        found = {words: number for words, number in found.items()
                 if words in own and p.equal(p.wrong, p.right + number * own[words])}
    if not found:
        return ""
    words, number = next(iter(found.items()))
    if all(p.right.size == 1 for p in pairs) and (len(pairs) < 3 or number not in COEFFICIENTS):
        return ""
    times = "" if abs(number) == 1 else f"{abs(number):.6g} times "
    return f"is the correct result {'plus' if number > 0 else 'minus'} {times}{words}"


def coefficient(pair, term):
    """Returns the number c for which the answer is the correct result plus c times this term, or None."""
    difference, term = pair.wrong - pair.right, np.broadcast_to(term, pair.right.shape)
    square = float(np.vdot(term, term))
    if not square or not np.isfinite(square):
        return None
    number = float(np.vdot(term, difference)) / square
    number = round(number, 9) if abs(number - round(number, 9)) < 1e-8 else number
    return number if abs(number) > 1e-9 and pair.equal(pair.wrong, pair.right + number * term) else None


def extra_factor(pairs):
    """The answer is the correct result times or divided by an argument, entry by entry, up to a number."""
    if not usable(pairs) or all(p.right.size == 1 for p in pairs):
        return ""
    candidates = None
    for p in pairs:
        own = {(words, power) for words, term in terms(p).items() for power in (1, -1, 2)
               if (candidates is None or (words, power) in candidates) and is_factor(p, term, power)}
        candidates = own if candidates is None else candidates & own
        if not candidates:
            return ""
    order = [(words, power) for words in terms(pairs[0]) for power in (1, -1, 2) if (words, power) in candidates]
    words, power = order[0]
    return f"is the correct result {'divided by' if power < 0 else 'times'} {words}{' squared' if power == 2 else ''}"


def is_factor(pair, term, power):
    if term.size < 2 or not term.all() or np.ptp(term) == 0:
        return False
    return equal(pair.wrong, pair.right * term ** power)


def by_row(pairs):
    """Each row, or each column, has a factor or an offset of its own."""
    if not usable(pairs) or not all(p.right.ndim and p.right.shape[-1] > 2 and p.bad.all() for p in pairs):
        return ""
    if all(same_along(np.ravel(p.wrong - p.right), 0, p) for p in pairs):
        return "differs from the correct result by one number, the same for all entries,"
    if all(same_along(p.wrong - p.right, -1, p) for p in pairs):
        return ("differs from the correct result by one number per row, the same for all entries of the row (a term "
                "that belongs to the whole row),")
    if all(proportional(p, -1) for p in pairs):
        return "has correct rows, except that each row is multiplied by a number of its own"
    if not all(p.right.size // p.right.shape[-1] > 2 for p in pairs):
        return ""
    w_r = [(p, p.wrong.reshape(-1, p.wrong.shape[-1]), p.right.reshape(-1, p.right.shape[-1])) for p in pairs]
    if all(same_along(w - r, 0, p) for p, w, r in w_r):
        return "differs from the correct result by one and the same row everywhere"
    if all(proportional(p, 0) for p in pairs):
        return "has correct columns, except that each column is multiplied by a number of its own"
    return ""


def same_sums(pairs):
    """Wrong entries whose rows or columns have the correct sums."""
    if not usable(pairs) or not all(p.right.ndim and p.right.shape[-1] > 2 for p in pairs):
        return ""
    for axis, words in ((-1, "row"), (-2, "column")):
        if all(p.right.ndim >= -axis and p.right.shape[axis] > 2
               and p.equal(p.wrong.sum(axis), p.right.sum(axis)) for p in pairs):
            return f"has wrong entries, but each {words} has the correct sum,"
    return ""


def same_along(difference, axis, pair):
    return bool(np.all(np.ptp(difference, axis) <= 1e-9 * pair.largest))


def proportional(pair, axis):
    """Returns True if each row (axis -1) or column (axis 0) is the correct one times a number."""
    w, r = (y.reshape(-1, y.shape[-1]) for y in (pair.wrong, pair.right))
    squares = (r * r).sum(axis, keepdims=True)
    if not squares.all():
        return False
    return equal(w, (w * r).sum(axis, keepdims=True) / squares * r)
