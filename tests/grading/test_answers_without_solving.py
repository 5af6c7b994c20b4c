"""Answers that do not solve an exercise get no points: tables of another seed's answers, guesses, ignored arguments."""

import itertools
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import ROOT
from helpers.quick import quick
from helpers.students import play_target

from numpy_transformer.course.checker.comparison import close
from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import exercises
from numpy_transformer.course.exercises.observation import copy_arrays, observe
from numpy_transformer.course.sandbox import Function
from numpy_transformer.course.sandbox.inside.case_arguments import BESIDE

WITH_ARGUMENTS = [exercise for exercise in exercises().values() if exercise.parameters]
each_exercise = pytest.mark.parametrize("exercise", [           # the slow run has the others
    pytest.param(exercise, id=exercise.number, marks=[] if exercise.number.endswith(".1") else [pytest.mark.slow])
    for exercise in WITH_ARGUMENTS])
UNUSED = {("13.2", "x")}                        # arguments that mislead on purpose: the right answer does not need them


def exact(value):
    """Returns a key that is the same for the same arguments: the bytes of arrays, and all other values."""
    if isinstance(value, (tuple, list)):
        return tuple(map(exact, value))
    if isinstance(value, Function):
        return value.source, exact(list(value.arrays.values()))
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def rough(value):
    """Returns a key that is the same for arguments of the same shapes and types."""
    if isinstance(value, (tuple, list)):
        return tuple(map(rough, value))
    return (value.dtype.str, value.shape) if isinstance(value, np.ndarray) else type(value)


def answer(exercise, outputs):
    """Returns the outputs as a function returns them; for a class, an object whose methods and attributes have them."""
    if not exercise.is_class:
        return outputs if len(outputs) > 1 else outputs[0]
    made, returned = SimpleNamespace(), iter(outputs)
    for name in ("forward", "backward"):
        setattr(made, name, lambda *arguments: next(returned))
    set_attributes(made, exercise, outputs)
    return made


def set_attributes(made, exercise, outputs):
    """Gives an object the attributes that are among the outputs of a class."""
    for path, value in zip(exercise.paths, outputs[len(outputs) - len(exercise.paths):], strict=True):
        *parts, last = path.split(".")
        owner = made
        for part in parts:
            vars(owner).setdefault(part, SimpleNamespace())
            owner = vars(owner)[part]
        setattr(owner, last, value)


def own_calls(case):
    """Returns the calls of a case without those of a second object, whose results are not compared."""
    return [call for call in case.calls if not call[0].startswith(BESIDE)]


def beginnings(case, key):
    """Returns keys for the arguments of a function, or for those of a class and its calls up to each of them."""
    calls = own_calls(case)
    return [(key(case.inputs), key(calls[:count])) for count in range(1, len(calls) + 1)] or [(key(case.inputs), key([]))]


def by_arguments(exercise, cases, answers):
    """A table from arguments to answers; for arguments that are not in it, those of a case with the same shapes.

    The objects of a class know their calls: each returns what it returned in the case that began with the same calls.
    """
    exactly, roughly = ({beginning: outputs for case, outputs in zip(cases, answers) for beginning in beginnings(case, key)}
                        for key in (exact, rough))

    def find(inputs, calls):
        return (exactly.get((exact(inputs), exact(calls))) or roughly.get((rough(inputs), rough(calls))) or answers[0])

    def look_up(*inputs):
        if not exercise.is_class:
            return answer(exercise, find(inputs, []))
        made, calls = SimpleNamespace(), []

        def call(name, *arguments):
            calls.append((name, copy_arrays(arguments)))
            outputs = find(inputs, calls)
            set_attributes(made, exercise, outputs)
            return outputs[len(calls) - 1]
        for name in ("forward", "backward"):
            setattr(made, name, partial(call, name))
        return made
    return look_up


def by_order(exercise, cases, answers):
    """A list of answers: the first call gets the first of them. What a second object of a class returns does not matter."""
    rest = iter([outputs for case, outputs in zip(cases, answers)
                 for _ in range(1 + (len(own_calls(case)) < len(case.calls)))])
    return lambda *inputs: answer(exercise, next(rest))


@pytest.mark.slow
def test_every_case_depends_on_the_seed():
    """Repetitions of a few numbers with other ones may coincide, as the first step of two schedules does. A further case that
    would repeat an earlier one is left out, so a seed may have some more than another.
    """
    fixed = [(exercise.number, case.note) for exercise in WITH_ARGUMENTS
             for case, other in zip(exercise.cases(1), exercise.cases(2))
             if case.note == other.note and (case.arrays() or not case.role) and exact((case.inputs, case.calls)) == exact((other.inputs, other.calls))]
    assert fixed == [("06.1", "one token")]     # its only argument is T = 1


