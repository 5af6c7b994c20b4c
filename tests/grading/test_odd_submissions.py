"""Odd submissions: none earns a point, stops the others or leaves files behind, and each gets a note.

The files that attack the sandbox are in hostile/, and test_hostile.py grades them.
"""

import contextlib
import csv
import errno
import io
import json
import os
import tempfile

import pytest
from helpers.hostile import EXERCISE, RIGHT, WRONG, attacks

from numpy_transformer.cli import main
from numpy_transformer.course.sandbox import best_layer
from numpy_transformer.grading.arrival.text import unusual

posix = pytest.mark.skipif(os.name != "posix", reason="processes and links of POSIX")

# More of them, in bytes or with odd names of students: {student: (file, statuses that are right for it)}
ODD = {
    "deep syntax": ("x = " + "-" * 90_000 + "1\n", {"error", "memory", "timeout"}),
    "latin": ("x = 'caf\xe9'\n".encode("latin-1") + WRONG.encode(), {"fail"}),
    "utf16": (WRONG.encode("utf-16"), {"fail"}),
    "zeros": (b"\0" * 5000, {"error"}),
    "empty": ("", {"error"}),
    "other name": (RIGHT.replace("def softmax_backward", "def softmax_backwards"), {"error"}),
    **{name: (WRONG, {"fail"}) for name in ("=2+5+cmd", "@SUM(1)", "+1", "line\nbreak\x1b[2J", "turned\u202e")},
}


# Hostile files whose note has to say what happened.
NAMES = ("flood in one line", "fills the disk", "fork", "loop", "memory", "exit at once", "imports the answer",
         "loads a library", "patched worker")
NOTED = {name: (attack.files[EXERCISE.file], attack.statuses) for name, attack in attacks().items() if name in NAMES}
ALL = {**NOTED, **ODD}
SAMPLE = {name: ALL[name] for name in ("exit at once", "fork", "imports the answer", "deep syntax", "other name",
                                       "line\nbreak\x1b[2J")}


