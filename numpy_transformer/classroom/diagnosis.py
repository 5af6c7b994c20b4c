"""Explains a wrong answer: by known mistakes, alone or combined, or else by its relation to the correct answer."""

import functools
import itertools
import math

import numpy as np

from .exercise import observe
from .sandbox.inside.worker import Function, instances

MOST_TOGETHER = 3                               # known mistakes that one answer may combine


class AnswerKey:
    """The cases of one exercise and seed, with the correct answers and those of every known mistake.

    Parameters:
        exercise : Exercise
        seed : int, the seed of the cases

    Attributes:
        cases : all cases
        main_cases : the cases that are not repetitions of the first one
        expected : an Observation of the reference for each main case; empty if the exercise has no reference
    """

    def __init__(self, exercise, seed):
        self.exercise = exercise
        self.cases = exercise.cases(seed)
        self.main_cases = [case for case in self.cases if not case.role]
        self.expected = []
        if exercise.reference is not None:
            self.expected = [observe(exercise, exercise.reference, case) for case in self.main_cases]
        self.variants, self.fingerprints = {}, {}

    def variant(self, mistakes):
        """Returns the solution with these mistakes, or None if their edits touch the same text."""
        if mistakes not in self.variants:
            text = self.exercise.edited_text(*(mistake.edits for mistake in mistakes))
            make = self.exercise.assembled if self.exercise.is_class else self.exercise.target
            self.variants[mistakes] = None if text is None else make(text)
        return self.variants[mistakes]

    def observations(self, mistakes, cases=None):
        """Returns what the solution with these mistakes does in the given cases, by default in all main cases."""
        return [observe(self.exercise, self.variant(mistakes), case) for case in cases or self.main_cases]

    def observations_like(self, answers, mistakes):
        """Returns the observations up to the first case in which they do not match the answer."""
        observed = []
        for case, answer in zip(self.main_cases, answers):
            observed += self.observations(mistakes, [case])
            if not matches_in_case(observed[-1], answer):
                break
        return observed

    def fingerprint(self, mistakes):
        """Returns the fingerprint of these mistakes in the smallest case, or None if they cannot be combined.

        It rules out most combinations at little cost.
        """
        if mistakes not in self.fingerprints:
            self.fingerprints[mistakes] = None
            if self.variant(mistakes):
                observation, = self.observations(mistakes, [self.main_cases[self.smallest_case]])
                self.fingerprints[mistakes] = fingerprint(observation)
            del self.variants[mistakes]
        return self.fingerprints[mistakes]

    @functools.cached_property
    def smallest_case(self):
        """The index of the main case with the smallest arrays, including those of functions among its arguments."""
        def size(case):
            of_functions = [[*function.arrays.values()] for function in instances((case.inputs, case.calls), Function)]
            return sum(array.size for array in (*case.arrays(), *instances(of_functions, np.ndarray)))
        return min(range(len(self.main_cases)), key=lambda i: size(self.main_cases[i]))

    def identify(self, answers):
        """Returns the combinations of known mistakes that give these answers in every case, as a list of tuples.

        Combinations of more mistakes are tried only if fewer do not explain the answers. Several combinations of the
        same number are all returned.

        Parameters:
            answers : an Observation for each main case
        """
        if self.exercise.judge:
            return [(mistake,) for mistake in self.exercise.mistakes if shows(answers[0], mistake)][:1]
        small = fingerprint(answers[self.smallest_case])
        only_errors = all(answer.error for answer in answers)       # these are not enough to identify a combination
        for count in range(1, 2 if only_errors else MOST_TOGETHER + 1):
            found = []
            for mistakes in itertools.combinations(self.exercise.mistakes, count):
                if count > 1 and not similar(self.fingerprint(mistakes), small):
                    continue
                observed = self.observations_like(answers, mistakes)
                if matches(observed, answers) and self.distinguishable(observed, answers):
                    found.append((agreement_on_changes(observed, answers), mistakes))
            if found:
                best = max(agreement for agreement, _ in found)
                return [mistakes for agreement, mistakes in found if agreement == best]
        return []

    def distinguishable(self, observed, answers):
        """Returns True if a mistake can be distinguished from the correct solution.

        A mistake with correct outputs can only be identified by the arguments that it changes.
        """
        if not self.expected or not matches(observed, self.expected):
            return True
        changes_something = any(observation.changed for observation in observed)
        return changes_something and agreement_on_changes(observed, answers) > 0


def shows(answer, mistake):
    """Returns True if an answer to "find the bug" shows a mistake."""
    try:
        return bool(mistake.shown_by(*answer.outputs))
    except Exception:                           # written for arrays that have the right shapes
        return False


def agreement_on_changes(observed, answers):
    """Returns 2 if both changed the same arguments in each case, 1 if over all cases together, and 0 otherwise."""
    ours, theirs = ([observation.changed for observation in observations] for observations in (observed, answers))
    return (ours == theirs) + (set().union(*ours) == set().union(*theirs))


