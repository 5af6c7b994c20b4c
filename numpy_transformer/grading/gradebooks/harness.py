"""Grades one submission in Gradescope's container: `python -m numpy_transformer.grading.gradebooks.harness PLACE`.

If the grader cannot run, no result is written and the exit code is not 0: Gradescope then tells the student that the
autograder has failed, keeps no score, and shows the output to the instructors.
"""

import json
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
        command = [sys.executable, "-m", "numpy_transformer", "grade", folder / "class", "--jobs", "1",
                   "--only", ",".join(settings["exercises"]), "--seed", settings["seed"],
                   "--timeout", settings["seconds"], "--out", folder / "scores.csv",
                   "--gradescope", folder / "results.json"]
        if settings["trust_students"]:
            command += ["--trust-students", "--allow-root"]
        code = subprocess.run(list(map(str, command)), cwd=folder).returncode
        if code == 0:
            (place / "results").mkdir(exist_ok=True)
            shutil.copyfile(folder / "results.json", place / "results" / "results.json")
        return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
