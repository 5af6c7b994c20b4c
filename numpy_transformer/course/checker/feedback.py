"""Explains a verdict to a student in words."""

import contextlib
import io

import numpy as np

from ...checks import gradcheck
from ...texts import Message, render
from ...texts.width import shorten, wrap
from ..exercises.observation import copy_arrays
from .comparison import is_close
from .messages import KNOWN_MISTAKES

WIDTH = 80                                      # of feedback that goes to a file
PRINTED_LINES = 12                              # lines shown of what a student's file printed


def feedback(exercise, verdict, printed="", width=WIDTH, hints="numpy-transformer exercise hint {}"):
    """Yields the lines of feedback on one exercise: the result, what is wrong and where, and the diagnosis.

    Parameters:
        exercise : Exercise
        verdict : Verdict
        printed : what the student's file printed
        width : columns to which lines are wrapped
        hints : what shows the hints, with {} for the number
    """
    yield from wrap(render(heading("verdict.heading.result", exercise, verdict)), width, "", "  ")
    indent = "  "
    for line in verdict.lines or filter(None, [verdict.note]):
        yield from wrap(render(line), width, indent, "    ")
        if isinstance(line, Message) and line.kind.startswith(KNOWN_MISTAKES):
            indent = "    "                     # of the explanations of the known mistakes
    if verdict.status not in ("pass", "missing"):
        yield f"  {render(Message('verdict.after.hints', command=hints.format(exercise.number)))}"
    if printed.strip():
        yield f"  {render(Message('verdict.after.printed'))}"
        yield from (f"  | {shorten(line, width - 4)}" for line in first_lines(printed))


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
    gradient check's table, followed by what it means if all of its rows agree; or a sentence that says why there is
    none.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            layer = cls(*copy_arrays(case.inputs))
            arguments = next(arguments for method, arguments in case.calls if method == "forward")
            report = gradcheck(layer, *copy_arrays(arguments), randomize=False,
                               name=render(Message("verdict.after.gradient_check", name=exercise.name)))
            meaning = [what_agreement_means(cls, exercise, case)] if report.ok else []
    except (Exception, SystemExit) as error:
        return no_table(exercise, error, width)
    return "\n".join([report.table(width), *(line for said in meaning for line in wrap(render(said), width))])


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