def fingerprint(observation):
    """Returns what distinguishes most answers.

    This is the type of an error, or the shape, a weighted sum and the sum of absolute values of each output.
    """
    if observation.error:
        return error_type(observation)
    parts = []
    with np.errstate(invalid="ignore"):
        for y in observation.outputs:
            y = np.asarray(y, float)
            weights = np.cos(np.arange(1, y.size + 1) ** 1.5)
            parts.append((y.shape, float(weights @ y.ravel()), float(np.abs(y).sum())))
    return tuple(parts)


def similar(a, b):
    """Returns True if two fingerprints may belong to the same answer."""
    if a is None or isinstance(a, str) or isinstance(b, str):
        return a == b
    return len(a) == len(b) and all(
        shape == shape2 and close_sums(x, x2, max(size, size2)) for (shape, x, size), (shape2, x2, size2) in zip(a, b))


def close_sums(x, x2, size):
    both_nan = x != x and x2 != x2
    return abs(x - x2) <= 1e-4 * size or both_nan or x == x2


def error_type(observation):
    """Returns the name of the error's class, such as "ValueError"; "" if there was no error."""
    return observation.error.split(":")[0]


def matches(observed, answers):
    """Returns True if both agree in every case: equal outputs, or errors of one type.

    If every case of both is an error, the messages must agree too. Observations that stop early do not match.
    """
    if len(observed) < len(answers):
        return False
    pairs = list(zip(observed, answers))
    if all(a.error and b.error for a, b in pairs):
        return all(a.error == b.error for a, b in pairs)
    return all(matches_in_case(a, b) for a, b in pairs)


def matches_in_case(a, b):
    if a.error or b.error:
        return error_type(a) == error_type(b)
    return len(a.outputs) == len(b.outputs) and all(equal(x, y, b.largest) for x, y in zip(a.outputs, b.outputs))


def equal(a, b, largest=0):
    """Returns True if both have the same shape and values to 1e-9 of b's largest entry, or 1e-5 if one is float32.

    Parameters:
        largest : largest entry of all outputs of the case; if b is only rounding error next to it, it replaces b's own
    """
    if a is None or b is None or a.shape != b.shape:
        return False
    tolerance = 1e-5 if np.float32 in (a.dtype, b.dtype) else 1e-9
    a, b = np.asarray(a, float), np.asarray(b, float)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = np.max(abs(b), initial=0, where=finite)
    if scale < 1e-9 * largest:
        scale = largest
    return bool(np.all(abs(a[finite] - b[finite]) <= tolerance * scale))


def relations(answer_key, answers):
    """Returns sentences that relate each wrong output to the correct one, if the relation holds in every case.

    Parameters:
        answers : an Observation for each main case
    """
    names, sentences = answer_key.exercise.outputs, []
    if any(len(answer.outputs) != len(names) for answer in answers):
        return []
    letters = list(map(answer_key.exercise.letters, answer_key.main_cases))
    for j, name in enumerate(names):
        triples = [(known, as_float(answer.outputs[j]), as_float(right.outputs[j]))
                   for known, answer, right in zip(letters, answers, answer_key.expected)]
        if all(equal(wrong, right) for _, wrong, right in triples):
            continue
        relation = first_relation(triples) or other_array(answer_key, triples)
        if relation:
            varies = "depends on the case" in relation
            everywhere = " in every case" if len(letters) > 1 and not varies else ""
            sentences.append(f"{name} {relation}{everywhere}")
    return sentences


def as_float(y):
    """Converts to float64, except float32, which has a wider tolerance."""
    return y if y.dtype == np.float32 else np.asarray(y, float)


def first_relation(triples):
    """Returns the first of `RELATIONS` that holds, or "".

    A relation takes a list with one triple for each case: {name: value} of possible factors, the wrong output and the
    correct output. It returns the rest of the sentence "dx ...", or "" if it does not hold in every case.
    """
    return next(filter(None, (relation(triples) for relation in RELATIONS)), "")


def other_array(answer_key, triples):
    """Names the output or argument that the answer returns in place of this output."""
    arrays = {f"is the correct {name}": [right.outputs[k] for right in answer_key.expected]
              for k, name in enumerate(answer_key.exercise.outputs)}
    if not answer_key.exercise.is_class:
        first = answer_key.main_cases[0]
        arrays |= {f"is the argument {name}": [case.inputs[k] for case in answer_key.main_cases]
                   for k, (name, value) in enumerate(zip(answer_key.exercise.parameters, first.inputs))
                   if isinstance(value, np.ndarray)}
    return next((text for text, values in arrays.items()
                 if all(equal(wrong, as_float(value)) for (_, wrong, _), value in zip(triples, values))), "")


def all_zero(triples):
    return "is zero everywhere" if all(w.size and not w.any() for _, w, _ in triples) else ""


