"""Judges the stages of a Transformer of the student's own, each beside the reference's other stages."""

import threading
from dataclasses import replace

import numpy as np

from ..course.checker.verdict import Verdict, judge
from ..course.sandbox import ProgramTask, Stopped
from ..course.sandbox.runs import usable
from ..course.stages.table import STAGES
from ..texts import Message, from_data
from .arrival.reading_process import NoAnswer, reading_process
from .rows import Judgment

# Only one thread judges: Python 3.11 may raise a SystemError if two parse at once, and the reading process answers one question.
JUDGING = threading.Lock()


class StageJudge:
    """Judges one stage. Several threads run students' programs at the same time, but only one judges.

    Parameters:
        exercise : GradedStage
        seed : int, the seed of the cases
    """

    def __init__(self, exercise, seed):
        self.exercise, self.seed = exercise, seed

    def grade(self, file, files, execute):
        """Returns the Judgment of a stage's file; parameters as in `Judge.grade`.

        The reference's other stages run with it, so that no mistake in one of them counts here.
        """
        runs = []

        def run(program, task):
            task.exercise.driver                # is parsed the first time, and kept
            JUDGING.release()                   # others may judge while this program runs
            try:
                runs.append(execute(program, task))
            finally:
                JUDGING.acquire()
            return runs[-1]

        with JUDGING, np.errstate(all="ignore"):
            verdict, printed = self.check(usable({file.name: file.content, **files}), run)
        return Judgment(verdict, sum(run.seconds for run in runs), printed)

    def check(self, files, run):
        """Returns the Verdict with all messages for the student, and what the file printed."""
        from ..course.stages.check import check_stage  # loads the zoo
        from ..course.stages.told import messages
        try:
            result = check_stage(self.exercise.stage, files, run, self.seed, look=look_with_limits)
            verdict = replace(result.verdict, lines=tuple(messages(result, self.seed)))
            if verdict.right and result.part:
                verdict.right = self.is_rest_right(result, files, run)
            return verdict, result.printed
        except (Stopped, OSError):
            raise
        except Exception as error:              # a program may return arrays that break any computation
            note = Message("verdict.ending.not_judged", error=f"{type(error).__name__}: {error}")
            return Verdict("error", "verdict", note), ""

    def is_rest_right(self, result, files, run):
        """Returns True if the values of all parts after the failed one are right."""
        from ..course.stages.check import answer_keys
        from ..course.stages.files import program_of
        keys, program = answer_keys(result.stage.number, self.seed), program_of(files, result.mine)
        rest = keys[[key.exercise.number for key in keys].index(result.part.number) + 1:]
        tasks = [ProgramTask(key.exercise, key.cases, result.stage.file) for key in rest]
        return all(judge(key, run(program, task)).right for key, task in zip(rest, tasks))


def look_with_limits(stage, files):
    """Does what `look_at` does in a process with limits, because a file can be made to slow a parser down or crash it."""
    texts = {name: content.decode() for name, content in files.items()}
    try:
        answer = reading_process().ask(kind="stage", stage=stage.number, files=texts)
    except NoAnswer as failure:
        return Message("stages/words.grading.unparsed", file=stage.file, why=str(failure)), []
    return from_data(answer["said"]), [STAGES[number] for number in answer["lenders"]]
