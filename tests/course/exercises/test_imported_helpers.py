"""No sheet contains a solution of another exercise. What a sheet needs of them is imported, wherever it is checked."""

import inspect

import pytest

from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose, exercises
from numpy_transformer.course.exercises.observation import observe
from numpy_transformer.course.sandbox import ProgramTask, layers, run, run_files
from numpy_transformer.course.sandbox.inside.worker import HELPERS

IMPORTING = [number for number, exercise in exercises().items() if exercise.imported]


def defined_by(exercise):
    """{name: function or class} that the sheet of an exercise defines, with the TODO that it leaves."""
    names = {}
    exec(exercise.skeleton(), names)
    return {name: value for name, value in names.items() if getattr(value, "__module__", "builtins") == "builtins"
            and (inspect.isfunction(value) or inspect.isclass(value))}


def solves(value, key):
    """Whether a function or class of a sheet gives the right results in all main cases of another exercise."""
    exercise = key.exercise
    if isinstance(value, type) != exercise.is_class or len(inspect.signature(value).parameters) != len(exercise.parameters):
        return False
    return all(key.is_right(i, observe(exercise, value, case)) for i, case in enumerate(key.main_cases))


@pytest.mark.slow
def test_no_sheet_contains_a_solution_of_another_exercise():
    keys = [AnswerKey(exercise, 0) for exercise in exercises().values() if exercise.kind == "write"]
    for exercise in exercises().values():
        for name, value in defined_by(exercise).items():
            solved = [key.exercise.number for key in keys if solves(value, key)]
            assert not solved, f"the sheet of {exercise.number} solves {solved} with its {name}"


def test_a_sheet_that_contained_a_solution_would_be_found():
    assert solves(choose("01.1").solution, AnswerKey(choose("01.1"), 0))
    assert not solves(choose("01.7").given[0], AnswerKey(choose("01.1"), 0))


@pytest.mark.parametrize("number", [pytest.param(number, marks=pytest.mark.slow if number == "13.3" else ())
                                    for number in IMPORTING])
def test_a_sheet_imports_what_other_exercises_ask_for(number):
    """The file works by itself, where the package is installed, and where only the worker provides the helpers."""
    exercise = choose(number)
    names, sheet = {}, exercise.skeleton()
    exec(exercise.header, names)
    for part in exercise.imported:
        assert names[part.__name__].__module__ == HELPERS and names[part.__name__].__doc__
        assert f"def {part.__name__}(" not in sheet and part.__name__ in sheet


def test_helpers_are_provided_without_any_other_file_or_the_package():
    exercise = choose("05.1")
    key = AnswerKey(exercise, 0)
    assert judge(key, run(exercise.edited().encode(), exercise, key.cases)).status == "pass"


@pytest.mark.parametrize("order", ["{own}{imported}", "{imported}{own}"])
def test_a_file_that_answers_several_exercises_keeps_what_it_has_written(order):
    exercise = choose("01.1")
    key = AnswerKey(exercise, 0)
    source = "import numpy as np\n" + order.format(own=exercise.text, imported=f"from {HELPERS} import softmax\n")
    assert judge(key, run(source.encode(), exercise, key.cases)).status == "pass"


def test_an_exercise_cannot_be_answered_with_the_helper_of_another():
    exercise = choose("01.1")
    key = AnswerKey(exercise, 0)
    verdict = judge(key, run(f"from {HELPERS} import softmax\n".encode(), exercise, key.cases))
    assert verdict.status == "error" and "not available" in verdict.sentences[0] + verdict.sentences[-1] + str(verdict.note)


def test_the_module_says_what_it_has_not():
    from numpy_transformer.course import helpers
    with pytest.raises(AttributeError, match="no nonsense"):
        helpers.nonsense  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bubblewrap", "Landlock"])
def test_a_hand_in_has_the_helpers_in_each_sandbox(name):
    """Also where only one of its files is there, and where it defines a softmax of its own above the import."""
    layer = next(layer for layer in layers() if layer.name == name)
    if not layer.works:
        pytest.skip(layer.sentence)
    exercise = choose("05.1")
    key = AnswerKey(exercise, 0)
    wrong_softmax = "def softmax(z):\n    return z\n\n\n"
    for source in (exercise.edited(), wrong_softmax + exercise.edited()):
        result, = run_files({exercise.file: source.encode()}, [ProgramTask(exercise, key.cases, exercise.file)], layer)
        assert judge(key, result).status == "pass"
