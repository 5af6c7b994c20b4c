"""Names a wrong answer: finds the known mistakes, alone or combined, that give the same results in every case."""

import functools
import itertools
import math
import re

import numpy as np

from .comparison import close
from .exercise import observe
from .matching import (agreement_on_changes, fingerprint, matches, matches_in_case, same_changes, similar)
from .sandbox.inside.worker import Function, instances

MOST_TOGETHER = 3                               # known mistakes that one answer may combine
MOST_COMBINATIONS = 5000                        # that are tried; with many known mistakes, fewer are combined


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
        same number are all returned, those with the fewest edits if they combine mistakes.

        Parameters:
            answers : an Observation for each main case
        """
        if self.exercise.judge:
            return [(mistake,) for mistake in self.exercise.mistakes if shows(answers[0], mistake)][:1]
        if not self.shows_a_mistake(answers):
            return []
        small = fingerprint(answers[self.smallest_case])
        for count in range(1, self.most_together(answers) + 1):
            found = []
            for mistakes in itertools.combinations(self.exercise.mistakes, count):
                if count > 1 and not similar(self.fingerprint(mistakes), small):
                    continue
                observed = self.observations_like(answers, mistakes)
                if matches(observed, answers) and self.distinguishable(observed, answers):
                    edits = sum(len(mistake.edits) for mistake in mistakes) if count > 1 else 0
                    found.append((agreement_on_changes(observed, answers), -edits, mistakes))
            if found:
                best = max(rank for *rank, _ in found)
                return [mistakes for *rank, mistakes in found if rank == best]
        return []

    def most_together(self, answers):
        """Returns how many mistakes may be combined: the less the answers tell, the fewer."""
        if all(answer.error for answer in answers):
            return 1
        kinds = {y.dtype.kind for answer in self.expected for y in answer.outputs}
        most = MOST_TOGETHER if "f" in kinds or not kinds else 2
        while math.comb(len(self.exercise.mistakes), most) > MOST_COMBINATIONS:
            most -= 1
        return most

    def distinguishable(self, observed, answers):
        """Returns True if a mistake can be distinguished from the correct solution.

        A mistake with correct outputs can only be identified by what it writes into the arguments.
        """
        if not self.expected or not matches(observed, self.expected):
            return True
        changes_something = any(observation.changed for observation in observed)
        return changes_something and all(map(same_changes, observed, answers))

    def touch_the_same_output(self, mistakes):
        """Returns True if two of these mistakes, each by itself, change the same output."""
        touched = []
        for mistake in mistakes:
            observed = self.observations((mistake,))
            touched.append({j for seen, expected in zip(observed, self.expected) if not seen.error
                            for j, (yours, right) in enumerate(zip(seen.outputs, expected.outputs))
                            if not is_close(yours, right, expected.outputs)})
        return any(a & b for a, b in itertools.combinations(touched, 2))

    def is_right(self, i, answer):
        """Returns True if all outputs of an answer to main case i are correct."""
        outputs = self.expected[i].outputs
        return not answer.error and len(answer.outputs) == len(outputs) and all(
            is_close(yours, right, outputs) for yours, right in zip(answer.outputs, outputs))

    def shows_a_mistake(self, answers):
        """Returns True if the answers tell enough to be attributed to one mistake.

        Zeros, a single number everywhere, NaN and errors can come from anything. They count if other values are
        correct: NaN in some entries or some cases; errors in some cases if the messages name the sizes. If all cases
        are errors, the messages must be compared.
        """
        if not self.expected or self.exercise.hides_answers:
            return True
        wrong = [i for i, answer in enumerate(answers) if not answer.error and not self.is_right(i, answer)]
        errors = [answer.error for answer in answers if answer.error]
        if not wrong and len(errors) in (0, len(answers)):
            return True                         # only the arguments that were changed tell, or only the messages
        if any(self.is_telling(j, [(answers[i], self.expected[i]) for i in wrong])
               for j in range(len(self.exercise.outputs))):
            return True
        partly_right = len(wrong) + len(errors) < len(answers) or any(
            np.isnan(y).any() and np.isfinite(y).any() for i in wrong for y in answers[i].outputs)
        return partly_right and (not errors or any(map(names_sizes, errors)))

    def is_telling(self, j, wrong):
        """Returns True if output j has wrong numbers, and not all of them are zero or one and the same number."""
        numbers, discrete = [], False
        for answer, expected in wrong:
            yours, right = answer.outputs[j], expected.outputs[j]
            known, discrete = ~np.isnan(yours), right.dtype.kind != "f"
            if yours.shape != right.shape or (known & ~close(yours, np.asarray(right, float), expected.outputs)).any():
                least = 0 if discrete else 1e-9 * expected.largest      # what is smaller is zero up to rounding
                numbers.append(np.where(abs(np.asarray(yours, float)) > least, yours, 0)[known])
        numbers = np.concatenate([np.ravel(part) for part in numbers] or [[]])
        if discrete or numbers.size == 1:
            return bool(numbers.any())
        return numbers.size > 0 and np.ptp(numbers) > 0


def shows(answer, mistake):
    """Returns True if an answer to "find the bug" shows a mistake."""
    try:
        return bool(mistake.shown_by(*answer.outputs))
    except Exception:                           # written for arrays that have the right shapes
        return False


def names_sizes(error):
    """Returns True if the message of an error contains sizes, so that it tells more than the kind of error."""
    return len(re.findall(r"\d+", error)) >= 2


def is_close(yours, right, all_right):
    return yours.shape == right.shape and bool(close(yours, np.asarray(right, float), all_right).all())
