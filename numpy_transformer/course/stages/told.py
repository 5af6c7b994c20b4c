"""What a student reads of a stage: the result, the explanation, what was checked, and the loss curve."""

import numpy as np

from ...texts import Message, listed, render
from ...texts.width import wrap
from ..checker.feedback import WIDTH, explanation_lines, printed_lines
from . import whole
from .check import CANNOT_RUN, GRADIENT, answer_keys, error_of
from .table import STAGES

WORDS = "stages/words"
MOST_ROWS = 6                                   # gradients in the table of those that are wrong


def result_lines(result, states, seed=0, width=WIDTH, hints=None):
    """Yields the lines about a StageResult.

    Parameters:
        states : {stage: state}, as of StageFolder.states
        hints : what shows the next hint, or None
    """
    verdict = result.verdict
    yield from wrap(render(heading(result)), width, "", "  ")
    if verdict.status == "pass":
        for said in about_pass(result, seed):
            yield from wrap(render(said), width, "  ", "    ")
        yield from curve_lines(result, states, width)
        return
    for said in about_right(result):
        yield from wrap(render(said), width, "  ", "    ")
    if verdict.status != "todo":
        yield from explanation_lines(verdict, width, others=2)
        yield from printed_lines(result.printed, width)
    for said in wrong_gradients(result):
        yield from wrap(render(said), width, "  ", "    ")
    if result.curve:
        yield from curve_lines(result, states, width)
    if hints and verdict.status not in ("missing",) and verdict.stage != "import":
        yield f"  {say('next.hints', command=hints)}"


def messages(result, seed=0):
    """Yields Messages with what `result_lines` says, without heading, curve and output of the file: for a table of results."""
    verdict = result.verdict
    if verdict.status == "pass":
        yield from about_pass(result, seed)
        return
    yield from about_right(result)
    if verdict.status == "todo":
        return
    if result.part and verdict.stage not in CANNOT_RUN:
        yield Message(f"{WORDS}.grading.failed", names=listed(failed(result)))
    yield from verdict.lines or filter(None, [verdict.note])
    yield from wrong_gradients(result)


def about_right(result):
    """Yields Messages with the functions and methods that are right so far, and with those that are still to be written."""
    right = right_so_far(result)
    if right:
        yield Message(f"{WORDS}.right.parts", names=listed(right))
    if result.verdict.status == "todo":
        yield Message(f"{WORDS}.right.todo", names=listed(left(result)))


def wrong_gradients(result):
    """Yields the Message with the gradients that differ from differences, unless the explanation names them already."""
    wrong = {name: error for name, error in result.gradients.items() if not error < GRADIENT}
    if wrong and result.verdict.stage != "gradients":
        worst = sorted(wrong, key=lambda name: -np.nan_to_num(wrong[name], nan=2.0))[:MOST_ROWS]
        rows = [Message(f"{WORDS}.gradients.row", name=name, error=f"{wrong[name]:.0e}") for name in worst]
        yield Message(f"{WORDS}.gradients.table", rows=listed(rows))


def say(key, **values):
    return render(Message(f"{WORDS}.{key}", **values))


def heading(result):
    """Returns the Message with the stage and its status."""
    stage, verdict = result.stage, result.verdict
    values = {"number": stage.number, "title": stage.title}
    if verdict.status in ("pass", "todo", "timeout", "memory", "missing"):
        return Message(f"{WORDS}.heading.{verdict.status}", **values)
    kind = "error" if verdict.status == "error" else "fail"
    return Message(f"{WORDS}.heading.{kind}", **values, what=what_failed(result))


def what_failed(result):
    """Returns what a heading says in brackets: the functions whose results were compared, and the check that failed."""
    verdict = result.verdict
    if verdict.stage in ("gradients", "training"):
        return Message(f"{WORDS}.heading.{verdict.stage}")
    if result.part is None or verdict.stage in CANNOT_RUN:
        return Message(f"{WORDS}.heading.loading")
    return Message(f"{WORDS}.heading.checks", names=listed(failed(result)), stage=Message(f"verdict.stage.{verdict.stage}"))


def failed(result):
    """Returns the functions and methods of the part that failed; without forward, if only gradients are wrong."""
    return list(result.part.suspects)


def right_so_far(result):
    """Returns the functions and methods that were right in all that was compared."""
    if result.part is None or result.verdict.status == "todo":
        return list(result.right)
    known = dict.fromkeys([*result.right, *(name for name in result.part.checks if result.part.wrong)])
    return [name for name in known if name not in failed(result)]


def left(result):
    """Returns the functions and methods that a stage that is not finished may still lack."""
    return result.unwritten or [name for name in result.stage.write if name not in result.right] or result.stage.write


def about_pass(result, seed):
    """Yields Messages about what was checked in a stage that has passed."""
    keys = answer_keys(result.stage.number, seed)
    yield Message(f"{WORDS}.right.all", names=listed(result.stage.write), cases=sum(len(key.cases) for key in keys))
    if result.gradients:
        yield Message(f"{WORDS}.right.gradients", count=len(result.gradients), error=f"{max(result.gradients.values()):.0e}")
    if result.bugs:
        yield Message(f"{WORDS}.right.bugs", n=len(result.bugs))
    yield Message(f"{WORDS}.right.same", steps=whole.STEPS, mine=stages_named(result.mine), size=apart(result))
    yield from result.verdict.lines


def stages_named(stages):
    """Returns the Message that lists stages, such as "stages 1 to 4 and 6"."""
    runs = []
    for number in sorted(stage.number for stage in stages):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    names = []
    for first, last in runs:
        if last - first > 1:
            names.append(Message(f"{WORDS}.stages.range", first=first, last=last))
        else:
            names += [str(number) for number in range(first, last + 1)]
    return Message(f"{WORDS}.stages.named", n=len(stages), names=listed(names))


def apart(result):
    """Returns the largest difference between the losses of the two curves, as text."""
    return f"{whole.apart(result.stage, result.curve):.0e}"


def curve_lines(result, states, width):
    """Yields the loss curve, and which stages in the model are the reference's."""
    *_, expected = whole.experiment(result.stage.number)
    losses = result.curve.losses
    if not len(losses):
        if result.verdict.stage not in ("training", "error", "ended"):       # an error has been shown already
            yield from wrap(say("training.cannot", error=error_of(result.curve)), width, "  ", "    ")
        return
    if not result.passed and result.difference is None:
        yield from wrap(say("training.alike", steps=len(losses), size=apart(result)), width, "  ", "    ")
        return
    key = "same_curve" if result.passed else "curve"
    yield from wrap(say(f"training.{key}", steps=len(losses), mine=stages_named(result.mine), size=apart(result)),
                    width, "  ", "    ")
    yield from (f"  {line}" for line in whole.drawn(losses, expected.losses))
    unfinished = [stage for stage, state in states.items() if stage not in result.mine and state in ("begun", "changed")]
    if unfinished:
        yield from wrap(say("training.reference", n=len(unfinished), stages=stages_named(unfinished)), width, "  ", "    ")


def about_program(mine):
    """Returns the sentence that says which stages of a program are the student's."""
    rest = [stage for stage in STAGES.values() if stage not in mine]
    if not mine:
        return say("program.none")
    return say("program.some", mine=stages_named(mine), rest=stages_named(rest)) if rest else say("program.all")
