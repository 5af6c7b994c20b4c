"""Which mistake a wrong answer is: by the catalogue, alone or combined, else by its relation to the right answer."""

import functools
import inspect
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
        self.expected = [observe(exercise, exercise.reference, case) for case in self.main] if exercise.reference else []
        self.targets, self.prints = {}, {}

    def target(self, mistakes):
        """The solution with these mistakes; None where their edits touch each other."""
        if mistakes not in self.targets:
            source = self.exercise.edited_text(*(mistake.edits for mistake in mistakes))
            self.targets[mistakes] = None if source is None else self.exercise.target(source)
        return self.targets[mistakes]

    def observed(self, mistakes, cases=None):
        return [observe(self.exercise, self.target(mistakes), case) for case in cases or self.main]

    def print(self, mistakes):
        """The fingerprint in the smallest case, by which most combinations are told apart at little cost, or None."""
        if mistakes not in self.prints:
            possible = self.target(mistakes) is not None
            self.prints[mistakes] = fingerprint(self.observed(mistakes, [self.main[self.smallest]])[0]) if possible else None
            del self.targets[mistakes]
        return self.prints[mistakes]

    @functools.cached_property
    def smallest(self):
        """The number of the case with the smallest arrays, those of functions among the arguments too."""
        def size(case):
            functions = inside((case.inputs, case.calls), Function)
            return sum(array.size for array in (*case.arrays(), *inside([[*f.arrays.values()] for f in functions], np.ndarray)))
        return min(range(len(self.main)), key=lambda i: size(self.main[i]))

    def named(self, answers):
        """The mistakes that give these answers in every case: a list of tuples, the simplest, and equally simple ones.

        answers : an Observation for each of the main cases
        """
        small = fingerprint(answers[self.smallest])
        for count in range(1, TOGETHER + 1):
            found = []
            for mistakes in itertools.combinations(self.exercise.mistakes, count):
                if count > 1 and not near(self.print(mistakes), small):
                    continue
                observed = self.observed(mistakes)
                right = self.expected and matches(observed, self.expected)      # in all cases: it says nothing, unless
                if matches(observed, answers) and (any(changes(observed)) or not right):    # it changes an argument
                    found.append((changes(observed) == changes(answers), mistakes))
            if found:
                best = max(found, key=lambda item: item[0])[0]
                return [mistakes for exact, mistakes in found if exact == best]
        return []


def changes(observations):
    return [observation.changed for observation in observations]


def fingerprint(observation):
    """A few numbers that tell most answers apart: the kind of an error, or a sum with random weights for each output."""
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
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
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
    for j, name in enumerate(names):
        triples = [(case, np.asarray(answer.outputs[j], float), np.asarray(right.outputs[j], float))
                   for case, answer, right in zip(library.main, answers, library.expected)]
        if not all(equal(w, r) for _, w, r in triples):
            relation = next(filter(None, (relate(triples) for relate in RELATIONS)), "") or another(library, triples, j)
            sentences += [f"{name} is {relation}"] * bool(relation)
    return sentences


def another(library, triples, j):
    """The output or argument that stands in the place of output j, in words."""
    arrays = {f"the right {name}": [right.outputs[k] for right in library.expected]
              for k, name in enumerate(library.exercise.outputs) if k != j}
    if not library.exercise.is_class:
        arrays |= {f"the argument {name}": [case.inputs[k] for case in library.main]
                   for k, name in enumerate(inspect.signature(library.exercise.solution).parameters)
                   if k < len(library.main[0].inputs) and isinstance(library.main[0].inputs[k], np.ndarray)}
    return next((text for text, values in arrays.items()
                 if all(equal(w, np.asarray(value, float)) for (_, w, _), value in zip(triples, values))), "")


def nothing(triples):
    return "zero everywhere" if all(not w.any() for _, w, _ in triples) else ""


def not_a_number(triples):
    if all(np.isnan(w).all() for _, w, _ in triples):
        return "NaN everywhere"
    return "NaN in some entries, and right in the others" if all(
        w.shape == r.shape and equal(np.where(np.isnan(w), r, w), r) for _, w, r in triples) else ""


def a_factor(triples):
    """The right answer times a number, with the number's name if it has one."""
    factors = []
    for case, w, r in triples:
        if w.shape != r.shape or not np.isfinite(w).all() or not r.any():
            return ""
        factors.append(float(np.vdot(r, w) / np.vdot(r, r)))
        if not w.any() or not equal(w, factors[-1] * r):
            return ""
    named = name_factor([(case.sizes, factor) for (case, _, _), factor in zip(triples, factors) if case.sizes])
    if max(factors) - min(factors) <= 1e-9 * abs(factors[0]):
        return f"the right one times {named or f'{factors[0]:.6g}'}"
    return "the right one times " + (named or "a number that depends on the case: "
                                     + ", ".join(f"{factor:.4g}" for factor in factors))


def name_factor(pairs):
    """-1, sqrt(d), 1/(B T) and the like: the first expression in the sizes that gives the factor in all pairs."""
    if not pairs:
        return ""
    letters = [(letter,) for letter in pairs[0][0]]
    products = [(), *letters, *itertools.combinations(pairs[0][0], 2)]
    for number, word in ((1, ""), (-1, "-"), (2, "2 "), (0.5, "1/2 "), (-2, "-2 "), (-0.5, "-1/2 ")):
        for product in products:
            inside = " ".join(product)
            below = inside if len(product) == 1 else f"({inside})"
            for power, text in ((1, inside), (-1, f"1/{below}"), (0.5, f"sqrt({inside})"), (-0.5, f"1/sqrt({inside})")):
                if all(math.isclose(factor, number * math.prod(sizes[letter] for letter in product) ** power,
                                    rel_tol=1e-7) for sizes, factor in pairs):
                    return word + text if product else f"{number:g}"
    return ""


def transposed(triples):
    return "the right one, transposed" if all(
        w.ndim > 1 and any(equal(np.swapaxes(w, a, b), r) for a, b in itertools.combinations(range(w.ndim), 2))
        for _, w, r in triples) else ""


def permuted(triples):
    return "made of the right numbers, in another order" if all(
        w.size == r.size and equal(np.sort(w, None), np.sort(r, None)) for _, w, r in triples) else ""


def not_summed(triples):
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


def one_row(triples):
    for index, word in ((0, "first"), (-1, "last")):
        if all(w.shape == r.shape and w.ndim > 1 and len(w) > 1 and equal(w[index], r[index]) for _, w, r in triples):
            return f"right in the {word} row of its first axis only"
    return ""


RELATIONS = (nothing, not_a_number, a_factor, transposed, one_row, permuted, not_summed)
