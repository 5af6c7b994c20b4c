"""Writes results.json, which Gradescope reads after its autograder has run.

The fields are those of Gradescope's autograder specification: gradescope/autograder_samples, docs/specs.md (commit
00f6aa02), and the current page "Autograder Specifications" of its documentation, which adds status, name_format and
output_format.
"""

from ...course.checker.messages import mistake_names
from ..gradable import gradable
from ..report import student_feedback
from .filling import counted_work


def results(person):
    """Returns the content of results.json for one student."""
    tests = [test(row) for row in person.rows]
    passed = sum(row.status == "pass" for row in person.rows)
    output = [f"{passed} of {counted_work([row.number for row in person.rows])} passed.", *person.problems]
    return {"score": person.points, "output": "\n".join(output), "output_format": "text",
            "visibility": "visible", "stdout_visibility": "hidden",
            "execution_time": round(sum(row.seconds for row in person.rows), 2), "tests": tests}


def test(row):
    return {"score": row.points, "max_score": row.max, "status": "passed" if row.status == "pass" else "failed",
            "name": gradable()[row.number].title, "name_format": "text", "number": row.number,
            "output": "\n".join(student_feedback(row)), "output_format": "text",
            "tags": [row.status, *(mistake_names([names]) for names in row.mistakes)], "visibility": "visible",
            "extra_data": {"exercise": row.exercise, "late_days": row.late, "deducted": row.deducted}}
