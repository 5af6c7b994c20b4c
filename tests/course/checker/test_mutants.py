"""Every one-edit mutant of a solution fails the checker, unless it is in the list of equivalents with the reason."""

import signal

import pytest
from helpers.mutants import equivalents, mutants, mutated, normalized, passes, survivors
from helpers.students import play_target
from helpers.tricks import EQUIVALENT, around, has_cases, passing, tricks

from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import exercises
from numpy_transformer.course.exercises.step_size import clip_gradients
from numpy_transformer.texts import render

MUTATED = [exercise for exercise in exercises().values() if mutated(exercise)]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="endless mutants are stopped by a signal")
@pytest.mark.parametrize("exercise", MUTATED, ids=lambda e: f"{e.number}-{e.name}")
def test_only_equivalent_mutants_pass(exercise):
    found, listed = survivors(exercise), equivalents().get(exercise.number, {})
    assert not [key for normal, key in found.items() if normal not in listed], "no case kills these mutants"
    assert not listed.keys() - found.keys(), "these entries of the list do not pass, or are no mutants any more"


@pytest.mark.slow
@pytest.mark.parametrize("exercise", list(filter(has_cases, MUTATED)), ids=lambda e: f"{e.number}-{e.name}")
def test_only_equivalent_tricks_pass(exercise):
    """Memories, changed arguments, rounding, clipping, numbers left out and small ones added."""
    found, listed = map(normalized, passing(exercise)), equivalents(EQUIVALENT).get(exercise.number, {})
    assert set(found) == set(listed)


def test_a_solution_with_a_trick_fails():
    """What the long test relies on: each kind of trick is found, and the function around a solution is still right."""
    exercise = exercises()["19.4"]
    key = AnswerKey(exercise, 1)
    assert passes(key, around(clip_gradients, exercise, lambda function: lambda *arguments: function(*arguments)))
    made = dict(tricks(exercise))
    for name in ("remembers by shapes", "remembers by identity", "reverses gradients", "pops from gradients",
                 "adds to gradients", "rounds to 8 digits gradients", "clips to 9 gradients",
                 "leaves out small entries of gradients", "remembers without max_norm",
                 "returns a buffer that the next call overwrites"):
        assert judge(key, play_target(exercise, made[name], key.cases)).status == "fail", name


def test_the_methods_of_a_class_are_right_when_they_return_though_a_later_call_overwrites_it():
    exercise = exercises()["02.2"]
    key, made = AnswerKey(exercise, 1), dict(tricks(exercise))["returns a buffer that the next call overwrites"]
    verdict = judge(key, play_target(exercise, made, key.cases))
    assert verdict.stage == "repeated" and verdict.right and "a later call changed the array y" in render(verdict.note)


def test_the_list_names_exercises_and_gives_whole_sentences_as_reasons():
    numbers = {exercise.number for exercise in MUTATED}
    assert all(" -> " in key for listed in equivalents().values() for key in listed)
    for number, listed in (*equivalents().items(), *equivalents(EQUIVALENT).items()):
        assert number in numbers
        for key, reason in listed.items():
            assert " | " in key, key
            assert reason[0].isupper() and reason.endswith(".") and len(reason) > 20, (key, reason)


def test_a_mutant_fails_and_an_equivalent_one_passes():
    """What the long test relies on: a wrong axis is found, and the solution itself is not."""
    exercise = exercises()["01.2"]
    key = AnswerKey(exercise, 1)
    assert passes(key, exercise.target(exercise.edited()))
    made = dict(mutants(exercise))
    assert len(made) > 10 and not any(passes(key, target) for target in made.values())
    assert normalized("a -> b | x = (y, z)") == normalized("a -> b | x = y, z") != normalized("a -> c | x = y, z")
