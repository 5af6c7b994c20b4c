"""Which mistake a wrong answer is: by the catalogue, alone or combined, else by its relation to the right answer."""

import functools
import itertools
import math

import numpy as np

from .exercise import observe
from .worker import Function, inside

TOGETHER = 3                                    # mistakes that are looked for in one answer


class Library:
    """The cases of one exercise and seed, the right answers, and those of every known mistake."""

    def __init__(self, exercise, seed):
        self.exercise = exercise
        self.cases = exercise.cases(seed)
        self.main = [case for case in self.cases if not case.role]
        self.expected = [observe(exercise, exercise.reference, case) for case in self.main * bool(exercise.reference)]
        self.targets, self.prints = {}, {}

    def target(self, mistakes):
        """The solution with these mistakes; None where their edits touch each other."""
        if mistakes not in self.targets:
            text = self.exercise.edited_text(*(mistake.edits for mistake in mistakes))
            make = self.exercise.assembled if self.exercise.is_class else self.exercise.target
            self.targets[mistakes] = None if text is None else make(text)
        return self.targets[mistakes]

    def observed(self, mistakes, cases=None):
        return [observe(self.exercise, self.target(mistakes), case) for case in cases or self.main]

    def print(self, mistakes):
        """The fingerprint in the smallest case, by which most combinations are told apart at little cost, or None."""
        if mistakes not in self.prints:
            seen = self.observed(mistakes, [self.main[self.smallest]]) if self.target(mistakes) else []
            self.prints[mistakes] = fingerprint(seen[0]) if seen else None
            del self.targets[mistakes]
        return self.prints[mistakes]

    @functools.cached_property
    def smallest(self):
        """The number of the case with the smallest arrays, those of functions among the arguments too."""
        def size(case):
            given = [[*function.arrays.values()] for function in inside((case.inputs, case.calls), Function)]
            return sum(array.size for array in (*case.arrays(), *inside(given, np.ndarray)))
        return min(range(len(self.main)), key=lambda i: size(self.main[i]))

    def named(self, answers):
        """The mistakes that give these answers in every case: a list of tuples, the simplest, and equally simple ones.

        answers : an Observation for each of the main cases
        """
        small = fingerprint(answers[self.smallest])
        blind = all(answer.error for answer in answers)     # errors alone are too little for a combination
        for count in range(1, TOGETHER + 1 if not blind else 2):
            found = []
            for mistakes in itertools.combinations(self.exercise.mistakes, count):
                if count > 1 and not near(self.print(mistakes), small):
                    continue
                observed = self.observed(mistakes)
                if matches(observed, answers):
                    alike = changes_alike(observed, answers)
                    right = self.expected and matches(observed, self.expected)
                    if not right or alike and any(seen.changed for seen in observed):   # then arguments alone show it
                        found.append((alike, mistakes))
            if found:
                best = max(found, key=lambda item: item[0])[0]
                return [mistakes for alike, mistakes in found if alike == best]
        return []


def changes_alike(observed, answers):
    """2 if the same arguments were changed in each case, 1 if in all cases together, else 0."""
    ours, theirs = ([seen.changed for seen in observations] for observations in (observed, answers))
    return (ours == theirs) + (set().union(*ours) == set().union(*theirs))


def fingerprint(observation):
    """What tells most answers apart: the kind of an error, or of each output its shape, a weighted sum and its size."""
    if observation.error:
        return observation.error.split(":")[0]
    with np.errstate(invalid="ignore"):
        return tuple((y.shape, float(np.cos(np.arange(1, y.size + 1) ** 1.5) @ y.ravel()), float(np.abs(y).sum()))
                     for y in (np.asarray(y, float) for y in observation.outputs))


def near(a, b):
    if a is None or isinstance(a, str) or isinstance(b, str):
        return a == b
    return len(a) == len(b) and all(
        shape == shape2 and (abs(x - x2) <= 1e-4 * max(size, size2) or x != x and x2 != x2 or x == x2)
        for (shape, x, size), (shape2, x2, size2) in zip(a, b))