def grade(folder, out, *options):
    """Rows by student, and what was printed."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        code = main(["grade", str(folder), "--out", str(out), "--only", "01.2", "--seed", "5", *options])
    assert code == 0, text.getvalue()
    with open(out, encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}, text.getvalue()


@pytest.fixture(scope="module", params=[pytest.param(SAMPLE, marks=pytest.mark.slow), pytest.param(ALL, marks=pytest.mark.slow)], ids=["sample", "all"])
def graded(request, tmp_path_factory):
    """The odd class with an honest student at each end, graded once: (folder, rows, text, what was left, class)."""
    if best_layer() is None:
        pytest.skip("no sandbox for students' programs on this machine")
    base = tmp_path_factory.mktemp("odd")
    folder = base / "class"
    for name, (source, _) in {**request.param, "anna": (RIGHT, {}), "zoe": (RIGHT, {})}.items():
        (folder / name).mkdir(parents=True)
        (folder / name / EXERCISE.file).write_bytes(source if isinstance(source, bytes) else source.encode())
    odd_files(folder)
    temporary = tempfile.mkdtemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", temporary)
        rows, text = grade(folder, base / "scores.csv", "--timeout", "2", "--jobs", "4", "--json",
                           str(base / "scores.json"), "--feedback", str(base / "feedback"))
    left = os.listdir(temporary)
    os.rmdir(temporary)
    return base, rows, text, left, request.param


def odd_files(folder):
    """Students whose file is no plain file of a moderate size."""
    for name in ("linked", "linked folder", "piped", "directory", "huge"):
        (folder / name).mkdir()
    (folder / "huge" / EXERCISE.file).write_text(RIGHT + "#" * (1 << 20), encoding="utf-8")
    (folder / "directory" / EXERCISE.file).mkdir()
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
@pytest.mark.slow
def test_no_odd_file_earns_a_point_and_each_gets_a_note(graded):
    for name, (_, statuses) in graded[4].items():
        row = graded[1][shown(name)]
        assert row["points"] == "0" and row["max"] == str(EXERCISE.points), row
        assert row["status"] in statuses, row
        assert row["note"] and row["note"].isprintable() and len(row["note"]) <= 600, row


@posix
@pytest.mark.parametrize("name, status, word", [
    ("linked", "error", "link"), ("linked folder", "error", "link"), ("piped", "error", "pipe"),
    ("directory", "missing", "no file"), ("huge", "error", "1 MB")])
def test_links_pipes_and_folders_are_not_graded_as_files(graded, name, status, word):
    row = graded[1][name]
    assert (row["points"], row["status"]) == ("0", status) and word in row["note"], row


@posix
def test_the_other_students_are_graded_as_usual(graded):
    base, rows, text, left, odd = graded
    for name in ("anna", "zoe"):
        assert rows[name]["status"] == "pass" and rows[name]["points"] == rows[name]["max"], rows[name]
    assert len(rows) == len(odd) + 7 and "2 of " in text
    assert not left, "temporary folders stayed behind"
    assert {path.name for path in base.iterdir()} == {"class", "scores.csv", "scores.json", "feedback", "scores.png"}
    assert (base / "class" / "anna" / EXERCISE.file).read_text(encoding="utf-8") == RIGHT


@posix
def test_no_control_characters_reach_a_terminal(graded):
    base, _, text, _, odd = graded
    everything = [path.read_text(encoding="utf-8") for path in (base / "feedback").iterdir()]
    assert len(everything) == len(odd) + 7
    assert not any(word in file for file in everything for word in ("\x1b", "\u202e"))
    assert "\x1b[2J" not in text and max(map(len, everything)) < 40_000
    students = json.loads((base / "scores.json").read_text(encoding="utf-8"))["students"]
    assert sum(student["points"] for student in students) == 2 * EXERCISE.points


@posix
def test_suspicious_names_are_reported_to_the_teacher(graded):
    for name, word in (("loads a library", "ctypes"), ("exit at once", "os"), ("fork", "os, time"),
                       ("patched worker", "sys")):
        if name in graded[4]:
            assert f"for you to look at: it imports {word}, which" in graded[1][name]["note"]


@posix
def test_the_note_says_what_stopped_a_program(graded):
    wanted = {"flood in one line": "prints or returns too much", "fills the disk": "64 MB",
              "fork": os.strerror(errno.EPERM), "loop": "stopped after 2 seconds", "memory": "memory",
              "exit at once": "ended early", "other name": "did you mean softmax_backwards?", "imports the answer": "use only NumPy"}
    there = wanted.keys() & graded[4].keys()
    assert len(there) == (len(wanted) if graded[4] is ALL else 4)
    for name in there:
        assert wanted[name] in graded[1][name]["note"], graded[1][name]


def test_suspicious_names_are_found_in_code_but_not_in_comments():
    source = ('"""open and exec"""\nimport numpy as np, os.path, sys as s\nfrom math import exp\n# eval\n'
              "def f(x): import pickle; return open\nfrom json import loads as eval_\n")
    assert unusual(source) == ["imports json, os, pickle, sys, which no exercise needs", "uses open"]
    assert unusual(RIGHT) == [] and unusual("import os\n(((((") == ["imports os, which no exercise needs"]
    assert unusual("x = f'open {exec} }'\ny = 'eval'\n") == ["uses exec"]
    assert unusual("from numpy_transformer.course.helpers import softmax\n") == []
    assert unusual("from numpy_transformer.course import exercises\n") == ["imports numpy_transformer, which no exercise needs"]
    for text in ("\0\0", "-" * 90_000, "(" * 90_000, "# coding: nonsense\n", "x = '\n", '"' * 99_999, "f'" * 50_000):
        unusual(text)
    assert unusual("#" * 200_000) == ["has more than 100 kB"]
