"""Every one-edit mutant of a solution fails the checker, unless it is in the list of equivalents with the reason."""

import signal

import pytest
from helpers.mutants import equivalents, mutants, mutated, normalized, passes, survivors

from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.exercises import exercises

MUTATED = [exercise for exercise in exercises().values() if mutated(exercise)]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="endless mutants are stopped by a signal")
@pytest.mark.parametrize("exercise", MUTATED, ids=lambda e: f"{e.number}-{e.name}")
def test_only_equivalent_mutants_pass(exercise):
    found, listed = survivors(exercise), equivalents().get(exercise.number, {})
    assert not [key for normal, key in found.items() if normal not in listed], "no case kills these mutants"
    assert not listed.keys() - found.keys(), "these entries of the list do not pass, or are no mutants any more"


def test_the_list_names_exercises_and_gives_whole_sentences_as_reasons():
    numbers = {exercise.number for exercise in MUTATED}
    for number, listed in equivalents().items():
        assert number in numbers
        for key, reason in listed.items():
            assert " -> " in key and " | " in key, key
            assert reason[0].isupper() and reason.endswith(".") and len(reason) > 20, (key, reason)


def test_a_mutant_fails_and_an_equivalent_one_passes():
    """What the long test relies on: a wrong axis is found, and the solution itself is not."""
    exercise = exercises()["01.2"]
    key = AnswerKey(exercise, 1)
    assert passes(key, exercise.target(exercise.edited()))
    made = dict(mutants(exercise))
    assert len(made) > 10 and not any(passes(key, target) for target in made.values())
    assert normalized("a -> b | x = (y, z)") == normalized("a -> b | x = y, z") != normalized("a -> c | x = y, z")
