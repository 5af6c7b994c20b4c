"""Writes the result that autograding on GitHub reads: that of GitHub Classroom's actions, or of Classroom 50.

GitHub Classroom: classroom-resources/autograding-grading-reporter reads the output of a step, JSON in base64, from the
variable NAME_RESULTS (src/main.js, commit b953c1ac). It uses status (pass, fail or error), max_score, and of each test
name, status, score and message (src/notify-classroom.js, commit 1549b907). GitHub has closed Classroom's application;
the actions still report to the log of the workflow.

Classroom 50: foundation50/classroom50 runs an autograder.py in the student's checkout, which has to write result.json
(wiki/Advanced-Autograding.md, commit 0b4bcc00; schemas/result-v1.schema.json, commit 6e593c79). The runner gives the
names of classroom, assignment and submission in environment variables, and checks them. Scores are whole numbers
there, so that points are rounded down.
"""

import datetime
import os

from ..gradable import gradable
from ..report import student_feedback

STATUS = {"pass": "pass", "fail": "fail", "todo": "fail", "missing": "fail"}        # all others are errors
RUNNER = ("CLASSROOM", "ASSIGNMENT", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL")     # set by Classroom 50


def result(person, environment=os.environ):
    """Returns the result for one student, in the form for Classroom 50 if its runner set the environment."""
    if all(environment.get(name) for name in RUNNER):
        return classroom50_result(person, environment)
    return classroom_result(person)


def classroom_result(person):
    tests = [{"name": f"{row.number} {gradable()[row.number].title}", "status": STATUS.get(row.status, "error"),
              "score": row.points, "max_score": row.max, "message": message(row), "test_code": "",
              "filename": f"{row.exercise}.py", "line_no": 0, "duration": row.seconds} for row in person.rows]
    statuses = {test["status"] for test in tests}
    status = next((status for status in ("error", "fail") if status in statuses), "pass")
    return {"version": 1, "status": status, "max_score": person.max, "tests": tests}


def classroom50_result(person, environment):
    tests = [{"test-name": f"{row.number} {gradable()[row.number].title}", "passed": row.status == "pass",
              "score": int(row.points), "max-score": row.max, "message": message(row)} for row in person.rows]
    now = datetime.datetime.now(datetime.timezone.utc)
    document = {"schema": "classroom50/result/v1", "classroom": environment["CLASSROOM"],
                "assignment": environment["ASSIGNMENT"], "submission": environment["SUBMISSION_TAG"],
                "commit": environment["COMMIT_URL"], "release": environment["RELEASE_URL"],
                "review": environment.get("REVIEW_URL") or environment["COMMIT_URL"],
                "datetime": now.strftime("%Y-%m-%dT%H:%M:%SZ"), "score": sum(test["score"] for test in tests),
                "max-score": sum(test["max-score"] for test in tests), "tests": tests}
    for field, names in {"owner": ("OWNER", "USERNAME"), "assignment_type": ("ASSIGNMENT_TYPE",)}.items():
        value = next(filter(None, map(environment.get, names)), None)
        if value:                               # the runner overwrites both anyway
            document[field] = value
    return document


def message(row):
    return "" if row.status == "pass" else "\n".join(student_feedback(row))
