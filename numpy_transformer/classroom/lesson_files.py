"""The files of the lessons: 05_attention.py is lesson 05, and 00b_backward_on_scalars.py is lesson 00b."""

import re
from pathlib import Path

NAME = re.compile(r"(\d\d[a-z]?)_\w+\.py")
WRITTEN = re.compile(r"(\d{1,2})([a-z]?)", re.IGNORECASE)


def lesson_number(path):
    """Returns the number of a lesson from the name of its file, such as "05" or "00b"; None for any other file."""
    match = NAME.fullmatch(Path(path or "").name)
    return match[1] if match else None


def full_number(text):
    """Returns the number that someone means by "5", "05" or "0B" ("05", "05", "00b"); None if it is none."""
    match = WRITTEN.fullmatch(text)
    return match[1].zfill(2) + match[2].lower() if match else None


def lessons_in(folder):
    """Returns {number: path} of the lessons in a folder, in their order."""
    return {lesson_number(path): path for path in sorted(Path(folder).glob("*.py"))
            if lesson_number(path) and path.is_file()}
