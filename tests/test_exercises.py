"""Every exercise: unsolved as handed out, solved by its solution, and each known mistake refuted and named."""

import itertools
import random

import numpy as np
import pytest

from numpy_transformer.classroom.diagnosis import Library, matches
from numpy_transformer.classroom.exercise import observe
from numpy_transformer.classroom.exercises import exercises
from numpy_transformer.classroom.isolation import Came, Run
from numpy_transformer.classroom.verdict import judge

EXERCISES = list(exercises().values())
every_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: f"{e.number}-{e.name}")
LIBRARIES = {}


def library(exercise, seed=1):
    key = exercise.number, seed
    if key not in LIBRARIES:
        LIBRARIES[key] = Library(exercise, seed)
    return LIBRARIES[key]


def play(library, source, change=lambda y: y):
    """What a child would have sent back for this source: a Run, without a process. `change` is applied to its outputs."""
    exercise = library.exercise
    try:
        target = exercise.target(source)
    except NotImplementedError as error:
        return Run("", 0, 0.1, "", {"stage": "import", "error": f"{type(error).__name__}: {error}"})
    came = []
    for case in library.cases:
        seen = observe(exercise, target, case)
        said = {"kind": seen.error.split(":")[0], "error": seen.error} if seen.error else {
            "kinds": ["NoneType" if y.dtype == object else "ndarray" for y in seen.outputs]}
        after = [array + 1 if seen.changed else array for array in case.arrays()]
        came.append(Came([None if y.dtype == object else change(y) for y in seen.outputs], after, said))
    return Run("", 0, 0.1, "", {}, came)


@every_exercise
def test_it_is_handed_out_unsolved(exercise):
    skeleton = exercise.skeleton()
    assert "TODO" in skeleton and len(exercise.hints) == 3 and all(hint.endswith((".", "?")) for hint in exercise.hints)
    assert len(set(exercise.hints)) == 3 and max(map(len, skeleton.splitlines())) <= 120
    assert judge(library(exercise), play(library(exercise), skeleton)).status == "todo"


@every_exercise
def test_the_solution_passes_and_keeps_to_its_lines(exercise):
    for seed in (1, 2):
        verdict = judge(library(exercise, seed), play(library(exercise, seed), exercise.edited()))
        assert verdict.status == "pass", (verdict.stage, verdict.note)
    written = set(exercise.text.splitlines()) - set(exercise.skeleton().splitlines())
    code = [line for line in written if line.strip() and not line.strip().startswith("#")]
    assert len(code) <= exercise.lines <= 40, f"the solution has {len(code)} lines, the file promises {exercise.lines}"
    assert exercise.minutes % 5 == 0 and max(map(len, exercise.text.splitlines())) <= 120


@every_exercise
def test_what_is_as_right_passes(exercise):
    for name, edits in exercise.alternatives.items():
        verdict = judge(library(exercise), play(library(exercise), exercise.edited(edits)))
        assert verdict.status == "pass", (name, verdict.stage, verdict.note)


@every_exercise
def test_float32_answers_pass(exercise):
    def single(y):
        return y.astype(np.float32) if y.dtype == np.float64 else y
    verdict = judge(library(exercise), play(library(exercise), exercise.edited(), single))
    assert verdict.status == "pass", (verdict.stage, verdict.note)


@pytest.mark.parametrize("exercise, mistake", [
    pytest.param(exercise, mistake, id=f"{exercise.number}-{mistake.name}")
    for exercise in EXERCISES for mistake in exercise.mistakes])
def test_each_mistake_is_refuted_and_named(exercise, mistake):
    for right in mistake.edits:
        assert exercise.text.count(right) == 1, f"{right!r} stands {exercise.text.count(right)} times in the solution"
    for seed in (1, 2):
        verdict = judge(library(exercise, seed), play(library(exercise, seed), exercise.edited(mistake.edits)))
        assert verdict.status in ("fail", "error"), verdict
        assert set(verdict.mistakes) == {mistake.name} | ({mistake.twin} if mistake.twin else set()), verdict


@every_exercise
def test_mistakes_have_names_of_their_own_and_twins_know_each_other(exercise):
    names = {mistake.name: mistake for mistake in exercise.mistakes}
    assert len(names) == len(exercise.mistakes)
    for mistake in exercise.mistakes:
        assert not mistake.twin or names[mistake.twin].twin == mistake.name
        assert mistake.say.endswith((".", "?")) and len(mistake.say) > 20


@every_exercise
def test_two_or_three_mistakes_at_once_are_named(exercise):
    shelf = library(exercise)
    together = [mistakes for count in (2, 3) for mistakes in itertools.combinations(exercise.mistakes, count)
                if shelf.target(mistakes)]
    for mistakes in random.Random(int(exercise.number)).sample(together, min(8, len(together))):
        run = play(shelf, exercise.edited(*(mistake.edits for mistake in mistakes)))
        verdict = judge(shelf, run)
        observed = shelf.observed(mistakes)
        if matches(observed, shelf.expected):                   # two mistakes can undo each other
            continue
        found = shelf.named(observed)
        assert found and verdict.mistakes, (mistakes, verdict)
        assert mistakes in found or all(len(simpler) <= len(mistakes) for simpler in found)
        assert all(matches(shelf.observed(simpler), observed) for simpler in found)
