"""Finds out which submitted file belongs to which student and exercise. Runs nothing and follows no links."""

import contextlib
import io
import os
import re
import stat
import tokenize
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from ..classroom.numbering import full_number

LARGEST = 1 << 20                               # bytes of a student's file
SCANNED = 100_000                               # bytes that `unusual_names` reads
FILE = re.compile(r"(?:(?P<student>.+?)(?:_assignsubmission_file)?_)?ex(?P<lesson>[0-9]{1,2})"
                  r"(?:[._](?P<place>[0-9])(?![0-9a-z]))?(?!\d).*\.py", re.I)
IGNORED = re.compile(r"__.*|\.(git|venv|idea|vscode|ipynb_checkpoints|pytest_cache|DS_Store|_.*)|.*\.egg-info")
EXPECTED_IMPORTS = {"numpy", "math", "typing", "__future__"}
UNUSUAL = {"open", "exec", "eval", "compile", "__import__", "__builtins__", "ctypes", "sys", "os", "gc", "globals",
           "importlib", "pickle", "subprocess", "socket"}


def read_bytes(path, most=LARGEST, whole=True):
    """Returns the first `most` bytes of a regular file, or None. Never follows a link and never blocks.

    Parameters:
        whole : if True, returns None for a file that is larger than `most`
    """
    flags = [getattr(os, f"O_{name}", 0) for name in ("RDONLY", "NOFOLLOW", "NONBLOCK", "BINARY")]
    try:
        descriptor = os.open(path, sum(flags))
    except OSError:                             # missing, a link, or not readable
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or whole and status.st_size > most:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    except OSError:
        return None
    finally:
        os.close(descriptor)


@dataclass
class Student:
    """One student's files."""

    name: str
    files: dict = field(default_factory=dict)   # {number of an exercise: [paths]}
    others: list = field(default_factory=list)  # Python files that belong to no exercise

    def file(self, exercise):
        """Returns the path of the file for this exercise, or None, and a remark on missing or additional files."""
        paths = self.files.get(exercise.number, [])
        exact = [path for path in paths if path.name == exercise.file]
        candidates = exact or paths
        if not candidates:
            found = f"; found {list_names(self.others)}" if self.others else ""
            return None, f"no file {exercise.file}{found}"
        if len(candidates) > 1:
            return None, f"several files: {list_names(candidates)}; keep only one"
        others = [path for path in paths if path != candidates[0]]
        return candidates[0], f"not graded: {list_names(others)}" if others else ""


def list_names(paths):
    return ", ".join(sorted(one_line(path.name) for path in paths)[:5])


def read(path):
    """Returns the bytes of a student's file, or None, and what is wrong with it."""
    if path.is_symlink() or path.parent.is_symlink():
        return None, "a link, which is not followed; hand in the file itself"
    content = read_bytes(path, LARGEST)
    return content, "" if content is not None else "not a readable file of at most 1 MB"


