"""Checks a stage: its values in many cases, its gradients, and the whole model that is trained with it.

What is checked runs where `execute` runs it: in a process of its own on the student's machine, or in the sandbox of a class.
The other stages of the program are the student's if they have passed, and otherwise the reference's.
"""

import functools
from dataclasses import dataclass, field, replace

import numpy as np

from ...file_checks import one_line
from ...texts import Message, listed
from ..checker.diagnosis import AnswerKey
from ..checker.feedback import is_place
from ..checker.localize import localize
from ..checker.messages import DIAGNOSIS
from ..checker.verdict import Verdict, is_unexplained, judge
from ..exercises.cases import Case
from ..sandbox import ProgramTask
from . import bugs, drivers, whole
from .definition import StagePart
from .files import look_at, program_of, unwritten
from .parts import parts_of
from .watching import lost_in_between

GRADIENT = 1e-6                                 # the largest relative error beside central differences
SECONDS = 2.0                                   # of processor time for trying edits: a driver makes several calls
CANNOT_RUN = "import", "name", "arguments"      # stages of a verdict at which nothing has run


@dataclass
class StageResult:
    """What was found about one stage of one student.

    Attributes:
        verdict : Verdict of the first check that failed, or of a stage that passed
        part : the StagePart that failed, or None
        right : the functions and methods whose values are right in all parts before it
        gradients : {name: relative error} of the student's gradients beside differences of the student's forward
        bugs : bugs of the zoo that belong to the stage, which its cases show
        curve : Curve of the whole model, or None if nothing could be trained
        mine : the stages in it that are the student's
        printed : what the student's file printed
        unwritten : the functions and methods that are still to be written
    """

    stage: object
    verdict: Verdict
    part: object = None
    right: tuple = ()
    gradients: dict = field(default_factory=dict)
    bugs: tuple = ()
    curve: object = None
    mine: tuple = ()
    printed: str = ""
    unwritten: tuple = ()

    @property
    def passed(self):
        return self.verdict.status == "pass"

    @property
    def difference(self):
        """The Difference between the curve and the library's, or None."""
        return whole.difference(self.stage, self.curve) if self.curve else None


@functools.cache
def answer_keys(number, seed):
    """Returns the AnswerKeys of the parts of a stage."""
    return tuple(AnswerKey(part, seed) for part in parts_of(number))


def check_stage(stage, files, execute, seed=0, own=(), look=look_at):
    """Checks a stage of a student and returns a StageResult.

    Parameters:
        files : {name: bytes} of all Python files of the student
        execute : function (files, task) that runs a ProgramTask with these files and returns its ProgramRun
        seed : of the cases
        own : other stages that are the student's in the program; they have passed
        look : does what `look_at` does; a grader parses the files of strangers in a process with limits
    """
    if stage.file not in files:
        return StageResult(stage, Verdict("missing", "", Message("stages/words.state.missing", file=stage.file)))
    said, lenders = look(stage, files)
    if said:
        return StageResult(stage, Verdict("error", "import", said))
    mine = in_order({stage, *own, *lenders})
    program = program_of(files, mine)
    result = check_alone(stage, program, execute, seed)
    result.mine, result.unwritten = mine, tuple(unwritten(stage, files[stage.file]))
    others = [one for one in mine if one != stage]
    if result.verdict.status in ("todo", "missing") or result.verdict.stage in CANNOT_RUN:
        return result

    def passes_with(stages):
        return check_alone(stage, program_of(files, {stage, *stages}), execute, seed).passed

    def trains_with(stages):
        return not whole.difference(stage, whole.train_with(stage, program_of(files, {stage, *stages}), execute))

    if not result.passed and others and passes_with(()):
        return blaming(result, others, passes_with)
    if result.verdict.status in ("timeout", "memory"):
        return result                           # a training would end in the same way
    result.curve = whole.train_with(stage, program, execute)
    if result.passed and result.difference:
        result.verdict = Verdict("fail", "training", about_training(result), right=True)
        if others and trains_with(()):
            return blaming(result, others, trains_with)
    return result


def in_order(stages):
    return tuple(sorted(stages, key=lambda stage: stage.number))


def blaming(result, others, is_right_with):
    """Returns the result of a stage that is right by itself, with a sentence that names the other stage that is the cause.

    Parameters:
        others : the student's other stages
        is_right_with : function of the stages that remain the student's
    """
    guilty = [one for one in others if is_right_with([other for other in others if other != one])][:1] or others
    note = Message("stages/words.state.because_of", number=result.stage.number, n=len(guilty),
                   others=listed([str(one.number) for one in guilty]), files=listed([one.file for one in guilty]))
    result.verdict = replace(result.verdict, note=note, lines=(note, *result.verdict.lines), mistakes=())
    return result


def about_training(result):
    """Returns the Message about a whole model that does not train as the library's does, although all parts are right."""
    difference = result.difference
    return Message(f"stages/words.training.{difference.what}", step=difference.step, size=f"{difference.size:.1e}",
                   error=error_of(result.curve))


