"""Recognizes files that the grader wrote, so that it replaces no others."""

import csv
import re
from pathlib import Path

from .report import COLUMNS

BEGINNING = 1 << 16                             # bytes that are looked at
JSON = re.compile(r'"(seed|output_format|max_score)":|"classroom50/result/')
PAGES = re.compile(r"(<title>|# )What we got right and wrong")


def is_ours(path):
    """Returns True if nothing is lost by replacing a file: there is none, it is empty, or this command wrote it.

    Raises: OSError if it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(BEGINNING)
    except FileNotFoundError:
        return True
    if content.startswith(b"\x89PNG"):
        return content[25] == 3 if len(content) > 25 else False         # a palette, as views.write makes it
    text = content.decode("utf-8-sig", errors="replace")
    if Path(path).suffix.lower() in (".svg", ".pdf"):
        return "Matplotlib" in text
    return not text or is_table(text) or bool(text.startswith("{") and JSON.search(text) or PAGES.search(text))


def is_table(text):
    """Returns True if a text begins with the header of the table, or of the summary."""
    line = text.partition("\n")[0]
    header = next(csv.reader([line], delimiter=";" if line.startswith("student;") else ","), [])
    return header[:len(COLUMNS)] == list(COLUMNS) or header[:1] == ["student"] and "percent" in header


def check_replaceable(path):
    """Raises ValueError if a file is at this path that the grader did not write."""
    try:
        ours = is_ours(path)
    except OSError as error:
        raise ValueError(f"cannot read {str(path)!r}, which would be replaced: {error.strerror}") from error
    if not ours:
        raise ValueError(f"{str(path)!r} was not written by this command; choose another name, or replace it with "
                         "--overwrite")
