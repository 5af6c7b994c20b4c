"""Names a wrong answer: finds the known mistakes, alone or combined, that give the same results in every case."""

import functools
import itertools
import math
import re

import numpy as np

from ..exercises.definition import AGREE
from ..exercises.observation import Observation, changes, observe
from ..sandbox.inside.case_arguments import Function, instances
from .comparison import (agreement_on_changes, answer_fingerprint, close, is_close, matches, matches_in_case,
                         same_changes, similar, values_agree)
from .messages import reported

OTHER_SEED = 7919                               # added to the seed of the cases that confirm a reason
MOST_TOGETHER = 3                               # known mistakes that one answer may combine
MOST_COMBINATIONS = 700                         # of two mistakes, or of three, that are tried


class AnswerKey:
    """The cases of one exercise and seed, with the correct answers and those of every known mistake.

    Parameters:
        exercise : Exercise
        seed : int, the seed of the cases

    Attributes:
        cases : all cases
        main_cases : the cases that are not further ones: repetitions, numbers of other sizes, or other values
        expected : an Observation of the reference for each main case; empty if the exercise has no reference
    """

    def __init__(self, exercise, seed):
        self.exercise, self.seed = exercise, seed
        self.cases = exercise.cases(seed)
        self.main_cases = [case for case in self.cases if not case.role]
        self.expected = []
        if exercise.reference is not None:
            self.expected = [observe(exercise, exercise.reference, case) for case in self.main_cases]
        self.variants, self.fingerprints, self.alone, self.further = {}, {}, {}, {}

    def expected_in(self, i):
        """Returns an Observation of the reference in any case."""
        if i < len(self.expected):
            return self.expected[i]
        if i not in self.further:
            self.further[i] = observe(self.exercise, self.exercise.reference, self.cases[i])
        return self.further[i]

    @functools.cached_property
    def fresh(self):
        """The answer key with other cases, on which the reason for a wrong answer has to hold as well."""
        return AnswerKey(self.exercise, self.seed + OTHER_SEED)

    def variant(self, mistakes):
        """Returns the solution with these mistakes, or None if their edits touch the same text."""
        if mistakes not in self.variants:
            text = self.exercise.edited_code(*(mistake.edits for mistake in mistakes))
            if text is not None and self.exercise.is_class:
                self.variants[mistakes] = self.exercise.assembled(text)
            else:
                self.variants[mistakes] = None if text is None else self.exercise.target(text, bounded=True)
        return self.variants[mistakes]

    def observations(self, mistakes, cases=None):
        """Returns what the solution with these mistakes does in the given cases, by default in all main cases."""
        observed = []
        for case in cases or self.main_cases:
            self.exercise.steps.restart()
            observed.append(observe(self.exercise, self.variant(mistakes), case))
        return observed

    def observations_like(self, answers, mistakes):
        """Returns the observations up to the first case in which they do not match the answer."""
        observed = []
        for case, answer in zip(self.main_cases, answers):
            observed += self.observations(mistakes, [case])
            if not matches_in_case(observed[-1], answer):
                break
        return observed

    def answers(self, run):
        """Returns what a program did in the main cases, as Observations."""
        observations = []
        for case, result in zip(self.main_cases, run.results):
            is_complete = len(result.outputs) == len(self.exercise.outputs) and all(y is not None for y in result.outputs)
            error = reported(result.report, "error") or ("" if is_complete else "incomplete")
            observations.append(Observation(error=error) if error else
                                Observation(tuple(result.outputs), "", changes(case.arrays(), result.after)))
        return observations

    def fingerprint(self, mistakes):
        """Returns the fingerprint of these mistakes in the smallest case, or None if they cannot be combined.

        It rules out most combinations at little cost.
        """
        if mistakes not in self.fingerprints:
            self.fingerprints[mistakes] = None
            if self.variant(mistakes):
                observation, = self.observations(mistakes, [self.main_cases[self.smallest_case]])
                self.fingerprints[mistakes] = answer_fingerprint(observation)
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
            return [(mistake,) for mistake in shown_mistakes(self.exercise, answers[0])][:1]
        if not self.shows_a_mistake(answers):
            return []
        for count in range(1, MOST_TOGETHER + 1):
            explanations = []
            for mistakes in self.candidates(answers, count):
                observed = self.observations_like(answers, mistakes)
                if matches(observed, answers) and self.distinguishable(observed, answers):
                    edits = sum(len(mistake.edits) for mistake in mistakes) if count > 1 else 0
                    explanations.append((agreement_on_changes(observed, answers), -edits, mistakes))
            if explanations:
                best = max(rank for *rank, _ in explanations)
                return [mistakes for *rank, mistakes in explanations if rank == best]
        return self.identify_first(answers) if self.exercise.hides_answers else []

    def identify_first(self, answers):
        """Returns the known mistakes that explain the first wrong answer to a question with several.

        The other answers may be right or wrong: each stands by itself.
        """
        wrong = [self.wrong_outputs(*pair) for pair in zip(answers, self.expected)]
        first = next(filter(None, wrong), [])[:1]
        if not first or any(answer.error for answer in answers):
            return []
        explanations = []
        for mistake in self.exercise.mistakes:
            observed = self.observations((mistake,))
            changed = [self.wrong_outputs(*pair) for pair in zip(observed, self.expected)]
            if all(part in ([], first) for part in changed) and all(
                    values_agree(seen.outputs[first[0]], answer.outputs[first[0]])
                    for seen, answer in zip(observed, answers)):
                explanations.append((mistake,))
        return explanations

    def wrong_outputs(self, answer, expected):
        """Returns the indices of the outputs of an answer that are not the expected ones; None if there are fewer."""
        if len(answer.outputs) != len(expected.outputs):
            return None
        return [j for j, (yours, right) in enumerate(zip(answer.outputs, expected.outputs))
                if not is_close(yours, right, expected.outputs)]

    def candidates(self, answers, count):
        """Yields combinations of `count` mistakes that may give these answers.

        Errors alone do not identify a combination, and whole numbers and booleans do not identify one of three. Pairs
        that explain the answer if each mistake changes outputs of its own are tried first; of three mistakes, only
        those.
        """
        if count == 1:
            yield from ((mistake,) for mistake in self.exercise.mistakes)
            return
        kinds = {y.dtype.kind for answer in self.expected for y in answer.outputs}
        only_discrete = bool(kinds) and "f" not in kinds
        if all(answer.error for answer in answers) or (count > 2 and only_discrete):
            return
        answer = answers[self.smallest_case]
        small = answer_fingerprint(answer)
        effects = {mistake: self.effects(mistake, answer) for mistake in self.exercise.mistakes}
        chosen = self.exercise.mistakes
        if count > 2:
            chosen = [mistake for mistake in chosen if effects[mistake]]
            if math.comb(len(chosen), count) > MOST_COMBINATIONS:
                return
        likely, others = [], []
        for mistakes in itertools.combinations(chosen, count):
            group = likely if are_complete([effects[mistake] for mistake in mistakes]) else others
            group.append(mistakes)
        tried = likely + others if count == 2 else likely
        for mistakes in tried[:MOST_COMBINATIONS]:
            if similar(self.fingerprint(mistakes), small):
                yield mistakes

    def effects(self, mistake, answer):
        """Returns what a mistake by itself does to each output in the smallest case, next to an answer.

        For each output this is "right" if it is correct in both, "none" if it is wrong in the answer only, "same" if it
        is wrong in the same way, and "other" if in another; "any" if the answer is an error. Returns None if the
        mistake is unlikely to be one of several in the answer: it is an error, or changes what is correct there.
        """
        if answer.error or not self.expected:
            return ("any",)
        if mistake not in self.alone:
            self.alone[mistake], = self.observations((mistake,), [self.main_cases[self.smallest_case]])
        alone, expected = self.alone[mistake], self.expected[self.smallest_case].outputs
        if alone.error or not len(answer.outputs) == len(expected) == len(alone.outputs):
            return None
        labels = []
        for seen, yours, right in zip(alone.outputs, answer.outputs, expected):
            if is_close(seen, right, expected):
                labels.append("right" if is_close(yours, right, expected) else "none")
            elif is_close(yours, right, expected) or seen.shape not in (yours.shape, right.shape):
                return None
            else:
                labels.append("same" if values_agree(seen, yours, answer.largest) else "other")
        return tuple(labels)

    def distinguishable(self, observed, answers):
        """Returns True if a mistake can be distinguished from the correct solution and changes no other arguments.

        A mistake with correct outputs can only be identified by what it writes into the arguments.
        """
        ours, theirs = (set().union(*(seen.changed for seen in seen_in_cases)) for seen_in_cases in (observed, answers))
        if not ours <= theirs:
            return False
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


def are_complete(effects):
    """Returns True if mistakes with these effects may give an answer together.

    A wrong output that only one of them changes must be wrong in the same way as in the answer.
    """
    if not all(effects):
        return False
    for output in zip(*effects):
        changed = [effect for effect in output if effect in ("same", "other")]
        if output[0] not in ("right", "any") and changed != ["same"] and len(changed) < 2:
            return False
    return True


def shown_mistakes(exercise, answer):
    """Returns the mistakes that an answer to "find the bug" shows; none if its arrays do not fit the exercise."""
    try:
        complaint = exercise.judge(*answer.outputs)
        agree = complaint is not None and complaint.kind == AGREE
        return [mistake for mistake in exercise.mistakes if agree and mistake.shown_by(*answer.outputs)]
    except Exception:                           # both are written for arrays that have the right shapes
        return []


def names_sizes(error):
    """Returns True if the message of an error contains sizes, so that it tells more than the kind of error."""
    return len(re.findall(r"\d+", error)) >= 2
