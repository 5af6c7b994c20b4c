"""Relations of a whole array to the correct one: a factor, an offset, other axes, another order, a step too many."""

import itertools
import math

import numpy as np

from ....texts import Message
from ..comparison import values_agree
from .pairs import rounded

NEAR = 1e-2                                     # largest error of what is nearly correct, relative to the largest entry
DEPENDS, NEARLY = "relations.whole.depends", "relations.whole.nearly"


NUMBERS = [("", 1, ""), ("-", -1, ""), ("2 ", 2, ""), ("1/2 ", 0.5, ""), ("-2 ", -2, ""), ("-1/2 ", -0.5, ""),
           ("", 1 / math.log(2), " / ln 2"), ("", math.log(2), " ln 2")]        # that a factor may have beside sizes


def not_a_number(pairs):
    if all(p.wrong.size and np.isnan(p.wrong).all() for p in pairs):
        return Message("relations.whole.nan")
    if all(p.wrong.size and not np.isfinite(p.wrong).any() for p in pairs):
        return Message("relations.whole.infinite")
    mixed = all(p.same_shape and not np.isfinite(p.wrong).all() and np.isfinite(p.wrong).any() for p in pairs)
    if mixed and all(not p.bad[np.isfinite(p.wrong)].any() for p in pairs):
        return Message("relations.whole.correct_if_finite")
    return None


def one_number(pairs):
    """Zeros, or another number in all entries of every case."""
    if all(p.wrong.size and not p.wrong.any() for p in pairs):
        return Message("relations.whole.false" if pairs[0].kind == "b" else "relations.whole.zero")
    several = [p for p in pairs if p.wrong.size > 1]
    if not several or not all(p.wrong.size and np.ptp(p.wrong) == 0 for p in pairs):
        return None
    if pairs[0].kind == "b":
        return Message("relations.whole.true")
    numbers = {float(p.wrong.flat[0]) for p in pairs}
    if len(numbers) == 1:
        return Message("relations.whole.number", number=rounded(numbers.pop()))
    return Message("relations.whole.one_number")


def multiple(pairs):
    """The correct result times a number, with an expression for the number if there is one."""
    factors = []
    for p in pairs:
        w, r = p.wrong, p.right
        if w.shape != r.shape or not np.isfinite(w).all() or w.any() != r.any():
            return None
        if r.any():
            factor = float(np.vdot(r, w) / np.vdot(r, r))
            if not values_agree(w, factor * r):
                return None
            factors.append((p.known, factor))
    values = [factor for _, factor in factors]
    if not values or all(abs(factor - 1) < 1e-9 for factor in values):
        return None
    loose = 1e-6 if any(p.wrong.dtype == np.float32 for p in pairs) else 1e-9
    if max(values) - min(values) <= loose * abs(values[0]):
        alone = len(values) < 3 and all(p.right.size == 1 for p in pairs)
        return None if alone else Message("relations.whole.multiple", factor=rounded(values[0]))
    everywhere = all(known or abs(factor - 1) > loose for known, factor in factors)
    expression, letters = name_factor([pair for pair in factors if pair[0]], 100 * loose) if everywhere else ("", ())
    if expression:
        counted = "entries" if all(has_one_number_per_row(p.case) for p in pairs if p.known) else "rows"
        return Message(f"relations.whole.sizes_of_{counted}" if "N" in letters else "relations.whole.sizes", factor=expression)
    if all(p.right.size == 1 for p in pairs):
        return ""                               # any number is some multiple of another
    shown = ", ".join([f"{factor:.4g}" for factor in values[:5]] + ["..."] * (len(values) > 5))
    return Message(DEPENDS, factors=shown)


def name_factor(pairs, tolerance):
    """Returns the first expression, such as sqrt(d), -N or N / ln 2, that gives the factor in all pairs, and its letters.

    Quotients and squares are tried only if the pairs have at least three different factors.
    """
    letters = [letter for letter in pairs[0][0] if all(letter in known for known, _ in pairs)] if pairs else []
    several = len({rounded(factor) for _, factor in pairs}) > 2
    for before, number, after in NUMBERS:
        for shown, product, value in (*products(letters), *(quotients(letters) if several else ())):
            if all(math.isclose(factor, number * value(known), rel_tol=tolerance) for known, factor in pairs):
                return before + shown + after, product
    return "", ()


