"""Each known mistake of a stage is refuted, has an explanation, and gets its own name."""

import numpy as np
import pytest

from numpy_transformer.course.stages.check import answer_keys
from numpy_transformer.course.stages.parts import parts_of
from numpy_transformer.course.stages.table import STAGES

# Mistakes of exercises that do not matter in a stage, because the class takes care of it or its cases leave it out
HARMLESS = {"masked_softmax": {"MSK-10a", "MSK-10b", "MSK-10c", "SMF-1", "MSK-24", "SMF-2"},
            "attention_backward": {"ATB-10a", "ATB-10b", "ATB-10c", "ATB-10f", "ATB-2e"}}


@pytest.mark.parametrize("number", STAGES)
def test_texts_of_mistakes_are_there(number):
    for part in parts_of(number):
        names = [mistake.name for mistake in part.mistakes]
        assert part.title and len(names) == len(set(names))
        for mistake in part.mistakes:
            what, _ = mistake.parts
            assert what.endswith((".", "?")) and part.edited_code(mistake.edits) not in (None, part.code)


@pytest.mark.slow
@pytest.mark.parametrize("number", STAGES)
@pytest.mark.parametrize("seed", (0, 5))
def test_mistakes_get_their_names(number, seed):
    for key in answer_keys(number, seed):
        twins = {mistake.name: mistake.twin for mistake in key.exercise.mistakes}
        for mistake in key.exercise.mistakes:
            with np.errstate(all="ignore"):
                named = [{one.name for one in together} for together in key.identify(key.observations((mistake,)))]
            if mistake.name in HARMLESS.get(key.exercise.name, ()):
                continue
            assert {mistake.name} in named, (key.exercise.name, mistake.name, named)
            if not key.exercise.from_stage:     # of exercises, several may give the same here
                continue
            assert named == [{mistake.name}] or twins[mistake.name], (mistake.name, named)


@pytest.mark.parametrize("number", STAGES)
def test_each_function_that_is_written_is_checked_by_a_part(number):
    assert {name for part in parts_of(number) for name in part.checks} == set(STAGES[number].write)
