"""Where `numpy-transformer grade` writes: default names, and what is checked before the work."""

import os
from pathlib import Path

from ..grading import shards
from ..grading.files import check_output, check_output_folder
from ..grading.gradebooks.filling import counted
from ..grading.replaceable import check_replaceable
from . import gradebook_options

TABLES = (".csv", ".tsv", ".txt", "")


def check_places(arguments):
    """Fills in the default names of outputs, and checks before the work that all can be written. Raises ValueError."""
    from .. import views  # matplotlib is slow to import
    if arguments.shard and arguments.seed is None:
        raise ValueError("--shard needs --seed, the same secret number for all parts")
    check_names(arguments)
    part = "-{}-of-{}".format(*arguments.shard) if arguments.shard else ""
    arguments.out = arguments.out or Path(f"scores{part}.csv")
    arguments.json = arguments.json or shards.record_of(arguments.out)
    arguments.picture = arguments.picture or arguments.out.with_suffix(".png")
    written = outputs(arguments)
    given = [*written, *filter(None, (arguments.feedback, arguments.extensions, arguments.submitted)),
             *gradebook_options.downloads(arguments)]
    if len({path.resolve() for path in given}) < len(given):
        raise ValueError("table, JSON, feedback, pictures, pages, summary and gradebooks need different names; two of "
                         "them have the same name")
    for path in written:
        check_output(path)
    views.check_file(arguments.picture)
    if arguments.feedback:
        check_feedback(arguments)
    check_losses(arguments, written)


def outputs(arguments):
    """Returns the paths of the files that are written, without the filled gradebooks, which look after themselves."""
    page = arguments.anonymous
    return [path for path in (arguments.out, arguments.json, arguments.picture, page,
                              page and page.with_suffix(".png"), arguments.summary, arguments.gradescope,
                              arguments.github) if path]


def check_names(arguments):
    """Raises ValueError if the name of a file does not fit what it holds."""
    for name in ("out", "json", "picture", "anonymous", "summary", "gradescope", "github", "canvas", "moodle"):
        path = getattr(arguments, name)
        if path is not None and not path.name:
            raise ValueError(f"--{name} {path} is a folder; name a file")
    for name in ("out", "summary"):
        path = getattr(arguments, name)
        if path and not os.path.isdir(path) and path.suffix.lower() not in TABLES:
            raise ValueError(f"--{name} {path}: the table is written as CSV; name a file that ends in .csv, .tsv or .txt")
    if arguments.anonymous and arguments.anonymous.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--anonymous {arguments.anonymous}: name a file that ends in .html")


def check_feedback(arguments):
    if arguments.feedback.resolve().parent == Path(arguments.folder[0]).resolve():
        raise ValueError(f"--feedback {arguments.feedback} would be taken for a student's folder; name a folder "
                         f"outside {arguments.folder[0]}")
    check_output_folder(arguments.feedback)


def check_losses(arguments, written):
    """Raises ValueError if an output would replace what is graded or joined, or a file that this command did not write."""
    merges = arguments.folder[0] == "merge"
    tables = [Path(name) for name in arguments.folder[1:]]
    if len(tables) > 1:                         # one table may be filled into gradebooks and replaced by itself
        kept = {path.resolve() for table in tables for path in (table, shards.record_of(table))}
    else:
        kept = set() if merges else {Path(arguments.folder[0]).resolve()}
    for path in written:
        if path.resolve() in kept:
            raise ValueError(f"{path} is one of the tables to join, or the JSON of one; choose another --out" if merges
                             else f"{path} is the class to be graded; choose another name for the output")
        if not arguments.overwrite:
            check_replaceable(path)


def check_same_class(class_, chosen, record, arguments):
    """Raises ValueError if the existing table, which would be replaced, is that of quite another class or sheet."""
    rows, has = record.rows if record else [], ""
    old, numbers = {row.student for row in rows}, {row.number for row in rows}
    if rows and not old & {student.name for student in class_}:
        has = f"{counted(len(old), 'student')}, such as {min(old)}, none of whom is in {arguments.folder[0]}"
    elif rows and not arguments.only and not numbers & {exercise.number for exercise in chosen}:
        has = f"other exercises, such as {min(numbers)}, than {arguments.folder[0]}"
    if has:
        raise ValueError(f"{arguments.out} has {has}; choose another --out, or move the table and {arguments.json} away")
