"""Grades one submission in Gradescope's container: `python -m numpy_transformer.grading.gradebooks.harness PLACE`.

If the grader cannot run, no result is written and the exit code is not 0: Gradescope then tells the student that the
autograder has failed, keeps no score, and shows the output to the instructors.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main(place):
    """Grades what is in PLACE/submission and writes PLACE/results/results.json. Returns the exit code."""
    place = Path(place)
    settings = json.loads((place / "source" / "settings.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        shutil.copytree(place / "submission", folder / "class" / "submission", symlinks=True)
        command = [sys.executable, "-m", "numpy_transformer", "grade", folder / "class", "--layout", "students", "--jobs", "1",
                   "--only", ",".join(settings["exercises"]), "--seed", settings["seed"],
                   "--timeout", settings["seconds"], "--out", folder / "scores.csv",
                   "--gradescope", folder / "results.json"]
        if settings["trust_students"]:
            command += ["--trust-students", "--allow-root"]
        if settings["late"]:
            command += lateness(place / "submission_metadata.json", settings["late"], folder / "submitted.csv")
        code = subprocess.run(list(map(str, command)), cwd=folder).returncode
        if code == 0:
            (place / "results").mkdir(exist_ok=True)
            shutil.copyfile(folder / "results.json", place / "results" / "results.json")
        return code


def lateness(metadata, late, submitted):
    """Returns options for `grade`, if the assignment has a due date. Writes the time of submission to a file.

    A student with an extension has a due date of their own.
    """
    metadata = json.loads(metadata.read_text(encoding="utf-8"))
    dates = [user["assignment"]["due_date"] for user in metadata.get("users", ()) if user.get("assignment")]
    due = next(filter(None, [*dates, metadata["assignment"]["due_date"]]), None)
    if due is None:
        return []
    submitted.write_text(f"student,time\nsubmission,{whole_seconds(metadata['created_at'])}\n", encoding="utf-8")
    return ["--due", whole_seconds(due), "--late", late, "--submitted", submitted]


def whole_seconds(time):
    """Returns an ISO time as Python 3.10 reads it: fractions of a second need three or six digits there, and no Z."""
    return re.sub(r"Z$", "+00:00", re.sub(r"\.\d+", "", time))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