def products(letters):
    """Yields (expression, its letters, function of {letter: value}) of letters and products of two, and of their roots."""
    for product in (*((letter,) for letter in letters), *itertools.combinations(letters, 2)):
        text = " ".join(product)
        below = text if len(product) == 1 else f"({text})"
        for power, shown in ((1, text), (-1, f"1/{below}"), (0.5, f"sqrt({text})"), (-0.5, f"1/sqrt({text})")):
            yield shown, product, lambda known, power=power, product=product: math.prod(map(known.get, product)) ** power


def quotients(letters):
    """Yields what `products` does, of squares, quotients and their roots."""
    for letter in letters:
        yield f"{letter}^2", (letter,), lambda known, letter=letter: known[letter] ** 2
        yield f"1/{letter}^2", (letter,), lambda known, letter=letter: known[letter] ** -2
    for a, b in itertools.permutations(letters, 2):
        yield f"{a}/{b}", (a, b), lambda known, a=a, b=b: known[a] / known[b]
        yield f"sqrt({a}/{b})", (a, b), lambda known, a=a, b=b: math.sqrt(known[a] / known[b])


def has_one_number_per_row(case):
    """Returns True if the first argument has leading axes only, so that its entries are what others call rows."""
    arrays = case.arrays()
    return bool(arrays) and arrays[0].size == case.sizes.get("N")


def offset(pairs):
    """The correct result plus the same number in every entry of every case."""
    if not all(p.same_shape and p.right.size and np.isfinite(p.wrong).all() for p in pairs):
        return None
    if sum(p.right.size for p in pairs) < 3 or pairs[0].kind == "b":
        return None
    differences = np.concatenate([np.ravel(p.wrong - p.right) for p in pairs])
    number = float(differences[0])
    scale = max(float(p.largest) for p in pairs)
    if np.ptp(differences) > 1e-9 * max(scale, abs(number)) or abs(number) <= 1e-6 * scale:
        return None
    return Message("relations.whole.plus" if number > 0 else "relations.whole.minus", number=rounded(abs(number)))


def opposite(pairs):
    """True and False swapped."""
    if pairs[0].kind == "b" and all(p.same_shape and p.right.size and p.bad.all() for p in pairs):
        return Message("relations.whole.opposite")
    return None


def transposed(pairs):
    def turns_into(w, r):
        swapped = [np.swapaxes(w, a, b) for a, b in itertools.combinations(range(w.ndim), 2)]
        return w.ndim > 1 and any(values_agree(turned, r) for turned in (w.T, *swapped))
    return Message("relations.whole.transposed") if all(turns_into(p.wrong, p.right) for p in pairs) else None


def other_sign(pairs):
    """Correct absolute values with some wrong signs."""
    if all(p.same_shape and p.equal(abs(p.wrong), abs(p.right)) for p in pairs) and pairs[0].kind == "f":
        return Message("relations.whole.sign")
    return None