def error_of(curve):
    """Returns what a curve's error was, as text."""
    ended = {"timeout": "timeout", "memory": "memory"}.get(curve.error.get("ended"))
    if ended or not curve.error.get("error"):
        return Message(f"stages/words.training.{ended or 'ended'}")
    return one_line(curve.error["error"], 300).rstrip(".")


def check_alone(stage, program, execute, seed):
    """Compares the values of a stage in a program with the correct ones, then its gradients with differences."""
    keys, right = answer_keys(stage.number, seed), []
    for i, key in enumerate(keys):
        run = execute(program, ProgramTask(key.exercise, key.cases, stage.file))
        verdict = judge(key, run)
        if verdict.stage == "arguments":
            note = Message("stages/words.state.parameters", **verdict.note.values["parameters"].values)
            verdict = replace(verdict, note=note, lines=())
        if verdict.status != "pass":
            wrong = wrong_outputs(key, run)
            part = replace(key.exercise, wrong=wrong)
            verdict = explained(stage, keys, i, part, verdict, run, program, execute)
            named = verdict.mistakes or any(map(is_place, verdict.lines))
            gradients = {} if verdict.status != "fail" or named else check_gradients(stage, program, execute)
            return StageResult(stage, verdict, part, tuple(right), gradients, printed=run.printed)
        right += [name for name in key.exercise.checks if name not in right]
    shown = tuple(bugs.shown_by(stage.number, keys))
    result = StageResult(stage, verdict, None, tuple(right), check_gradients(stage, program, execute), shown,
                         printed=run.printed)
    wrong = [name for name, error in result.gradients.items() if not error < GRADIENT]
    if wrong:
        result.verdict = Verdict("fail", "gradients", Message("stages/words.gradients.wrong", names=", ".join(wrong)),
                                 right=True)
    return result


def wrong_outputs(key, run):
    """Returns the names of the outputs that are wrong in a main case, () if a case has no outputs to compare."""
    answers, wrong = key.answers(run), set()
    for answer, expected in zip(answers, key.expected):
        numbers = None if answer.error else key.wrong_outputs(answer, expected)
        if numbers is None:
            return ()
        wrong.update(numbers)
    return tuple(key.exercise.outputs[j] for j in sorted(wrong))


def explained(stage, keys, i, part, verdict, run, program, execute):
    """Returns the Verdict on part i with the name of a bug of the zoo, or with the place of the mistake.

    Parameters:
        part : the part with the names of its outputs that are wrong
    """
    if not is_unexplained(keys[i], verdict):
        return verdict
    named = bugs.named(stage.number, keys, i, keys[i].answers(run))
    if named:
        lines = tuple(Message(DIAGNOSIS, said=Message("stages/words.bug.named", name=bug.name, title=bug.title,
                                                      symptom=bug.symptom)) for bug in named)
        return replace(verdict, lines=(*verdict.lines, *lines), mistakes=tuple((bug.name,) for bug in named))
    lost = lost_in_between(keys[i], program, execute, stage.file)
    if lost:
        return replace(verdict, lines=(*verdict.lines, lost))
    return placed(keys[i], part, verdict, run, lambda task: execute(program, replace(task, exercise=part)))


def placed(key, part, verdict, run, execute):
    """Returns the Verdict with the place of the mistake, if it can be found.

    What localize.py says of an edit that makes some outputs right, or of a value that is returned in the wrong place, holds
    for programs whose one call gives all outputs. A driver makes several calls, and after an error in one of them, nothing
    is known about the outputs of the others.
    """
    verdict = localize(key, verdict, run, part.file, execute, SECONDS)
    untold = ["places.value.correct", "places.value.result"] if part.drives else ["places.value.correct"]
    if part.drives and any(answer.error for answer in key.answers(run)):
        untold.append("places.edit.some")
    return replace(verdict, lines=tuple(line for line in verdict.lines if not told_by(line).startswith(tuple(untold))))


def told_by(line):
    """Returns the kind of what a diagnosis says; "" for any other line."""
    said = line.values.get("said") if line.kind == DIAGNOSIS else None
    return said.kind if isinstance(said, Message) else ""


def check_gradients(stage, program, execute):
    """Returns {name: relative error} of the gradients of a stage's classes; {} if it has none or they cannot be computed."""
    driver = drivers.NAMES.get(f"gradients_{stage.number}")
    if driver is None:
        return {}
    part = StagePart(f"{stage.number}.8", minutes=0, lines=0, solution=driver, stage=stage.number, drives=driver,
                     outputs=("names", "errors"))
    result = execute(program, ProgramTask(part, [Case("", ())], stage.file)).results[0]
    if len(result.outputs) != 2 or any(y is None or y.ndim != 1 for y in result.outputs):
        return {}
    names = bytes(np.clip(result.outputs[0], 0, 127).astype(np.uint8)).decode("ascii").split("\n")
    return dict(zip(names, map(float, result.outputs[1])))
