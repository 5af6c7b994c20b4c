"""Rows of the grader's table for tests of what is made of them."""

from numpy_transformer.course.exercises import choose
from numpy_transformer.grading.gradebooks.people import people
from numpy_transformer.grading.rows import Row, plain_line


def row(student, number, status="pass", points=None, said=(), **more):
    """Returns a Row with the points that the status gives, or others, and with these texts as its lines."""
    exercise = choose(number)
    full = exercise.points if status == "pass" else 0
    values = {"seconds": 0.5, "note": "", "lines": list(map(plain_line, said)), **more}
    return Row(student, exercise.number, exercise.file.removesuffix(".py"), status, full if points is None else points,
               exercise.points, **values)


def handed_in(pupil, *numbers):
    """True if the rows of these exercises are not all missing."""
    return any(pupil.truth[number].status.split("|")[0] != "missing" for number in numbers)


def rows_of(pupils, known=(), numbers=None):
    """Returns the rows that a class of pupils is owed. `known` names the ids that the delivery tells."""
    return [row(pupil.name, number, truth.status.split("|")[0], truth.points,
                ids={kind: str(pupil.ids[kind]) for kind in known})
            for pupil in pupils for number, truth in pupil.truth.items() if numbers is None or number in numbers]


def people_of(pupils, known=(), numbers=None):
    return people(rows_of(pupils, known, numbers))