def softmax(z, axis):
    e = np.exp(z - np.max(z, axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


STEPS = {
    "exp": np.exp, "log": np.log, "square": np.square, "sqrt": np.sqrt, "inverse": lambda r: 1 / r,
    "complement": lambda r: 1 - r, "absolute": np.abs, "rounded": np.round, "positive": lambda r: np.maximum(r, 0),
    "softmax": lambda r: softmax(r, -1), "cumulative": lambda r: np.cumsum(r, -1),
    "normalized": lambda r: r / r.sum(-1, keepdims=True)}
MISSING_STEPS = {
    "softmax_missing": lambda w: softmax(w, -1), "softmax_of_columns_missing": lambda w: softmax(w, -2),
    "normalization_missing": lambda w: w / w.sum(-1, keepdims=True), "positive_missing": lambda w: np.maximum(w, 0),
    "mean_missing": lambda w: w - w.mean(-1, keepdims=True),
    "maximum_missing": lambda w: w - w.max(-1, keepdims=True)}


def one_step(pairs):
    """One step too many, such as a logarithm, or one too few."""
    if pairs[0].kind != "f" or not all(p.same_shape for p in pairs) or sum(p.right.size for p in pairs) < 3:
        return None
    for key, step in STEPS.items():
        if all(gives(p, step, p.right, p.wrong) for p in pairs):
            return Message(f"relations.step.{key}")
    for key, step in MISSING_STEPS.items():
        if all(gives(p, step, p.wrong, p.right) for p in pairs):
            return Message(f"relations.step.{key}")
    return None


def gives(pair, step, before, after):
    """Returns True if a step turns one array into another that is not trivial."""
    if before.ndim == 0 or not np.isfinite(before).all():
        return False
    try:
        result = step(before)
    except ValueError:                          # the array has no such axis
        return False
    return bool(np.isfinite(result).all()) and pair.equal(result, after) and np.ptp(after) > 0


def permuted(pairs):
    if all(p.wrong.size == p.right.size and values_agree(p.wrong.ravel(), p.right.ravel()) for p in pairs):
        return Message("relations.whole.shape")
    for key, turned in ORDERS.items():
        if all(p.same_shape and any_equal(turned(p.right), p) for p in pairs):
            return Message(f"relations.whole.{key}")
    if all(p.wrong.size == p.right.size > 2 and values_agree(np.sort(p.wrong, None), np.sort(p.right, None)) for p in pairs):
        for axis, slices in ((-1, "columns"), (-2, "rows"), (-3, "slices")):
            if all(same_slices(p, axis) for p in pairs):
                return Message(f"relations.whole.{slices}")
        if pairs[0].kind != "b":
            return Message("relations.whole.order")
    return None


def any_equal(candidates, pair):
    return any(values_agree(pair.wrong, candidate) for candidate in candidates)


def rolled(r, axis):
    return [np.roll(r, step, axis) for step in (1, -1)] if r.ndim >= -axis else []


def flipped(r, axis):
    return [np.flip(r, axis)] if r.ndim >= -axis else []


ORDERS = {"rows_reversed": lambda r: flipped(r, -2), "entries_reversed": lambda r: flipped(r, -1),
          "rows_shifted": lambda r: rolled(r, -2), "entries_shifted": lambda r: rolled(r, -1)}


def same_slices(pair, axis):
    """Returns True if both arrays have the same slices along an axis, in any order."""
    w, r = pair.wrong, pair.right
    if w.shape != r.shape or w.ndim < max(2, -axis):
        return False
    w, r = (np.moveaxis(y, axis, 0).reshape(y.shape[axis], -1) for y in (w, r))
    w, r = (np.array(sorted(map(tuple, np.round(y, 12)))) for y in (w, r))
    return values_agree(w, r)


def wrong_reduction(pairs):
    """A sum or mean over one axis is missing, or one was taken over an axis that should have stayed."""
    if not all(p.wrong.size and p.right.size for p in pairs) or all(p.same_shape for p in pairs):
        return None
    for kind in ("sum", "mean"):
        missing = set.intersection(*(
            {axis for axis in range(p.wrong.ndim) if values_agree(getattr(p.wrong, kind)(axis), p.right)} for p in pairs))
        if missing:
            return Message(f"relations.whole.{kind}_missing", axis=min(missing))
        extra = set.intersection(*(
            {axis - p.right.ndim for axis in range(p.right.ndim)
             if values_agree(p.wrong, getattr(p.right, kind)(axis))
             or values_agree(p.wrong, getattr(p.right, kind)(axis, keepdims=True))} for p in pairs))
        if extra:
            return Message(f"relations.whole.{kind}_extra", axis=max(extra))
    return None


def wrong_axes(pairs):
    """Sums of the same numbers over different axes have the same total. Totals of 0 say nothing."""
    same_total = all(abs(p.wrong.sum() - p.right.sum()) <= 1e-9 * abs(p.right).sum() <= 1e-3 * abs(p.right.sum())
                     for p in pairs)
    if same_total and any(not p.same_shape for p in pairs) and pairs[0].kind == "f":
        return Message("relations.whole.wrong_axes")
    return None


def nearly(pairs):
    """Correct to a few digits in every entry."""
    if pairs[0].kind != "f" or not all(p.same_shape and p.right.any() and np.isfinite(p.wrong).all() for p in pairs):
        return None
    worst = max(float(np.max(abs(p.wrong - p.right)) / np.max(abs(p.right))) for p in pairs)
    if worst > NEAR or sum(p.right.size for p in pairs) < 3:
        return None
    return Message(NEARLY, error=rounded(worst, 1))
