"""Makes the zip that Gradescope runs as the autograder of a programming assignment.

What belongs in it is taken from Gradescope's specification: gradescope/autograder_samples, docs/specs.md (commit
00f6aa02), docs/base_images.md (commit 0d824b75) and docs/submission_metadata.md (commit 61c849d4). At the root are
setup.sh, which runs once, as root, on Ubuntu 22.04, and run_autograder, which runs for each submission. The zip is
unpacked in /autograder/source, a submission in /autograder/submission, and the result goes to
/autograder/results/results.json. The package is not in an index of packages, so that the zip holds a copy of it.
"""

import json
import zipfile
from pathlib import Path

from ..files import replace_file

PACKAGE = Path(__file__).resolve().parents[2]
REQUIREMENTS = ("numpy>=2.0", "matplotlib", "tqdm")
SETTINGS = "settings.json"
SETUP = f"""#!/usr/bin/env bash
# Runs once, when Gradescope builds the image.
set -e
apt-get update
apt-get install -y python3-venv bubblewrap
python3 -m venv /autograder/venv
/autograder/venv/bin/python -m pip install {' '.join(f"'{name}'" for name in REQUIREMENTS)}
"""
RUN = """#!/usr/bin/env bash
# Runs for each submission.
export PYTHONPATH=/autograder/source
exec /autograder/venv/bin/python -m numpy_transformer.grading.gradebooks.harness /autograder
"""
README = """# Autograder for Gradescope

Grades {exercises}. On Gradescope, create a programming assignment with {points} autograder points, and upload this zip
under Configure Autograder. Upload the zip itself; do not unpack it. The base image has to be Ubuntu with Python 3.10 or
newer. Then use Test Autograder with a submission of your own.

Every submission is graded with the same cases. Their seed is in {settings}, and the solutions are in the package: do
not give this zip to students. Students see the feedback of `numpy-transformer exercise check`. What the autograder
prints is for instructors only. {late}

## Whether the students' programs run in a sandbox

Gradescope runs each submission in a container of its own, so that one submission cannot reach another one. Inside
the container, the grader starts the student's program in a sandbox, if the container's system allows one. The program
then can neither read the solutions nor write a result of its own.

{trust}

The first line that the autograder prints says which of the two it was.
"""
TRUST = """**This zip was made with --trust-students.** Where the container allows no sandbox, the program runs without
one, as root. It can then read the solutions and the seed, and write any score into results.json. Look at the
submissions that you give points for."""
NO_TRUST = """Where the container allows no sandbox, nothing is graded: Gradescope reports that the autograder failed,
and its output says why. To grade all the same, make the zip with `--trust-students`, which accepts that a student's
program can then read the solutions and write any score."""


def write_zip(path, chosen, seed, seconds, trust, late=None):
    """Writes the zip.

    Parameters:
        path : path of the zip
        chosen : list of Exercise, those that the assignment consists of
        seed : int, the seed of the cases
        seconds : time limit for each exercise
        trust : True to grade without a sandbox where there is none
        late : what lateness costs, as the option --late of `grade` says it, or None
    """
    numbers = [exercise.number for exercise in chosen]
    settings = {"exercises": numbers, "seed": seed, "seconds": seconds, "trust_students": trust,
                "late": late}
    readme = README.format(exercises=", ".join(numbers), points=sum(exercise.points for exercise in chosen),
                           settings=SETTINGS, trust=TRUST if trust else NO_TRUST,
                           late=f"Lateness costs {late}; the deadline is Gradescope's due date." if late else
                           "Points are not deducted for lateness.")
    texts = {"setup.sh": SETUP, "run_autograder": RUN, SETTINGS: json.dumps(settings, indent=1) + "\n",
             "README.md": readme}

    def write(file):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in texts.items():
                add(archive, name, text.encode(), 0o755 if name in ("setup.sh", "run_autograder") else 0o644)
            for source in package_files():
                add(archive, str(source.relative_to(PACKAGE.parent).as_posix()), source.read_bytes(), 0o644)
    return replace_file(path, write, encoding=None)


def package_files():
    """Returns the files of this package, and its license."""
    paths = [path for path in sorted(PACKAGE.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return [*paths, *filter(Path.is_file, [PACKAGE.parent / "LICENSE"])]


def add(archive, name, content, mode):
    entry = zipfile.ZipInfo(name)               # dated 1980, so that the same package gives the same zip
    entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)
