"""A verdict in words, for a student."""

import importlib.util
import textwrap

from ..checks import gradcheck

WIDTH = 110


def feedback(exercise, verdict, printed=""):
    """The lines of one exercise: a headline, what is wrong and where, the diagnosis, and what the program printed."""
    stage = f"   (stage: {verdict.stage})" if verdict.stage else ""
    yield f"{f'ex{exercise.number} {exercise.name}':<52}{verdict.status.upper()}{stage}"
    for line in verdict.lines or filter(None, [verdict.note]):
        yield from textwrap.wrap(line, WIDTH, initial_indent="  ", subsequent_indent="    ")
    if verdict.status in ("fail", "error", "todo"):
        yield f"  hints: numpy-transformer exercise hint {exercise.number}"
    if printed.strip():
        yield "  your file printed:"
        yield from textwrap.indent(printed.rstrip(), "  | ").splitlines()[:40]


def differences(path, exercise, case):
    """The student's own forward by finite differences beside the student's backward: a table, or why there is none.

    Only for a class, whose forward is the student's. The file runs in this process.
    """
    if not exercise.is_class:
        return ""
    try:
        spec = importlib.util.spec_from_file_location("exercise", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made = getattr(module, exercise.name)(*case.inputs)
        arguments = next(arguments for method, arguments in case.calls if method == "forward")
        return str(gradcheck(made, *arguments, randomize=False, name=f"{exercise.name}: your backward beside your forward"))
    except Exception as error:                  # whatever a student's file can bring about
        return f"no gradient check of {exercise.name}: {type(error).__name__}: {error}"