def not_a_number(triples):
    if all(w.size and np.isnan(w).all() for _, w, _ in triples):
        return "is NaN everywhere"
    elsewhere = all(w.shape == r.shape and equal(w[~np.isnan(w)], r[~np.isnan(w)]) for _, w, r in triples)
    return "is correct wherever it is not NaN" if elsewhere else ""


def multiple(triples):
    """The correct result times a number, with an expression for the number if there is one."""
    factors = []
    for known, w, r in triples:
        if w.shape != r.shape or not np.isfinite(w).all() or w.any() != r.any():
            return ""
        if r.any():
            factor = float(np.vdot(r, w) / np.vdot(r, r))
            if not equal(w, factor * r):
                return ""
            factors.append((known, factor))
    values = [factor for _, factor in factors]
    loose = 1e-5 if any(w.dtype == np.float32 for _, w, _ in triples) else 1e-9
    if max(values) - min(values) <= loose * abs(values[0]):
        return f"is the correct result times {values[0]:.6g}"
    everywhere = all(known or abs(factor - 1) > loose for known, factor in factors)
    expression = name_factor([pair for pair in factors if pair[0]], 100 * loose) if everywhere else ""
    if expression:
        return f"is the correct result times {expression}"
    if all(r.size == 1 for _, _, r in triples):
        return ""                               # any number is some multiple of another
    listed = ", ".join(f"{factor:.4g}" for factor in values)
    return f"is the correct result times a number that depends on the case: {listed}"


def name_factor(pairs, tolerance):
    """Returns the first expression, such as sqrt(d), 1/(B T) or -N, that gives the factor in all pairs, or ""."""
    letters = list(pairs[0][0]) if pairs else []
    products = [*((letter,) for letter in letters), *itertools.combinations(letters, 2)]
    for number, sign in ((1, ""), (-1, "-"), (2, "2 "), (0.5, "1/2 "), (-2, "-2 "), (-0.5, "-1/2 ")):
        for product in products:
            text = " ".join(product)
            below = text if len(product) == 1 else f"({text})"
            for power, shown in ((1, text), (-1, f"1/{below}"), (0.5, f"sqrt({text})"), (-0.5, f"1/sqrt({text})")):
                if all(math.isclose(factor, number * math.prod(known[letter] for letter in product) ** power,
                                    rel_tol=tolerance) for known, factor in pairs):
                    meaning = ", where N is the number of rows," if "N" in product else ""
                    return sign + shown + meaning
    return ""


def transposed(triples):
    def turns_into(w, r):
        swapped = [np.swapaxes(w, a, b) for a, b in itertools.combinations(range(w.ndim), 2)]
        return w.ndim > 1 and any(equal(turned, r) for turned in (w.T, *swapped))
    return "is the correct result transposed" if all(turns_into(w, r) for _, w, r in triples) else ""


def permuted(triples):
    if all(w.size == r.size and equal(w.ravel(), r.ravel()) for _, w, r in triples):
        return "has the correct numbers in the correct order, but the wrong shape,"
    if all(w.size == r.size and equal(np.sort(w, None), np.sort(r, None)) for _, w, r in triples):
        return "has the correct numbers in the wrong order"
    return ""


def wrong_reduction(triples):
    """A sum or mean over one axis is missing, or one was taken over an axis that should have stayed."""
    if not all(w.size and r.size for _, w, r in triples):
        return ""
    for kind, reduced in (("sum", "summed"), ("mean", "averaged")):
        missing = set.intersection(*(
            {axis for axis in range(w.ndim) if equal(getattr(w, kind)(axis), r)} for _, w, r in triples))
        if missing:
            return f"is correct after .{kind}({min(missing)}), so this axis still has to be {reduced},"
        extra = set.intersection(*(
            {axis - r.ndim for axis in range(r.ndim)
             if equal(w, getattr(r, kind)(axis)) or equal(w, getattr(r, kind)(axis, keepdims=True))}
            for _, w, r in triples))
        if extra:
            return f"is the correct result after .{kind}({max(extra)}), but this axis must not be {reduced},"
    return ""


def wrong_axes(triples):
    """Sums of the same numbers over different axes have the same total. Totals of 0 say nothing."""
    same_total = all(abs(w.sum() - r.sum()) <= 1e-9 * abs(r).sum() <= 1e-3 * abs(r.sum()) for _, w, r in triples)
    if same_total and any(w.shape != r.shape for _, w, r in triples):
        return "has the correct total but is summed over the wrong axes"
    return ""


def one_row(triples):
    def only_correct_row(w, r, row):
        return [i for i in range(len(w)) if equal(w[i], r[i])] == [row % len(w)]
    if all(w.shape == r.shape and w.ndim > 1 and len(w) > 1 for _, w, r in triples):
        for row, word in ((0, "first"), (-1, "last")):
            if all(only_correct_row(w, r, row) for _, w, r in triples):
                return f"is correct only in the {word} row of its first axis"
    return ""


RELATIONS = (all_zero, not_a_number, multiple, transposed, one_row, permuted, wrong_reduction, wrong_axes)