def matches(observed, answers):
    """Whether both are the same in every case: equal outputs, or errors of one kind (all errors: with one text)."""
    pairs = list(zip(observed, answers))
    if all(a.error and b.error for a, b in pairs):
        return all(a.error == b.error for a, b in pairs)
    return all(a.error.split(":")[0] == b.error.split(":")[0] if a.error or b.error else
               len(a.outputs) == len(b.outputs) and all(equal(x, y, largest(b)) for x, y in zip(a.outputs, b.outputs))
               for a, b in pairs)


def largest(observation):
    return max((np.max(abs(y), initial=0, where=np.isfinite(y)) for y in observation.outputs), default=0)


def equal(a, b, largest=0):
    """The same shape and values, to 1e-9 of b's largest entry, or 1e-5 where one of them is float32.

    largest : of all outputs of the case; beside it b can be rounding alone
    """
    if a is None or b is None or a.shape != b.shape:
        return False
    tolerance = 1e-5 if np.float32 in (a.dtype, b.dtype) else 1e-9
    a, b = np.asarray(a, float), np.asarray(b, float)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = np.max(abs(b), initial=0, where=finite)
    return bool(np.all(abs(a[finite] - b[finite]) <= tolerance * (largest if scale < 1e-9 * largest else scale)))


def relations(library, answers):
    """Sentences on how each wrong output is related to the right one, as far as that holds in every case.

    answers : an Observation for each of the main cases
    """
    names, sentences = library.exercise.outputs, []
    if any(len(answer.outputs) != len(names) for answer in answers):
        return []
    letters = list(map(library.exercise.letters, library.main))
    for j, name in enumerate(names):
        triples = [(known, real(answer.outputs[j]), real(right.outputs[j]))
                   for known, answer, right in zip(letters, answers, library.expected)]
        if not all(equal(w, r) for _, w, r in triples):
            relation = next(filter(None, (relate(triples) for relate in RELATIONS)), "") or another(library, triples)
            every = ", in every case" * (len(letters) > 1 and "depends on the case" not in relation)
            sentences += [f"{name} is {relation}{every}"] * bool(relation)
    return sentences


def real(y):
    """float64, but float32 as it is: its tolerance is wider."""
    return y if y.dtype == np.float32 else np.asarray(y, float)


def another(library, triples):
    """The output or argument that stands in the place of this output, in words."""
    arrays = {f"the right {name}": [right.outputs[k] for right in library.expected]
              for k, name in enumerate(library.exercise.outputs)}
    if not library.exercise.is_class:
        arrays |= {f"the argument {name}": [case.inputs[k] for case in library.main]
                   for k, (name, value) in enumerate(zip(library.exercise.parameters, library.main[0].inputs))
                   if isinstance(value, np.ndarray)}
    return next((text for text, values in arrays.items()
                 if all(equal(w, real(value)) for (_, w, _), value in zip(triples, values))), "")


def nothing(triples):
    return "zero everywhere" if all(w.size and not w.any() for _, w, _ in triples) else ""


def not_a_number(triples):
    if all(w.size and np.isnan(w).all() for _, w, _ in triples):
        return "NaN everywhere"
    return "right wherever it is not NaN" if all(
        w.shape == r.shape and equal(w[~np.isnan(w)], r[~np.isnan(w)]) for _, w, r in triples) else ""


