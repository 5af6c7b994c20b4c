"""What the reader hands to the grader: a class as students, each with attempts, other files and problems."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass
class File:
    """One attempt at an exercise."""

    name: str                                   # the module's name to run it under: "ex05_2_attention_backward.py"
    where: str                                  # what people read: "Kim.zip/ex12.py" or "homework.ipynb"
    content: bytes                              # Python source in UTF-8, ready to run
    number: str = ""                            # of the exercise, or "" if the file belongs to none
    submitted: datetime | None = None           # with a time zone
    time_from: str = ""                         # what says so: "Gradescope", or "Canvas does not tell"
    late: bool = False                          # the delivery itself says that it is late, as Canvas does
    unusual: list = field(default_factory=list) # what it does that no exercise needs, as phrases


@dataclass
class Problem:
    """Something that a student handed in and that could not be read or assigned to an exercise."""

    where: str
    number: str                                 # of the exercise, or "" if it may belong to any
    sentence: str                               # what is wrong, and what the student can do: "This is a PDF file ..."
    submitted: datetime | None = None           # these three as in File
    time_from: str = ""
    late: bool = False


@dataclass
class Student:
    """One student, or one group, and everything handed in."""

    name: str
    # {system: id} with any of "canvas", "anonymous" (Canvas's), "moodle", "github", "gradescope", "email" and "login"
    ids: dict = field(default_factory=dict)
    attempts: dict = field(default_factory=dict)    # {number: [File, ...]}, oldest first
    files: dict = field(default_factory=dict)   # {module file name: bytes}, under the names that other files import
    problems: list = field(default_factory=list)
    remarks: dict = field(default_factory=dict)     # {number: [sentence, ...]} for the teacher and the student


def as_data(student):
    """Returns a Student as values for JSON, without the name and the ids, which the names at the top tell."""
    return {"attempts": {number: [{**vars(file), "content": file.content.decode(), **time(file)} for file in files]
                         for number, files in student.attempts.items()},
            "files": {name: content.decode() for name, content in student.files.items()},
            "problems": [{**vars(problem), **time(problem)} for problem in student.problems], "remarks": student.remarks}


def time(entry):
    return {"submitted": entry.submitted and entry.submitted.isoformat()}


def from_data(name, ids, values):
    """Returns the Student with these values, as `as_data` gives them."""
    def restored(kind, entry, **changed):
        submitted = entry["submitted"] and datetime.fromisoformat(entry["submitted"])
        return kind(**{**entry, "submitted": submitted, **changed})

    attempts = {number: [restored(File, entry, content=entry["content"].encode()) for entry in entries]
                for number, entries in values["attempts"].items()}
    files = {name: content.encode() for name, content in values["files"].items()}
    return Student(name, ids, attempts, files, [restored(Problem, entry) for entry in values["problems"]],
                   values["remarks"])
