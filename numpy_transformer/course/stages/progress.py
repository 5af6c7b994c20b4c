"""Checks a stage in a student's folder, in processes of its own on the student's machine, and keeps the result there."""

from ..sandbox.runs import run_alone
from .check import check_stage

MEGABYTES = 1024


def check_in(book, stage, seed=0, seconds=10):
    """Checks a stage in a StageFolder, saves the status, and returns the StageResult.

    The remedy of a known mistake is shown only if the previous check named the same mistake.
    """
    files = book.files()
    own = [other for other in book.passed() if other != stage]

    def execute(program, task):
        return run_alone(program, task, seconds, MEGABYTES, lambda: False)

    result = check_stage(stage, files, execute, seed, own)
    named = [list(names) for names in result.verdict.mistakes]
    if named != book.entry(stage).get("named"):
        result.verdict = result.verdict.without_remedies()
    if result.verdict.status != "missing":
        book.save_progress(stage, status=result.verdict.status, named=named, digest=book.digest(stage, files))
    return result