def a_factor(triples):
    """The right answer times a number, with the number's name if it has one."""
    factors = []
    for known, w, r in triples:
        if w.shape != r.shape or not np.isfinite(w).all() or w.any() != r.any():
            return ""
        if r.any():
            factors.append((known, float(np.vdot(r, w) / np.vdot(r, r))))
            if not equal(w, factors[-1][1] * r):
                return ""
    values = [factor for _, factor in factors]
    loose = 1e-5 if any(w.dtype == np.float32 for _, w, _ in triples) else 1e-9
    if max(values) - min(values) <= loose * abs(values[0]):
        return f"the right one times {values[0]:.6g}"
    everywhere = all(known or abs(factor - 1) > loose for known, factor in factors)
    named = name_factor([pair for pair in factors if pair[0]], 100 * loose) if everywhere else ""
    if not named and all(r.size == 1 for _, _, r in triples):
        return ""                               # any number is some multiple of another
    return "the right one times " + (named or "a number that depends on the case: "
                                     + ", ".join(f"{factor:.4g}" for factor in values))


def name_factor(pairs, tolerance):
    """sqrt(d), 1/(B T), -N and the like: the first expression in the letters that gives the factor in all pairs."""
    letters = list(pairs[0][0]) if pairs else []
    products = [*((letter,) for letter in letters), *itertools.combinations(letters, 2)]
    for number, word in ((1, ""), (-1, "-"), (2, "2 "), (0.5, "1/2 "), (-2, "-2 "), (-0.5, "-1/2 ")):
        for product in products:
            inside = " ".join(product)
            below = inside if len(product) == 1 else f"({inside})"
            for power, text in ((1, inside), (-1, f"1/{below}"), (0.5, f"sqrt({inside})"), (-0.5, f"1/sqrt({inside})")):
                if all(math.isclose(factor, number * math.prod(known[letter] for letter in product) ** power,
                                    rel_tol=tolerance) for known, factor in pairs):
                    return word + text + ", N being the number of rows" * ("N" in product)
    return ""


def transposed(triples):
    return "the right one, transposed" if all(
        w.ndim > 1 and any(equal(turned, r) for turned in (w.T, *(
            np.swapaxes(w, a, b) for a, b in itertools.combinations(range(w.ndim), 2)))) for _, w, r in triples) else ""


def permuted(triples):
    if all(w.size == r.size and equal(w.ravel(), r.ravel()) for _, w, r in triples):
        return "made of the right numbers in the right order, in another shape"
    return "made of the right numbers, in another order" if all(
        w.size == r.size and equal(np.sort(w, None), np.sort(r, None)) for _, w, r in triples) else ""


def not_summed(triples):
    if not all(w.size and r.size for _, w, r in triples):
        return ""
    for kind in ("sum", "mean"):
        axes = [{axis for axis in range(w.ndim) if equal(getattr(w, kind)(axis), r)} for _, w, r in triples]
        if set.intersection(*axes):
            return f"right after .{kind}({min(set.intersection(*axes))}): that axis is still there"
        axes = [{axis - r.ndim for axis in range(r.ndim)
                 if equal(w, getattr(r, kind)(axis)) or equal(w, getattr(r, kind)(axis, keepdims=True))}
                for _, w, r in triples]
        if set.intersection(*axes):
            return f"the right one after .{kind}({max(set.intersection(*axes))}): that axis must stay"
    return ""


def other_axes(triples):
    """Two sums of the same numbers have one total, over whichever axes they go; not where it is 0 in both."""
    return "right in its total alone: it is summed over other axes than it should be" if all(
        abs(w.sum() - r.sum()) <= 1e-9 * abs(r).sum() <= 1e-3 * abs(r.sum()) for _, w, r in triples) and any(
        w.shape != r.shape for _, w, r in triples) else ""


def one_row(triples):
    for index, word in ((0, "first"), (-1, "last")):
        if all(w.shape == r.shape and w.ndim > 1 and len(w) > 1 and
               [i for i in range(len(w)) if equal(w[i], r[i])] == [index % len(w)] for _, w, r in triples):
            return f"right in the {word} row of its first axis only"
    return ""


RELATIONS = (nothing, not_a_number, a_factor, transposed, one_row, permuted, not_summed, other_axes)
