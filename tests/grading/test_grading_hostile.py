"""Hostile and odd submissions: none earns a point, stops the others or leaves files or processes. Each gets a note.

They aim at files in tmp_path alone, and what they start ends by itself.
"""

import contextlib
import csv
import ctypes
import errno
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from numpy_transformer.classroom.exercises import choose
from numpy_transformer.classroom import sandbox
from numpy_transformer.grading.arrival import unusual_names
from numpy_transformer.cli import main

EXERCISE = choose("01.2")
RIGHT = EXERCISE.edited()
WRONG = "def softmax_backward(p, dp):\n    return dp\n"
posix = pytest.mark.skipif(os.name != "posix", reason="processes and links of POSIX")

# More of them, in bytes or with odd names of students: {student: (file, statuses that are right for it)}
ODD = {
    "deep syntax": ("x = " + "-" * 90_000 + "1\n", {"error", "memory", "timeout"}),
    "latin": ("x = 'caf\xe9'\n".encode("latin-1") + WRONG.encode(), {"error"}),
    "utf16": (WRONG.encode("utf-16"), {"error"}),
    "zeros": (b"\0" * 5000, {"error"}),
    "empty": ("", {"error"}),
    "other name": (RIGHT.replace("def softmax_backward", "def softmax_backwards"), {"error"}),
    **{name: (WRONG, {"fail"}) for name in ("=2+5+cmd", "@SUM(1)", "-1+1", "+1", "line\nbreak\x1b[2J", "turned\u202e")},
}


def written():
    """{student: (file, statuses)} from hostile.txt."""
    found = {}
    for part in (Path(__file__).parent / "hostile.txt").read_text(encoding="utf-8").split("\n=== ")[1:]:
        head, _, source = part.partition("\n")
        name, _, statuses = head.partition(": ")
        found[name] = source.replace("WRONG\n", WRONG), set(statuses.split())
    return found


HOSTILE = {**written(), **ODD}
SAMPLE = {name: HOSTILE[name] for name in (                 # one of each kind; the slow run grades all of them
    "loop", "fork", "kill", "exit at once", "flood", "forged score", "patched worker", "writes elsewhere",
    "reads the others", "loads a library", "other name", "line\nbreak\x1b[2J")}


def grade(folder, out, *options):
    """Rows by student, and what was printed."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        code = main(["grade", str(folder), "--out", str(out), "--allow-root", "--only", "01.2", "--seed", "5", *options])
    assert code == 0, text.getvalue()
    with open(out, encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}, text.getvalue()


@pytest.fixture(scope="module", params=[SAMPLE, pytest.param(HOSTILE, marks=pytest.mark.slow)], ids=["sample", "all"])
def graded(request, tmp_path_factory):
    """The hostile class with an honest student at each end, graded once: (folder, rows, text, what was left, class)."""
    base = tmp_path_factory.mktemp("hostile")
    folder, target = base / "class", base / "target"
    paths = {"{TARGET}": repr(str(target)), "{OTHER}": repr(str(folder / "anna" / EXERCISE.file)),
             "{PACKAGE}": repr(str(Path(sandbox.__file__).parents[2]))}
    for name, (source, _) in {**request.param, "anna": (RIGHT, {}), "zoe": (RIGHT, {})}.items():
        (folder / name).mkdir(parents=True)
        for key, path in paths.items():
            source = source.replace(key, path) if isinstance(source, str) else source
        (folder / name / EXERCISE.file).write_bytes(source if isinstance(source, bytes) else source.encode())
    odd_files(folder)
    temporary = tempfile.mkdtemp()
    os.chmod(temporary, 0o711)                  # the user nobody has to get through
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADER_MARK", "1")
        patch.setattr(tempfile, "tempdir", temporary)
        rows, text = grade(folder, base / "scores.csv", "--timeout", "2", "--jobs", "4", "--json",
                           str(base / "scores.json"), "--feedback", str(base / "feedback"))
    left = os.listdir(temporary)
    os.rmdir(temporary)
    return base, rows, text, left, request.param


def odd_files(folder):
    """Students whose file is no plain file of a moderate size."""
    for name in ("linked", "linked folder", "piped", "directory", "huge", "two", "elsewhere"):
        (folder / name).mkdir()
    (folder / "huge" / EXERCISE.file).write_text(RIGHT + "#" * (1 << 20), encoding="utf-8")
    (folder / "directory" / EXERCISE.file).mkdir()
    (folder / "elsewhere" / "my_answer.py").write_text(RIGHT, encoding="utf-8")
    for name in ("ex01_2.py", "ex01_2_new.py"):
        (folder / "two" / name).write_text(RIGHT, encoding="utf-8")
    if os.name == "posix":
        os.symlink(folder / "anna" / EXERCISE.file, folder / "linked" / EXERCISE.file)
        os.rmdir(folder / "linked folder")
        os.symlink(folder / "anna", folder / "linked folder")
        os.mkfifo(folder / "piped" / EXERCISE.file)


def shown(name):
    """A student's name in the table."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return "'" + plain if plain[0] in "=+-@" else plain


