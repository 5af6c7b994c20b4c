"""A wrong output next to the correct one, in one case, with everything that a relation may refer to."""

import functools
from dataclasses import dataclass

import numpy as np

from ....texts import Message
from ..comparison import close, values_agree

TYPES = "fiub"                                  # kinds of dtypes that are numbers
ARGUMENT, CORRECT = "relations.array.argument", "relations.array.correct"


@dataclass
class Pair:
    """One output in one case.

    Parameters:
        case : Case
        known : {name: value} of possible factors
        wrong, right : the student's output and the correct one, as float64 (or float32 if the student's is)
        kind : kind of the correct output's dtype, such as "f"
        all_right : all correct outputs of the case
        arrays : {Message of its name: array} that the wrong output may contain: arguments and other correct outputs
        scalars : {name: value} of the arguments that are no arrays
    """

    case: object
    known: dict
    wrong: np.ndarray
    right: np.ndarray
    kind: str
    all_right: tuple
    arrays: dict
    scalars: dict

    @functools.cached_property
    def largest(self):
        """The largest absolute value of all correct outputs of the case."""
        return max((np.max(abs(y), initial=0, where=np.isfinite(y)) for y in map(as_float, self.all_right)), default=0)

    @functools.cached_property
    def same_shape(self):
        return self.wrong.shape == self.right.shape

    @functools.cached_property
    def bad(self):
        """Which entries are wrong; only for outputs of the same shape."""
        return ~close(self.wrong, self.right, self.all_right)

    @functools.cached_property
    def fine(self):
        return self.same_shape and not self.bad.any()

    def equal(self, a, b):
        """Compares two arrays by the scale of this case."""
        return values_agree(a, b, self.largest)


def rounded(number, digits=6):
    """Returns the number that people read; two numbers that they cannot tell apart are one."""
    return float(f"{number:.{digits}g}")


def as_float(y):
    """Converts to float64, except float32, which has a wider tolerance."""
    return y if y.dtype == np.float32 else np.asarray(y, float)


def make_pairs(answer_key, answers):
    """Returns a list of Pairs for each output, one for each main case without an error."""
    exercise = answer_key.exercise
    made = [[] for _ in exercise.outputs]
    for case, answer, expected in zip(answer_key.main_cases, answers, answer_key.expected):
        if answer.error:
            continue
        known, arguments, numbers = exercise.letters(case), argument_arrays(exercise, case), scalars(exercise, case)
        for j, name in enumerate(exercise.outputs):
            others = {Message(CORRECT, name=other): y for other, y in zip(exercise.outputs, expected.outputs)
                      if other != name}
            right = expected.outputs[j]
            made[j].append(Pair(case, known, as_float(answer.outputs[j]), np.asarray(right, float), right.dtype.kind,
                                expected.outputs, {**arguments, **others}, numbers))
    return made


def argument_arrays(exercise, case):
    """Returns {Message: array} of a function's arguments. Those of a class have no names that a sentence could use."""
    if exercise.is_class:
        return {}
    return {Message(ARGUMENT, name=name): value for name, value in zip(exercise.parameters, case.inputs)
            if isinstance(value, np.ndarray) and value.dtype.kind in TYPES}


def scalars(exercise, case):
    """Returns {name: value} of the arguments that are numbers."""
    return {name: value for name, value in zip(exercise.parameters, case.inputs) if isinstance(value, (int, float))}