def students(folder, single=None):
    """Returns all students sorted by name, and the names of Python files that belong to no student.

    Parameters:
        folder : path that holds a folder for each student, or files whose names start with the student's name
        single : number of the exercise if only one is graded; FOLDER/<student>.py is then a file for it
    Raises: ValueError if the folder cannot be read, holds the exercises themselves, holds no students, or holds one
        student twice.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"there is no folder {str(folder)!r}; name the one with a folder or files of each student")
    found, unknown = {}, []
    for path in entries(folder):
        name, match = path.name, FILE.fullmatch(path.name)
        if path.is_dir():
            add_folder(found.setdefault((name, True), Student(student_name(name))), path)
        elif match and not match["student"]:
            raise ValueError(f"{str(folder)!r} contains {name}, so it is a single folder of exercises; name the folder "
                             "above it, with a folder for each student, or with files such as Kim_ex01_2.py")
        elif match:
            student = found.setdefault((match["student"], False), Student(student_name(match["student"])))
            student.files.setdefault(full_number(match["lesson"], match["place"]), []).append(path)
        elif single and path.suffix == ".py":
            found.setdefault((path.stem, False), Student(student_name(path.stem))).files[single] = [path]
        elif path.suffix == ".py":
            unknown.append(one_line(name))
    if not found:
        raise ValueError(f"{str(folder)!r} contains no student's folder and no files such as Kim_ex01_2.py")
    refuse_duplicates(found)
    refuse_unreadable(found.values())
    return sorted(found.values(), key=lambda student: student.name), unknown


def entries(folder):
    """Returns the paths in a folder, without those that belong to no student. Raises ValueError if it is unreadable."""
    try:
        return [path for path in sorted(folder.iterdir()) if not IGNORED.fullmatch(path.name)]
    except OSError as error:
        raise ValueError(f"cannot read {str(folder)!r}: {error.strerror}; change its permissions or move it away"
                         ) from error


def add_folder(student, folder):
    """Adds the files in a student's folder and in the folders inside it."""
    items = [] if folder.is_symlink() else entries(folder)
    nested = [path for item in items if item.is_dir() and not item.is_symlink() for path in entries(item)]
    for path in [item for item in (*items, *nested) if item.suffix == ".py"]:
        match = FILE.fullmatch(path.name)
        if match:
            student.files.setdefault(full_number(match["lesson"], match["place"]), []).append(path)
        else:
            student.others.append(path)


def student_name(text):
    return one_line(re.sub(r"_assignsubmission_file_?$", "", text)) or "?"


def refuse_duplicates(found):
    """Raises ValueError if two names differ only by case or by how an accent is encoded, or are a folder and a file."""
    seen = {}
    for (name, is_folder), student in found.items():
        folded = unicodedata.normalize("NFKC", student.name).casefold()
        other, other_is_folder = seen.setdefault(folded, (name, is_folder))
        if (other, other_is_folder) != (name, is_folder):
            kinds = " (a folder and files)" if other_is_folder != is_folder else ""
            raise ValueError(f"the student {student.name!r} occurs twice, as {one_line(other)!r} and "
                             f"{one_line(name)!r}{kinds}; rename one of them")


def refuse_unreadable(found):
    for path in [path for student in found for paths in student.files.values() for path in paths]:
        if path.is_file() and not path.is_symlink() and not os.access(path, os.R_OK):
            raise ValueError(f"cannot read {str(path)!r}; change its permissions or move it away")


def printable(text):
    """Replaces control characters, lone surrogates and characters that change the writing direction by spaces."""
    return "".join(c if c.isprintable() else " " for c in text)


def one_line(text, most=400):
    """Returns at most `most` characters of the text as one printable line, with single spaces."""
    return " ".join(printable(text[:most]).split())


def unusual_names(content):
    """Returns the imports and names in a student's file that no exercise needs, for the teacher to look at.

    Reads tokens instead of parsing, because a malicious file can crash the parser.
    """
    found, statement = set(), []
    # A file that is not valid Python ends the loop early; the names found before that are returned. LookupError: it
    # names an encoding that is none of text, such as rot13.
    with contextlib.suppress(SyntaxError, tokenize.TokenError, ValueError, LookupError):
        for token in tokenize.tokenize(io.BytesIO(content[:SCANNED]).readline):
            if token.type == tokenize.NEWLINE or token.string in (";", ":"):
                found |= imported(statement)
                statement = []
            elif token.type in (tokenize.NAME, tokenize.OP):
                statement.append(token.string)
                found |= {token.string} & UNUSUAL
    names = sorted(found - EXPECTED_IMPORTS)
    return [*names, "more than 100 kB"] if len(content) > SCANNED else names


def imported(words):
    """Returns the modules that a statement imports."""
    if words[:1] == ["from"]:
        return set(words[1:2])
    if words[:1] != ["import"]:
        return set()
    ends = [i for i, word in enumerate(words) if word in ("import", ",")]
    return {words[i + 1] for i in ends if i + 1 < len(words)}
