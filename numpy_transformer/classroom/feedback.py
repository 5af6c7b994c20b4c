"""A verdict in words, for a student."""

import contextlib
import io
import textwrap

from ..checks import gradcheck
from .exercise import copied

WIDTH = 110
PRINTED = 12                                    # lines of what a student's file printed


def feedback(exercise, verdict, printed=""):
    """The lines of one exercise: a headline, what is wrong and where, the diagnosis, and what the program printed."""
    stage = f"   (stage: {verdict.stage})" if verdict.stage else ""
    yield f"{f'{exercise.number} {exercise.name}':<52}{verdict.status.upper()}{stage}"
    for line in verdict.lines or filter(None, [verdict.note]):
        yield from textwrap.wrap(line, WIDTH, initial_indent="  ", subsequent_indent="    ")
    if verdict.status in ("fail", "error", "todo"):
        yield f"  hints: numpy-transformer exercise hint {exercise.number}"
    if printed.strip():
        yield "  your file printed:"
        lines = printed.rstrip().splitlines()
        yield from (f"  | {line}" for line in lines[:PRINTED])
        if len(lines) > PRINTED:
            yield "  | ..."


def differences(path, exercise, case):
    """A student's forward by finite differences beside the same student's backward: a table, or why there is none.

    Only for a class, whose forward is the student's. The file runs in this process; what it prints is dropped.
    """
    names = {"__name__": "exercise"}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(path.read_bytes(), str(path), "exec"), names)
            made = names[exercise.name](*copied(case.inputs))
            arguments = next(arguments for method, arguments in case.calls if method == "forward")
            return str(gradcheck(made, *copied(arguments), randomize=False,
                                 name=f"{exercise.name}: your backward beside your forward"))
    except (Exception, SystemExit) as error:    # whatever a student's file can bring about
        return f"no gradient check of {exercise.name}: {type(error).__name__}: {error}"
