"""Small deliveries for the tests of grading/arrival."""

import io
import json
import tarfile
import zipfile
from pathlib import Path

from numpy_transformer.course.exercises import choose
from numpy_transformer.grading.arrival import read_class

from .names import file_name


def right(number, comment=""):
    """The solution of an exercise as a student's file."""
    return choose(number).edited() + (f"# {comment}\n" if comment else "")


def lay(folder, files):
    """Writes {path: text or bytes; None for an empty folder} below a folder."""
    for path, content in files.items():
        target = Path(folder) / file_name(str(path))
        (target if content is None else target.parent).mkdir(parents=True, exist_ok=True)
        if content is not None:
            target.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def read(folder, files, only=None):
    """The students by name, and the notes, of a folder with these files."""
    whole = read_class(lay(folder, files), only)
    return {student.name: student for student in whole.students}, whole.notes


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return buffer.getvalue()


def tarred(files, compression="gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as archive:
        for path, content in files.items():
            item = tarfile.TarInfo(path)
            item.size = len(content.encode())
            archive.addfile(item, io.BytesIO(content.encode()))
    return buffer.getvalue()


def notebook(*cells, version=4, **more):
    """A notebook with these code cells: sources, or (source, tags)."""
    pairs = [cell if isinstance(cell, tuple) else (cell, []) for cell in cells]
    if version == 3:
        code = [{"cell_type": "code", "input": source, "outputs": [], "metadata": {"tags": tags}} for source, tags in pairs]
        return json.dumps({"nbformat": 3, "metadata": {}, "worksheets": [{"cells": code}], **more})
    code = [{"cell_type": "code", "source": source.splitlines(keepends=True), "outputs": [{"text": ["def softmax(:"]}],
             "metadata": {"tags": tags}} for source, tags in pairs]
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": [{"cell_type": "markdown", "source": "# def x"}, *code],
                       **more})


def numbers(student):
    """{number: names of the attempts' files} of a student."""
    return {number: [file.where.rpartition("/")[2] for file in attempts] for number, attempts in student.attempts.items()}