@posix
def test_no_hostile_program_earns_a_point_and_each_gets_a_note(graded):
    for name, (_, statuses) in graded[4].items():
        row = graded[1][shown(name)]
        assert row["points"] == "0" and row["max"] == str(EXERCISE.points), row
        assert row["status"] in statuses, row
        assert row["note"] and row["note"].isprintable() and len(row["note"]) <= 600, row


@posix
@pytest.mark.parametrize("name, status, word", [
    ("linked", "error", "link"), ("linked folder", "missing", "no file"), ("piped", "error", "readable"),
    ("directory", "error", "readable"), ("huge", "error", "1 MB"), ("two", "error", "ex01_2.py, ex01_2_new.py"),
    ("elsewhere", "missing", "my_answer.py")])
def test_links_pipes_and_folders_are_not_graded_as_files(graded, name, status, word):
    row = graded[1][name]
    assert (row["points"], row["status"]) == ("0", status) and word in row["note"], row


@posix
def test_the_other_students_are_graded_as_usual(graded):
    base, rows, text, left, hostile = graded
    for name in ("anna", "zoe"):
        assert rows[name]["status"] == "pass" and rows[name]["points"] == rows[name]["max"], rows[name]
    assert len(rows) == len(hostile) + 9 and "2 of " in text
    assert not left, "temporary folders stayed behind"
    assert not (base / "target").exists()
    assert {path.name for path in base.iterdir()} == {"class", "scores.csv", "scores.json", "feedback", "scores.png"}
    assert (base / "class" / "anna" / EXERCISE.file).read_text(encoding="utf-8") == RIGHT


@posix
def test_no_secret_of_the_grader_reaches_a_student(graded):
    base, _, text, _, hostile = graded
    everything = [path.read_text(encoding="utf-8") for path in (base / "feedback").iterdir()]
    assert len(everything) == len(hostile) + 9
    assert not any(word in file for file in everything for word in ("LEAK", "GRADER_MARK=", "\x1b", "\u202e"))
    assert "\x1b[2J" not in text and max(map(len, everything)) < 40_000
    students = json.loads((base / "scores.json").read_text(encoding="utf-8"))["students"]
    assert sum(student["points"] for student in students) == 2 * EXERCISE.points


@posix
def test_suspicious_names_are_reported_to_the_teacher(graded):
    for name, word in (("reads the others", "exec, open"), ("loads a library", "ctypes"), ("kill", "os"),
                       ("patched worker", "sys")):
        assert f"for you to look at: {word}" in graded[1][name]["note"]


@posix
def test_the_note_says_what_stopped_a_program(graded):
    wanted = {"flood": os.strerror(errno.EFBIG), "fills the disk": "64 MB", "fork": "os.fork is refused",
              "loop": "stopped after 2 seconds", "memory": "memory", "exit at once": "ended early",
              "other name": "did you mean softmax_backwards?", "imports the answer": "use only NumPy"}
    there = wanted.keys() & graded[4].keys()
    assert len(there) == (len(wanted) if graded[4] is HOSTILE else 5)
    for name in there:
        assert wanted[name] in graded[1][name]["note"], graded[1][name]


def test_suspicious_names_are_found_in_code_but_not_in_comments():
    source = (b'"""open and exec"""\nimport numpy as np, os.path, sys as s\nfrom math import exp\n# eval\n'
              b"def f(x): import pickle; return open\nfrom json import loads as eval_\n")
    assert unusual_names(source) == ["json", "open", "os", "pickle", "sys"]
    assert unusual_names(RIGHT.encode()) == [] and unusual_names(b"import os\n(((((") == ["os"]
    for text in (b"\xff\xfe", b"\0\0", b"-" * 90_000, b"(" * 90_000, b"# coding: nonsense\n", b"x = '\n"):
        unusual_names(text)
    assert unusual_names(b"#" * 200_000) == ["more than 100 kB"]
