"""How many of our files a reader opens who follows one command, and that a command loads no room that it does not use."""

import json
from pathlib import Path

import pytest
from helpers.commands import python

import numpy_transformer
from numpy_transformer.course.exercises import choose

ROOT = Path(numpy_transformer.__file__).parent
# Prints the exit code, the files in which a function was called, and the modules that were imported.
FOLLOW = """
import json, sys, threading
root, names = sys.argv[1] + "/", set()

def profile(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root) and code.co_flags & 1 and not code.co_name.startswith("<"):
        names.add(code.co_filename[len(root):])     # no bodies of modules and classes, and no comprehensions

from numpy_transformer.cli import main
threading.setprofile(profile)
sys.setprofile(profile)
code = main(sys.argv[2:])
sys.setprofile(None)
print(json.dumps([code, sorted(names), sorted(name for name in sys.modules if name.startswith("numpy_transformer."))]))
"""


def follow(folder, *arguments):
    """(exit code, files entered, modules loaded) of a command in a folder."""
    done = python("-c", FOLLOW, ROOT, *arguments, cwd=folder)
    assert done.stdout, done.stderr
    code, files, modules = json.loads(done.stdout.splitlines()[-1])
    return code, files, [name.removeprefix("numpy_transformer.") for name in modules]


def in_rooms(modules, *rooms):
    return [name for name in modules for room in rooms if f"{name}.".startswith(f"{room}.")]


def test_a_check_enters_few_files_and_nothing_of_the_grader(tmp_path):
    exercise = choose("05.2")
    wrong = exercise.edited(exercise.mistakes[0].edits)
    (tmp_path / exercise.file).write_text(wrong, encoding="utf-8")
    code, files, modules = follow(tmp_path, "exercise", "check", "05.2")
    assert code == 1 and "course/checker/verdict.py" in files
    always = [name for name in files if name != "course/sandbox/inside/worker.py"]      # that only if the answer takes over 0.1 s
    assert len(always) <= 35, files
    assert not in_rooms(modules, "grading", "explorer", "course.lessons", "course.checker.localize", "views", "data", "tasks",
                        "pretrained", "decoding", "inspection", "zoo", "bench")


@pytest.mark.slow
def test_grade_loads_no_room_that_it_does_not_use(tmp_path):
    exercise = choose("05.2")
    (tmp_path / "class" / "kim").mkdir(parents=True)
    (tmp_path / "class" / "kim" / exercise.file).write_text(exercise.edited(), encoding="utf-8")
    code, files, modules = follow(tmp_path, "grade", "class", "--out", "table.csv", "--trust-students", "--allow-root")
    assert code == 0 and "grading/grader.py" in files
    assert not in_rooms(modules, "explorer", "course.lessons", "tasks", "pretrained", "zoo", "bench")
