"""Relations with the arguments: the answer is another array, or has a term or a factor too many or too few."""

import itertools

import numpy as np

from ....texts import Message
from ..comparison import values_agree
from .pairs import ARGUMENT, rounded

POWERS = {1: "times", -1: "divided", 2: "times_square"}
COEFFICIENTS = (1, -1, 2, -2, 0.5, -0.5)        # that count as evidence where an output is a single number


def other_array(pairs):
    """The answer is another correct output or an argument."""
    for name in pairs[0].arrays if any(p.wrong.size for p in pairs) else ():
        if all(name in p.arrays and p.equal(p.wrong, np.asarray(p.arrays[name], float)) for p in pairs):
            return Message("relations.terms.is", array=name)
    return None


def two_arguments(pairs):
    """The answer is the sum, the difference or the product of two arguments, without anything else."""
    if not all(p.kind == "f" and p.wrong.size > 1 for p in pairs):
        return None
    names = [name for name, y in pairs[0].arrays.items() if name.kind == ARGUMENT and y.dtype.kind == "f"]
    for a, b in itertools.permutations(names, 2):
        for key, operation in (("difference", np.subtract), ("sum", np.add), ("product", np.multiply)):
            if all(fits(p.arrays[a], p.wrong) and fits(p.arrays[b], p.wrong)
                   and p.equal(p.wrong, operation(p.arrays[a], p.arrays[b])) for p in pairs):
                return Message(f"relations.terms.{key}", array=a, other=b)
    return None


def terms(pair):
    """Returns {Message: array} of simple functions of the arguments and the other outputs that fit the correct output."""
    candidates = {}
    floats = {name: np.asarray(y, float) for name, y in pair.arrays.items() if y.dtype.kind == "f" and y.size}
    for name, y in floats.items():
        candidates[name] = y
        if y.ndim:
            candidates[Message("relations.term.sums_last", array=name)] = y.sum(-1, keepdims=True)
            candidates[Message("relations.term.sum_first", array=name)] = y.sum(0)
        if y.ndim > 1:
            candidates[Message("relations.term.sum_rows", array=name)] = y.reshape(-1, y.shape[-1]).sum(0)
    arguments = [name for name in floats if name.kind == ARGUMENT]
    for i, name in enumerate(arguments):
        for other in arguments[i:]:
            if floats[name].shape == floats[other].shape:
                product = Message("relations.term.product", name=name.values["name"], other=other.values["name"])
                if name == other:
                    product = Message("relations.term.square", **name.values)
                candidates[product] = floats[name] * floats[other]
    if pair.right.ndim == 0:
        candidates |= {Message("relations.term.mean", array=name): y.mean() for name, y in floats.items()}
        candidates |= {Message("relations.term.sum", array=name): y.sum() for name, y in floats.items()}
    return {name: np.asarray(y) for name, y in candidates.items() if fits(y, pair.right)}


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
        return None
    first = max(pairs[:3], key=lambda p: p.right.size)
    factors = {name: coefficient(first, term) for name, term in terms(first).items()}
    factors = {name: number for name, number in factors.items() if number is not None}
    for p in pairs:
        if p is first or not factors:
            continue
        own = terms(p)
        factors = {name: number for name, number in factors.items()
                   if name in own and p.equal(p.wrong, p.right + number * own[name])}
    if not factors:
        return None
    name, number = next(iter(factors.items()))
    if all(p.right.size == 1 for p in pairs) and (len(pairs) < 3 or number not in COEFFICIENTS):
        return None
    sign = "plus" if number > 0 else "minus"
    if abs(number) == 1:
        return Message(f"relations.terms.{sign}", term=name)
    return Message(f"relations.terms.{sign}_multiple", number=rounded(abs(number)), term=name)


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
        return None
    candidates = None
    for p in pairs:
        own = {(name, power, number) for name, term in terms(p).items() for power in POWERS for number in COEFFICIENTS
               if (candidates is None or (name, power, number) in candidates) and is_factor(p, term, power, number)}
        candidates = own if candidates is None else candidates & own
        if not candidates:
            return None
    every = itertools.product(terms(pairs[0]), POWERS, COEFFICIENTS)
    name, power, number = next(each for each in every if each in candidates)
    if number == 1:
        return Message(f"relations.terms.{POWERS[power]}", term=name)
    return Message(f"relations.terms.{POWERS[power]}_multiple", number=number, term=name)


def is_factor(pair, term, power, number):
    if term.size < 2 or not term.all() or np.ptp(term) == 0:
        return False
    return values_agree(pair.wrong, number * pair.right * term ** power)


def by_row(pairs):
    """Each row, or each column, has a factor or an offset of its own."""
    if not usable(pairs) or not all(p.right.ndim and p.right.size for p in pairs):
        return None
    if 2 * sum(p.right.shape[-1] > 2 and p.bad.all() for p in pairs) < len(pairs):
        return None                             # a row of one number is always the correct one times a number
    if all(same_along(np.ravel(p.wrong - p.right), 0, p) for p in pairs):
        return Message("relations.terms.offset")
    if all(same_along(p.wrong - p.right, -1, p) for p in pairs):
        return Message("relations.terms.offset_of_rows")
    if all(proportional(p, -1) for p in pairs):
        return Message("relations.terms.factor_of_rows")
    if not all(p.right.size // p.right.shape[-1] > 2 for p in pairs):
        return None
    w_r = [(p, p.wrong.reshape(-1, p.wrong.shape[-1]), p.right.reshape(-1, p.right.shape[-1])) for p in pairs]
    if all(same_along(w - r, 0, p) for p, w, r in w_r):
        return Message("relations.terms.same_row")
    if all(proportional(p, 0) for p in pairs):
        return Message("relations.terms.factor_of_columns")
    return None


def same_sums(pairs):
    """Wrong entries whose rows or columns have the correct sums."""
    if not usable(pairs) or not all(p.right.ndim and p.right.shape[-1] > 2 for p in pairs):
        return None
    for axis, slices in ((-1, "rows"), (-2, "columns")):
        if all(p.right.ndim >= -axis and p.right.shape[axis] > 2
               and p.equal(p.wrong.sum(axis), p.right.sum(axis)) for p in pairs):
            return Message(f"relations.terms.sums_of_{slices}")
    return None


def same_along(difference, axis, pair):
    return bool(np.all(np.ptp(difference, axis) <= 1e-9 * pair.largest))


def proportional(pair, axis):
    """Returns True if each row (axis -1) or column (axis 0) is the correct one times a number."""
    w, r = (y.reshape(-1, y.shape[-1]) for y in (pair.wrong, pair.right))
    squares = (r * r).sum(axis, keepdims=True)
    return values_agree(w, (w * r).sum(axis, keepdims=True) / np.where(squares == 0, 1, squares) * r)
