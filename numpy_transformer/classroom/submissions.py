"""What was handed in: which file belongs to which student and exercise. Nothing is run, and no link is followed."""

import io
import os
import re
import tokenize
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from .numbers import make
from .reading import contents

LARGEST = 1 << 20                               # bytes of a student's file
SCANNED = 100_000                               # of which these are looked at by `suspects`
FILE = re.compile(r"(?:(?P<student>.+?)(?:_assignsubmission_file)?_)?ex(?P<lesson>[0-9]{1,2})"
                  r"(?:[._](?P<place>[0-9])(?![0-9a-z]))?(?!\d).*\.py", re.I)
NO_STUDENTS = re.compile(r"__.*|\.(git|venv|idea|vscode|ipynb_checkpoints|pytest_cache|DS_Store|_.*)|.*\.egg-info")
ORDINARY = {"numpy", "math", "typing", "__future__"}
LOOK_AT = {"open", "exec", "eval", "compile", "__import__", "__builtins__", "ctypes", "sys", "os", "gc", "globals",
           "importlib", "pickle", "subprocess", "socket"}


@dataclass
class Student:
    """One student: the files by number of an exercise, and the other Python files."""

    name: str
    files: dict = field(default_factory=dict)   # {"01.2": [paths]}
    others: list = field(default_factory=list)

    def file(self, exercise):
        """The path of the file for this exercise, or None; and what is wrong, or lies beside it."""
        paths = self.files.get(exercise.number, [])
        exact = [path for path in paths if path.name == exercise.file]
        paths = exact or paths
        if not paths:
            return None, f"no file {exercise.file}" + f"; there is {listed(self.others)}" * bool(self.others)
        if len(paths) > 1:
            return None, f"several files: {listed(paths)}; leave one"
        others = [path for path in self.files[exercise.number] if path != paths[0]]
        return paths[0], f"not graded: {listed(others)}" * bool(others)


def listed(paths):
    return ", ".join(sorted(clean(path.name) for path in paths)[:5])


def read(path):
    """The bytes of a student's file, or None; and what is wrong."""
    if path.is_symlink() or path.parent.is_symlink():
        return None, "a link, which is not followed; hand in the file itself"
    content = contents(path, LARGEST)
    return content, "" if content is not None else "no readable file of at most 1 MB"


def students(folder, single=None):
    """All students by name, sorted, and the names of files that belong to nobody.

    Parameters:
        single : the number of the one exercise that is graded, if it is one: FOLDER/<student>.py is then a file for it
    Raises: ValueError for a folder that cannot be read, holds the exercises themselves, nobody, or somebody twice.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"there is no folder {str(folder)!r}; name the one with a folder or files of each student")
    found, strange = {}, []
    for path in entries(folder):
        name, match = path.name, FILE.fullmatch(path.name)
        if path.is_dir():
            add_folder(found.setdefault((name, True), Student(student_name(name))), path)
        elif match and not match["student"]:
            raise ValueError(f"{str(folder)!r} holds {name} itself, as a folder of exercises does; name the folder "
                             "above, with a folder for each student, or files such as Kim_ex01_2.py")
        elif match:
            student = found.setdefault((match["student"], False), Student(student_name(match["student"])))
            student.files.setdefault(make(match["lesson"], match["place"]), []).append(path)
        elif single and path.suffix == ".py":
            found.setdefault((path.stem, False), Student(student_name(path.stem))).files[single] = [path]
        elif path.suffix == ".py":
            strange.append(clean(name))
    if not found:
        raise ValueError(f"{str(folder)!r} holds no folder of a student, nor files such as Kim_ex01_2.py")
    refuse_twins(found)
    refuse_unreadable(found.values())
    return sorted(found.values(), key=lambda student: student.name), strange


def entries(folder):
    """What lies in a folder, without what is no student's. Raises ValueError if it cannot be read."""
    try:
        return [path for path in sorted(folder.iterdir()) if not NO_STUDENTS.fullmatch(path.name)]
    except OSError as error:
        raise ValueError(f"cannot read {str(folder)!r}: {error.strerror}; give yourself the right to, or move it away"
                         ) from error


def add_folder(student, folder):
    """Files of a student's folder, and of the folders in it."""
    inside = [] if folder.is_symlink() else entries(folder)
    deeper = [path for item in inside if item.is_dir() and not item.is_symlink() for path in entries(item)]
    for path in [item for item in (*inside, *deeper) if item.suffix == ".py"]:
        match = FILE.fullmatch(path.name)
        if match:
            student.files.setdefault(make(match["lesson"], match["place"]), []).append(path)
        else:
            student.others.append(path)


def student_name(text):
    return clean(re.sub(r"_assignsubmission_file_?$", "", text)) or "?"


def refuse_twins(found):
    """Raises ValueError for names that differ by case or the way an accent is written, or a folder and a file."""
    seen = {}
    for (name, is_folder), student in found.items():
        twin = seen.setdefault(unicodedata.normalize("NFKC", student.name).casefold(), (name, is_folder))
        if twin != (name, is_folder):
            raise ValueError(f"the student {student.name!r} is there twice, as {clean(twin[0])!r} and {clean(name)!r}"
                             + " (a folder and files)" * (twin[1] != is_folder) + "; rename one")


def refuse_unreadable(found):
    for path in [path for student in found for paths in student.files.values() for path in paths]:
        if path.is_file() and not path.is_symlink() and not os.access(path, os.R_OK):
            raise ValueError(f"cannot read {str(path)!r}; give yourself the right to, or move it away")


def printable(text):
    """A space for every control character, half of a character, or sign that turns the direction of writing."""
    return "".join(c if c.isprintable() else " " for c in text)


def clean(text, most=400):
    """One line without spaces at its ends or in a row."""
    return " ".join(printable(text[:most]).split())


def suspects(content):
    """Imports and names in a student's file at which a teacher may want to look.

    Tokens and no syntax tree: a parser can be brought down by a file that is made for it.
    """
    found, statement = set(), []
    try:
        for token in tokenize.tokenize(io.BytesIO(content[:SCANNED]).readline):
            if token.type == tokenize.NEWLINE or token.string in (";", ":"):
                found |= imported(statement)
                statement = []
            elif token.type in (tokenize.NAME, tokenize.OP):
                statement.append(token.string)
                found |= {token.string} & LOOK_AT
    except (SyntaxError, tokenize.TokenError, ValueError):      # what was seen up to there counts
        pass
    return sorted(found - ORDINARY) + ["more than 100 kB"] * (len(content) > SCANNED)


def imported(words):
    """The modules that a statement imports."""
    if words[:1] == ["from"]:
        return set(words[1:2])
    ends = [i for i, word in enumerate(words) if word in ("import", ",")]
    return {words[i + 1] for i in ends if i + 1 < len(words)} if words[:1] == ["import"] else set()
