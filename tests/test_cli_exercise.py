"""numpy-transformer exercise: from an empty folder to a pass, as a student goes."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import refused, run

from numpy_transformer.classroom.exercises import choose, exercises

BACKWARD = "ex02_softmax_backward.py"


@pytest.fixture
def folder(tmp_path, capsys):
    """A folder with the first two exercises."""
    code, out, err = run(capsys, "exercise", "start", tmp_path / "mine", "01", "2")
    assert code == 0 and err == "" and out.startswith("2 files written") and f"--folder {tmp_path / 'mine'}" in out
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"ex01_softmax.py", BACKWARD}
    return tmp_path / "mine"


def write(folder, number, *mistakes):
    """The solution with these mistakes, as the student's file."""
    exercise = choose(number)
    edits = [mistake.edits for mistake in exercise.mistakes if mistake.name in mistakes]
    assert len(edits) == len(mistakes)
    (folder / exercise.file).write_text(exercise.edited(*edits), encoding="utf-8")


def check(capsys, folder, *arguments):
    code, out, err = run(capsys, "exercise", "check", *arguments, "--folder", folder)
    assert err == ""
    return code, out


def test_from_todo_over_a_named_mistake_to_a_pass(folder, capsys):
    code, out = check(capsys, folder, "02")
    assert code == 1 and re.match(r"ex02 softmax_backward +TODO   \(stage: TODO\)", out)
    write(folder, "02", "SMB-1")
    code, out = check(capsys, folder, "02")
    assert code == 1 and re.match(r"ex02 softmax_backward +FAIL   \(stage: values\)", out)
    for words in ("case 1 of 5", "p (3, 5, 11), dp (3, 5, 11)", "worst entry", "relative error", "cosine",
                  "rows of dz must sum to 0", "DIAGNOSIS [SMB-1]", "sigmoid", "hint 02"):
        assert words in out
    assert "solution 02" not in out and "try hint 02" in refused(capsys, "exercise", "solution", "02", "--folder", folder)
    write(folder, "02")
    code, out = check(capsys, folder, "02")
    assert code == 0 and re.match(r"ex02 softmax_backward +PASS$", out, re.M) and "next: ex01_softmax.py" in out
    code, out, _ = run(capsys, "exercise", "solution", "02", "--folder", folder)
    assert code == 0 and "def softmax_backward(p, dp)" in out and "return p * (dp - " in out
    code, out = check(capsys, folder)                       # without a number: the next one
    assert code == 1 and out.startswith("ex01")
    write(folder, "01")
    assert check(capsys, folder, "all")[0] == 0
    code, out = check(capsys, folder)
    assert code == 0 and "All 2 exercises" in out


def test_hints_come_one_after_the_other(folder, capsys):
    exercise, seen = choose("02"), []
    for _ in range(4):
        code, out, _ = run(capsys, "exercise", "hint", "02", "--folder", folder)
        assert code == 0
        seen.append([hint.split()[-1] in out for hint in exercise.hints])
    assert seen == [[True, False, False], [True, True, False], [True] * 3, [True] * 3]
    assert "3. " in run(capsys, "exercise", "hint", "01", "--all", "--folder", folder)[1]


def test_a_hint_needs_no_folder(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "exercise", "hint", "02")[1].startswith("1. ")


def test_reset_keeps_what_was_there(folder, capsys):
    write(folder, "02")
    check(capsys, folder, "02")
    code, out, _ = run(capsys, "exercise", "reset", "02", "--folder", folder)
    assert code == 0 and BACKWARD + ".bak" in out
    assert (folder / f"{BACKWARD}.bak").read_text(encoding="utf-8") == choose("02").edited()
    assert (folder / BACKWARD).read_text(encoding="utf-8") == choose("02").skeleton()
    assert check(capsys, folder, "02")[0] == 1


def test_start_replaces_nothing(folder, capsys):
    write(folder, "02")
    code, out, _ = run(capsys, "exercise", "start", folder)
    assert code == 0 and "2 were there already" in out and f"{len(exercises()) - 2} files written" in out
    assert (folder / BACKWARD).read_text(encoding="utf-8") == choose("02").edited()
    for exercise in exercises().values():
        if exercise.number != "02":
            assert (folder / exercise.file).read_text(encoding="utf-8") == exercise.skeleton()


