"""Programs of the stages "build your own Transformer": the reference's files as a student has them, and checks of changed ones."""

import functools

from numpy_transformer.course.sandbox.runs import run_alone
from numpy_transformer.course.stages.check import check_stage
from numpy_transformer.course.stages.definition import program_file
from numpy_transformer.course.stages.table import LAW, STAGES
from numpy_transformer.texts import render


@functools.cache
def reference_program():
    """{name: text} of the finished program."""
    return {f"{LAW}.py": program_file(LAW)} | {stage.file: stage.solution for stage in STAGES.values()}


def execute(files, task, seconds=10):
    return run_alone(files, task, seconds, 1024, lambda: False)


def edited(number, *edits):
    """The reference's file of a stage with edits, each a pair (old text that occurs once, new text)."""
    text = STAGES[number].solution
    for old, new in edits:
        assert text.count(old) == 1, (old, text.count(old))
        text = text.replace(old, new)
    return text


def checked(number, text=None, own=(), seconds=10, **others):
    """The StageResult of a stage whose file has this text.

    Parameters:
        text : of the file; None: the reference's
        own : numbers of other stages that are the student's
        others : {name of a file without .py: text} of further files
    """
    files = {STAGES[n].file: STAGES[n].solution for n in (number, *own)} | {f"{name}.py": code for name, code in others.items()}
    if text is not None:
        files[STAGES[number].file] = text
    return check_stage(STAGES[number], {name: code.encode() for name, code in files.items()},
                       lambda program, task: execute(program, task, seconds), own=[STAGES[n] for n in own])


def sentences(result):
    """What a verdict says, as one text."""
    verdict = result.verdict
    return " ".join(render(line) for line in verdict.lines or [verdict.note])


def write_program(folder, numbers=range(1, 13)):
    """Writes the reference's files of these stages into a folder, with the pages' names left out."""
    for name, text in reference_program().items():
        if name == f"{LAW}.py" or int(name[5:7]) in numbers:
            (folder / name).write_text(text, encoding="utf-8")
    return folder
