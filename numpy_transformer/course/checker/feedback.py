"""Explains a verdict to a student in words."""

import contextlib
import io
import textwrap

import numpy as np

from ...checks import gradcheck
from ..exercises.observation import copy_arrays
from .comparison import is_close

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
    yield from textwrap.wrap(f"{exercise.number} {exercise.name}: {verdict.status.upper()}{verdict.failed_first}", width,
                             subsequent_indent="  ")
    indent = "  "
    for line in verdict.lines or filter(None, [verdict.note]):
        yield from textwrap.wrap(line, width, initial_indent=indent, subsequent_indent="    ",
                                 break_on_hyphens=False)
        if line.startswith("DIAGNOSIS ["):      # followed by the explanations of the known mistakes
            indent = "    "
    if verdict.status not in ("pass", "missing"):
        yield f"  hints: {hints.format(exercise.number)}"
    if printed.strip():
        yield "  your file printed:"
        yield from (f"  | {shortened(line, width - 4)}" for line in first_lines(printed))


def first_lines(printed):
    """Returns the first lines of what a file printed; the last one is "..." if there are more."""
    lines = printed.rstrip().expandtabs().splitlines()
    return lines if len(lines) <= PRINTED_LINES else [*lines[:PRINTED_LINES], "..."]


def shortened(line, width):
    return line if len(line) <= width else f"{line[:width - 3]}..."


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
                               name=f"{exercise.name}: your backward compared with your forward")
            meaning = what_agreement_means(cls, exercise, case) if report.ok else ""
    except (Exception, SystemExit) as error:
        return no_table(exercise, error, width)
    return "\n".join([report.table(width), *textwrap.wrap(meaning, width, break_on_hyphens=False)])


def what_agreement_means(cls, exercise, case):
    """Returns a sentence about a wrong class whose backward fits its forward."""
    arguments = next(arguments for method, arguments in case.calls if method == "forward")
    yours, expected = (np.asarray(build(*copy_arrays(case.inputs)).forward(*copy_arrays(arguments)))
                       for build in (cls, exercise.reference))
    if is_close(yours, expected, [expected]):
        return ("Your forward is correct and your backward fits it, if each is called once. What is wrong comes from "
                "using the layer more than once: what forward saves, and how gradients are added up.")
    return ("Your backward fits your forward: every row agrees. The mistake is in forward, which does not "
            "compute what the exercise asks for.")


def no_table(exercise, error, width):
    words = f"no gradient check of {exercise.name}: {type(error).__name__}: {error}"
    return textwrap.fill(words, width, break_on_hyphens=False)