def test_the_guide_for_teachers_lists_the_exercises_whose_cases_are_the_same_for_every_seed():
    text = (ROOT / "lessons" / "GRADING.md").read_text(encoding="utf-8")
    listed, = re.findall(r"exercises have no arguments\. (.*?)\n\n\w", text, re.S)
    assert sorted(re.findall(r"\d\d\.\d", listed)) == [n for n, e in exercises().items() if not e.parameters]


@pytest.mark.parametrize("table", quick(1, [by_arguments, by_order]))
@each_exercise
def test_a_table_of_one_seeds_answers_passes_with_this_seed_only(exercise, table):
    known, other = AnswerKey(exercise, 1), AnswerKey(exercise, 2)
    answers = [observe(exercise, exercise.solution, case).outputs for case in known.cases]
    passed, failed = (play_target(exercise, table(exercise, known.cases, answers), key.cases) for key in (known, other))
    assert judge(known, passed).status == "pass"
    assert not all_right(other, failed.results)


def all_right(key, results):
    """Returns True if every value is right; says so without a search for known mistakes."""
    return all(len(result.outputs) == len(expected.outputs) and all(
                   same_values(y, right, expected.outputs) for y, right in zip(result.outputs, expected.outputs))
               for result, expected in zip(results, key.expected))


def same_values(y, right, outputs):
    y = np.asarray(y)
    return y.shape == right.shape and close(y, np.asarray(right, float), outputs).all()


def guesses(case):
    """Returns {name: array} of what a single expression without any idea makes of the arguments."""
    arrays = {f"argument {k}": value for k, value in enumerate(arguments(case)) if isinstance(value, np.ndarray)}
    found = {f"{number}": np.asarray(number) for number in (0, 1, -1, 0.5, np.nan)}
    for name, x in arrays.items():
        found |= {name: x, f"{name}.T": x.T, f"zeros like {name}": np.zeros_like(x), f"ones like {name}":
                  np.ones_like(x), f"False like {name}": x != x, f"{name} > 0": x > 0, f"{name} != 0": x != 0,
                  f"max({name}, 0)": np.maximum(x, 0), f"sorted {name}": np.sort(x), f"{name}[::-1]": x[::-1],
                  f"tanh {name}": np.tanh(x.astype(float)), f"{name}[..., 1:]": x[..., 1:]}
        reductions = ("sum", "mean", "max", "argmax") if x.size else ("sum",)
        for reduce, axis in itertools.product(reductions, (None, *range(x.ndim))):
            found[f"{name}.{reduce}({axis})"] = getattr(x, reduce)(axis)
    for (name, x), (other, y) in itertools.product(arrays.items(), repeat=2):
        for operation in (np.add, np.subtract, np.multiply, np.divide, np.matmul):
            try:
                found[f"{operation.__name__}({name}, {other})"] = operation(x, y)
            except (TypeError, ValueError):     # the shapes do not fit
                continue
    return found


@each_exercise
def test_no_single_expression_passes(exercise):
    """Each output is compared by itself; some are easy, such as the gradient of a bias, but never all of them."""
    key = AnswerKey(exercise, 1)
    with np.errstate(all="ignore"):
        by_case = [(guesses(case), expected.outputs) for case, expected in zip(key.main_cases, key.expected)]
        guessed = [{name for name, y in by_case[0][0].items() if all(
            name in made and same_values(made[name], outputs[j], outputs) for made, outputs in by_case)}
            for j in range(len(exercise.outputs))]
    assert not all(guessed), guessed


def arguments(case):
    return [*case.inputs, *(value for _, given in case.calls for value in given)]


def with_arguments(case, values):
    rest = iter(values)
    return replace(case, inputs=tuple(next(rest) for _ in case.inputs),
                   calls=tuple((method, tuple(next(rest) for _ in given)) for method, given in case.calls))


def substitutes(values):
    """Yields lists that could replace the values of one argument, one for each case, if they were ignored."""
    if all(isinstance(value, np.ndarray) for value in values):
        yield from (list(map(make, values)) for make in (np.zeros_like, np.ones_like))
        if all(value.ndim and value.size for value in values):
            yield [np.broadcast_to(value[:1], value.shape).copy() for value in values]
    elif all(isinstance(value, (int, float)) for value in values):
        yield [values[0]] * len(values)         # the number of the first case
        yield from ([type(values[0])(number)] * len(values) for number in (0, 1, 2, 1e-5, 0.1))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@each_exercise
def test_answers_that_ignore_an_argument_do_not_pass(exercise):
    key = AnswerKey(exercise, 1)
    given = [arguments(case) for case in key.main_cases]
    for k in range(len(given[0])):
        name = exercise.parameters[k] if k < len(exercise.parameters) else f"argument {k}"
        if len(set(map(len, given))) > 1 or (exercise.number, name) in UNUSED:
            continue
        for values in substitutes([row[k] for row in given]):
            cases = [with_arguments(case, [*row[:k], value, *row[k + 1:]])
                     for case, row, value in zip(key.main_cases, given, values)]
            run = play_target(exercise, exercise.solution, cases)
            assert not all_right(key, run.results), (name, values[0])