def test_the_list_tells_what_is_done(folder, capsys):
    write(folder, "02")
    check(capsys, folder, "02")
    code, out, _ = run(capsys, "exercise", "list", "--folder", folder)
    lines = {line[:2]: line for line in out.splitlines()}
    assert code == 0 and set(lines) == set(exercises())
    assert lines["02"].endswith("pass") and lines["01"].endswith("points")


def test_the_folder_is_found(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert run(capsys, "exercise", "check", "02")[0] == 1
    monkeypatch.chdir(folder.parent)
    assert "exercise start FOLDER" in refused(capsys, "exercise", "check", "02")


@pytest.mark.parametrize("text, words", [
    ("def softmax_backward(p, dp:\n", "SyntaxError"),
    ("def softmax_backwards(p, dp):\n    return p\n", "did you mean softmax_backwards?"),
    ("def softmax_backward(p):\n    return p\n", "arguments"),
    ("import numpy_transformer\n", "NumPy alone"),
    ("import sys\nsys.exit(0)\n", "SystemExit"),
    ("", "defines nothing"),
    ("def softmax_backward(p, dp):\n    print('seen', p.shape)\n    return p[0, 99]\n", "| seen (3, 5, 11)"),
    ("def softmax_backward(p, dp):\n    return [p]\n", "is a list"),
    ("x = 'Größe'\n".encode("latin-1").decode("utf-8", "surrogateescape"), "SyntaxError"),
])
def test_odd_files_get_a_line(folder, capsys, text, words):
    (folder / BACKWARD).write_bytes(text.encode("utf-8", "surrogateescape"))
    code, out = check(capsys, folder, "02")
    assert code == 1 and words in " ".join(out.split()) and "Traceback" not in out


def test_an_endless_loop_ends(folder, capsys):
    (folder / BACKWARD).write_text("def softmax_backward(p, dp):\n    while True: pass\n", encoding="utf-8")
    code, out = check(capsys, folder, "02", "--timeout", "0.5")
    assert code == 1 and "TIMEOUT" in out and "stopped after" in out


def test_an_unknown_mistake_in_a_class_is_shown_by_differences(tmp_path, capsys):
    run(capsys, "exercise", "start", tmp_path, "06")
    right = choose("06").edited()
    assert right.count("self.bias.grad += ") == 1
    (tmp_path / choose("06").file).write_text(right.replace("self.bias.grad += ", "self.bias.grad += dy.max() + "),
                                            encoding="utf-8")
    code, out = check(capsys, tmp_path, "06")
    assert code == 1 and "DIAGNOSIS" not in out
    table = {line.split()[0]: line for line in out.splitlines() if line.rstrip().endswith(("ok", "WRONG"))}
    assert table["weight"].endswith("ok") and table["bias"].endswith("WRONG") and table["x"].endswith("ok")


@pytest.mark.parametrize("arguments, words", [
    (["check", "99"], "there is no exercise '99'"), (["check", "x"], "choose one of"), (["hint", "99"], "choose one of"),
    (["check", "05"], "reset 05"), (["check", "02", "--timeout", "0"], "at least 0.1"),
    (["check", "02", "--seed", "-1"], "at least 0")])
def test_bad_input(folder, capsys, arguments, words):
    assert words in refused(capsys, "exercise", *arguments, "--folder", folder)


def test_a_file_is_no_folder(folder, capsys):
    assert "is a file" in refused(capsys, "exercise", "start", folder / BACKWARD)
    assert "exercise start" in refused(capsys, "exercise", "check", "02", "--folder", folder / "absent")


def test_progress_that_cannot_be_read_is_none(folder, capsys):
    for text in ("{", "[1]", '{"02": 3}'):
        (folder / ".progress.json").write_text(text, encoding="utf-8")
        assert check(capsys, folder, "02")[0] == 1


def test_watch_checks_a_file_that_is_saved(folder):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen([sys.executable, "-m", "numpy_transformer", "exercise", "watch", "--folder", str(folder),
                              "--every", "0.05"], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert child.stdout.readline().startswith("Watching")
        time.sleep(0.2)
        write(folder, "02", "SMB-2")
        lines = []
        while not any("[SMB-2]" in line for line in lines):
            lines.append(child.stdout.readline())
            assert lines[-1], "watch ended"
        write(folder, "02")
        while "PASS" not in lines[-1]:
            lines.append(child.stdout.readline())
            assert lines[-1], "watch ended"
    finally:
        child.kill()
        child.wait()
