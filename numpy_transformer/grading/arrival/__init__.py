"""Reads a class as it was delivered. Runs nothing, follows no link, and reads no more than it needs."""

from ..submissions import one_line, printable, students, unusual_names
from .records import File, Problem, Student
from ...classroom.exercises import exercises

__all__ = ["File", "Problem", "Student", "one_line", "printable", "read_class", "unusual_names"]


def read_class(place, only=None):
    """Returns the students sorted by name, and sentences about what belongs to no student.

    Parameters:
        place : path of a folder, or of a zip of the whole class
        only : numbers of the exercises that are graded; None: all
    Raises: ValueError with one sentence if the class cannot be read.
    """
    only = list(only or [])
    found, unknown = students(place, only[0] if len(only) == 1 else None)
    class_ = []
    for item in found:
        student = Student(item.name)
        for number, paths in item.files.items():
            exercise = exercises().get(number)
            for path in paths:
                content = path.read_bytes()
                name = exercise.file if exercise else path.name
                student.attempts.setdefault(number, []).append(File(name, path.name, content, number))
                student.files[name] = student.files[path.name] = content
        for path in item.others:
            student.files[path.name] = path.read_bytes()
        class_.append(student)
    return class_, [f"{name} belongs to no exercise" for name in unknown]
