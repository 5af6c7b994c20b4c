"""Explains a verdict to a student in words."""

import contextlib
import io
from dataclasses import replace

import numpy as np

from ...checks import gradcheck
from ...texts import Message, render
from ...texts.width import shorten, wrap
from ..exercises.observation import copy_arrays
from .comparison import is_close
from .messages import DIAGNOSIS, EXPLANATIONS, KNOWN_MISTAKES, NO_NAME

WIDTH = 80                                      # of feedback that goes to a file
MOST_LINES = 10                                 # of feedback, without what a file printed; the first diagnosis is never cut
PRINTED_LINES = 12                              # lines shown of what a student's file printed


def feedback(exercise, verdict, printed="", width=WIDTH, hints="numpy-transformer exercise hint {}"):
    """Yields the lines of feedback on one exercise: the result, the diagnosis, and what is wrong and where.

    Parameters:
        exercise : Exercise
        verdict : Verdict
        printed : what the student's file printed
        width : columns to which lines are wrapped
        hints : what shows the hints, with {} for the number
    """
    lines = wrap(render(heading("verdict.heading.result", exercise, verdict)), width, "", "  ")
    after = []
    if verdict.status not in ("pass", "missing"):
        after = [f"  {render(Message('verdict.after.hints', command=hints.format(exercise.number)))}"]
    yield from lines
    yield from explanation_lines(verdict, width, len(lines) + len(after))
    yield from after
    yield from printed_lines(printed, width)


def explanation_lines(verdict, width=WIDTH, others=1):
    """Returns the lines that explain a verdict; those beyond the limit only if they are the first diagnosis, or explain a
    known mistake.

    Parameters:
        others : number of lines beside these
    """
    lines, said = [], most_useful_first(verdict)
    first_diagnosis = next(filter(is_diagnosis, said), None)
    for line in said:
        is_explanation = isinstance(line, Message) and line.kind in EXPLANATIONS
        wrapped = wrap(render(line), width, "    " if is_explanation else "  ", "    ")
        is_kept = is_explanation or line is first_diagnosis or not lines
        if is_kept or others + len(lines) + len(wrapped) <= MOST_LINES:
            lines += wrapped
    return lines


def printed_lines(printed, width):
    """Yields the first lines of what a student's file printed."""
    if printed.strip():
        yield f"  {render(Message('verdict.after.printed'))}"
        yield from (f"  | {shorten(line, width - 4)}" for line in first_lines(printed))


def most_useful_first(verdict):
    """Returns the Messages of a verdict, or its note: the diagnosis comes first, unless there was no result to compare.

    That no known mistake gives the answer is said only where there is nothing else to say.
    """
    lines = [*verdict.lines] or [*filter(None, [verdict.note])]
    diagnosis = [line for line in lines if is_diagnosis(line)]
    places = list(filter(is_place, diagnosis))
    first = places + [line for line in diagnosis if line not in places]
    others = [line for line in lines if line not in diagnosis and not (line == NO_NAME and diagnosis)]
    if verdict.stage in ("finite", "values"):
        return first + others
    others = [line for line in others if line != NO_NAME]
    return [*others[:2], *first, *others[2:]]   # after the case and what went wrong there


def is_place(line):
    """Returns True if a diagnosis, in one sentence or several, says where in the student's text the mistake is."""
    said = line.values["said"] if line.kind == DIAGNOSIS else None
    first = said[0] if isinstance(said, list) else said
    return first is not None and first.kind.startswith("places.") and not first.kind.startswith("places.value.correct")


def is_diagnosis(line):
    return isinstance(line, Message) and (
        line.kind == DIAGNOSIS or line.kind in EXPLANATIONS or line.kind.startswith(KNOWN_MISTAKES))


def heading(kind, exercise, verdict):
    """Returns the Message of this kind about an exercise and its status; its kind ends in "_at" if it names the check."""
    status, stage = Message(f"verdict.status.{verdict.status}"), verdict.failed_first
    if not stage:
        return Message(kind, number=exercise.number, name=exercise.name, status=status)
    return Message(f"{kind}_at", number=exercise.number, name=exercise.name, status=status,
                   stage=Message(f"verdict.stage.{stage}"))


def first_lines(printed):
    """Returns the first lines of what a file printed; the last one is "..." if there are more."""
    lines = printed.rstrip().expandtabs().splitlines()
    return lines if len(lines) <= PRINTED_LINES else [*lines[:PRINTED_LINES], "..."]


def needs_gradients(exercise, verdict):
    """Returns True if a check of the student's backward against the same student's forward may help."""
    return exercise.is_class and verdict.stage in ("values", "shape") and not verdict.explained


def differences(path, exercise, case, width=WIDTH):
    """Returns what `gradient_table` says of the class in a student's file.

    Runs the file in this process and discards what it prints.
    """
    names = {"__name__": "exercise"}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(path.read_bytes(), str(path), "exec"), names)
        return gradient_table(names[exercise.name], exercise, case, width)
    except (Exception, SystemExit) as error:    # a student's file may raise anything
        return no_table(exercise, error, width)


def gradient_table(cls, exercise, case, width=WIDTH):
    """Checks a student's backward against finite differences of the same student's forward.

    Works only for classes, because only there the student writes forward. Discards what the class prints. Returns the
    rows of the gradient check's table that disagree, what it means if all of them agree, or a sentence that says why
    there is no table.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            layer = cls(*copy_arrays(case.inputs))
            arguments = next(arguments for method, arguments in case.calls if method == "forward")
            report = gradcheck(layer, *copy_arrays(arguments), randomize=False,
                               name=render(Message("verdict.after.gradient_check", name=exercise.name)))
    except (Exception, SystemExit) as error:
        return no_table(exercise, error, width)
    if report.ok:
        return "\n".join(wrap(render(what_agreement_means(cls, exercise, case)), width))
    return replace(report, rows=[row for row in report.rows if not row.ok]).table(width)


def what_agreement_means(cls, exercise, case):
    """Returns the Message about a wrong class whose backward fits its forward."""
    arguments = next(arguments for method, arguments in case.calls if method == "forward")
    yours, expected = (np.asarray(build(*copy_arrays(case.inputs)).forward(*copy_arrays(arguments)))
                       for build in (cls, exercise.reference))
    is_correct = is_close(yours, expected, [expected])
    return Message("verdict.after.fits_correct_forward" if is_correct else "verdict.after.fits_wrong_forward")


def no_table(exercise, error, width):
    said = Message("verdict.after.no_gradient_check", name=exercise.name, error=f"{type(error).__name__}: {error}")
    return "\n".join(wrap(render(said), width))
