"""The results that autograding on GitHub reads."""

import json
import re

from helpers.graded_rows import row

from numpy_transformer.grading.gradebooks import github
from numpy_transformer.grading.gradebooks.people import people

ENVIRONMENT = {"CLASSROOM": "deep-learning", "ASSIGNMENT": "sheet-5",
               "SUBMISSION_TAG": "submit/2026-11-22T10-00-00Z-abc", "COMMIT_URL": "https://github.com/o/r/commit/1",
               "RELEASE_URL": "https://github.com/o/r/releases/1", "OWNER": "kim", "ASSIGNMENT_TYPE": "individual"}
# schemas/result-v1.schema.json of foundation50/classroom50
REQUIRED = {"schema", "classroom", "assignment", "assignment_type", "owner", "submission", "commit", "release", "review",
            "datetime", "score", "max-score", "tests"}


def kim():
    wrong = row("kim", "05.2", "fail", 2.5, said=("dq is wrong",), note="for the teacher")
    person, = people([row("kim", "05.1"), wrong, row("kim", "01.1", "missing")])
    return person


def test_classroom_adds_the_scores_of_all_tests():
    document = json.loads(json.dumps(github.result(kim(), {})))
    points = sum(test["score"] for test in document["tests"])           # as notify-classroom.js does it
    assert (points, document["max_score"], document["status"]) == (5.5, 10, "fail")
    assert [test["status"] for test in document["tests"]] == ["pass", "fail", "fail"]
    assert "dq is wrong" in document["tests"][1]["message"] and "for the teacher" not in json.dumps(document)


def test_errors_are_errors():
    person, = people([row("kim", "05.1", "timeout"), row("kim", "05.2", "fail")])
    assert github.result(person, {})["status"] == "error"


def test_classroom_50_gets_whole_points_and_its_own_names():
    document = json.loads(json.dumps(github.result(kim(), ENVIRONMENT)))
    assert set(document) == REQUIRED
    assert document["schema"] == "classroom50/result/v1" and document["submission"] == ENVIRONMENT["SUBMISSION_TAG"]
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ", document["datetime"])
    assert (document["score"], document["max-score"]) == (5, 10)
    assert [(test["passed"], test["score"], test["max-score"]) for test in document["tests"]] == [
        (True, 3, 3), (False, 2, 5), (False, 0, 2)]
    assert all(isinstance(test["score"], int) and test["test-name"] for test in document["tests"])
