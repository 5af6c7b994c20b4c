"""What can be graded, by number: the exercises of the course, and the stages of a Transformer of the student's own."""

import functools
import re
from collections import ChainMap
from dataclasses import dataclass

from ..course.exercises import choose_several, exercises
from ..course.stages.table import LAW, STAGES

ALL_STAGES = "stages"                           # stands for all of them
STAGE = re.compile(r"(?<![a-z])stage[ #_.-]*0?(\d{1,2})(?![0-9a-z])", re.I)
CHOSEN = re.compile(r"stage[ _.-]?\d{1,2}(?:_\w+)?(?:\.py)?", re.I)       # how one stage is chosen
MODULES_OF_STAGES = frozenset({LAW, *(stage.name for stage in STAGES.values())})


@dataclass(frozen=True)
class KnownBug:
    """A bug of the zoo that students make in a stage, as grading knows the mistakes of exercises."""

    name: str
    explanation: str
    edits = {}                                  # it has no lines that are compared with the solution's


class GradedStage:
    """A stage, as grading knows exercises.

    Parameters:
        stage : Stage
    """

    kind = "write"

    def __init__(self, stage):
        self.stage, self.file, self.points = stage, stage.file, stage.points
        self.number = f"stage{stage.number:02}"
        self.name = stage.name.partition("_")[2]

    @property
    def title(self):
        return self.stage.title

    @functools.cached_property
    def mistakes(self):
        """The known mistakes of all parts that are checked, and the bugs of the zoo."""
        from ..course.stages.bugs import bugs_of  # these two load the zoo
        from ..course.stages.parts import parts_of
        known = [mistake for part in parts_of(self.stage.number) for mistake in part.mistakes]
        return [*known, *(KnownBug(bug.name, f"{bug.title}. {bug.symptom}") for bug in bugs_of(self.stage.number))]

    def skeleton(self):
        """Returns the file that a student starts with."""
        return self.stage.skeleton


@functools.cache
def gradable():
    """Everything that can be graded, by number: the exercises, then the stages."""
    stages = [GradedStage(stage) for stage in STAGES.values()]
    return ChainMap({stage.number: stage for stage in stages}, exercises())


def is_stage(number):
    return STAGE.fullmatch(number) is not None


def stage_in(text):
    """Returns the number of the stage in a text, such as "stage05" for "Kim_stage05_attention"; "" without one."""
    match = STAGE.search(text)
    number = f"stage{int(match[1]):02}" if match else ""
    return number if number in gradable() else ""


def choose_gradable(texts):
    """Returns what several texts stand for, each exercise and stage once.

    Parameters:
        texts : those of `choose_several`; or "stage5", "stage05_attention.py", or "stages" for all stages
    Raises: ValueError if there is no such exercise or stage.
    """
    parts = [part.strip() for part in ",".join(texts).split(",") if part.strip()]
    return list(dict.fromkeys(one for part in parts for one in stages_or_exercises(part)))


def stages_or_exercises(text):
    if not text.lower().startswith("stage"):
        return choose_several([text])
    if text.lower() == ALL_STAGES:
        return [gradable()[number] for number in gradable() if is_stage(number)]
    if not CHOSEN.fullmatch(text) or not stage_in(text):
        raise ValueError(f"there is no stage {text!r}; the stages are stage1 to stage{max(STAGES)}, and {ALL_STAGES} "
                         "stands for all of them")
    return [gradable()[stage_in(text)]]


def sheet_of(number):
    """Returns what points are added up by: the lesson of an exercise, such as "05", or "stages"."""
    return ALL_STAGES if is_stage(number) else number.partition(".")[0]


def hints_for(number):
    """Returns the command that shows the hints for an exercise or a stage, with {} in place of its number."""
    return "numpy-transformer build hint {}" if is_stage(number) else "numpy-transformer exercise hint {}"
