"""Recognizes files that the grader wrote: only these may be replaced."""

import csv
import re
from pathlib import Path

from .report import COLUMNS

BEGINNING = 1 << 16                             # bytes that are looked at
PICTURES = {".png": b"Software\0numpy_transformer", ".svg": b"<dc:title>numpy_transformer</dc:title>",
            ".pdf": b"/Creator (numpy_transformer)"}       # what views.write_figure puts into them
RESULTS = re.compile(r'"versions":\s*\{\s*"numpy_transformer":|"stdout_visibility":\s*"hidden",\s*"execution_time":|'
                     r'"max_score":[^{}]*"tests":|"classroom50/result/')
PAGES = re.compile(r"(<title>|# )What we got right and wrong")


def is_replaceable(path):
    """Returns True if nothing is lost by replacing a file: there is none, it is empty, or this command wrote it.

    Raises: OSError if it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(BEGINNING)
    except FileNotFoundError:
        return True
    mark = PICTURES.get(Path(path).suffix.lower())
    if mark and content:
        return mark in content
    text = content.decode("utf-8-sig", errors="replace")
    return not text or is_table(text) or bool(text.startswith("{") and RESULTS.search(text) or PAGES.search(text))


def is_table(text):
    """Returns True if a text begins with the header of the table, or of the summary."""
    line = text.partition("\n")[0]
    header = next(csv.reader([line], delimiter=";" if line.startswith("student;") else ","), [])
    return header[:len(COLUMNS)] == list(COLUMNS) or header[:1] == ["student"] and "percent" in header


def check_replaceable(path):
    """Raises ValueError if a file is at this path that the grader did not write."""
    try:
        replaceable = is_replaceable(path)
    except OSError as error:
        raise ValueError(f"cannot read {str(path)!r}, which would be replaced: {error.strerror}") from error
    if not replaceable:
        raise ValueError(f"{str(path)!r} was not written by this command; choose another name, or replace it with "
                         "--overwrite")
