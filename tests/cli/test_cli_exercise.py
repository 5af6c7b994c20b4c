"""numpy-transformer exercise: from an empty folder to a pass, as a student goes."""

import os
import re
import subprocess
import sys
import threading
import time

import pytest
from helpers import ROOT
from helpers.commands import refused, run
from helpers.names import file_name

from numpy_transformer.course.checker.feedback import differences
from numpy_transformer.course.exercises import choose, exercises

BACKWARD = "ex01_2_softmax_backward.py"


@pytest.fixture
def folder(tmp_path, capsys):
    """A folder with the first two exercises."""
    code, out, err = run(capsys, "exercise", "start", tmp_path / "mine", "01.1", "1.2")
    assert code == 0 and err == "" and out.startswith("2 files written") and f"--folder {tmp_path / 'mine'}" in out
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"ex01_1_softmax.py", BACKWARD}
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
    code, out = check(capsys, folder, "01.2")
    assert code == 1 and re.match(r"01\.2 softmax_backward: TODO\n", out) and "hint 01.2" in out
    write(folder, "01.2", "SMB-1")
    code, out = check(capsys, folder, "01.2")
    assert code == 1 and re.match(r"01\.2 softmax_backward: FAIL \(values\)\n", out)
    for words in ("Case 1 of 5", "p (3, 5, 11), dp (3, 5, 11)", "worst entry", "relative error", "cosine",
                  "rows of dz must sum to 0", "DIAGNOSIS [SMB-1]", "sigmoid", "hint 01.2"):
        assert words in out
    assert "solution 01.2" not in out
    assert "try hint 01.2" in refused(capsys, "exercise", "solution", "01.2", "--folder", folder)
    write(folder, "01.2")
    code, out = check(capsys, folder, "01.2")
    assert code == 0 and re.match(r"01\.2 softmax_backward: PASS$", out, re.M) and "next: ex01_1_softmax.py" in out
    code, out, _ = run(capsys, "exercise", "solution", "01.2", "--folder", folder)
    assert code == 0 and "def softmax_backward(p, dp)" in out and "return p * (dp - " in out
    code, out = check(capsys, folder)                       # without a number: the next one
    assert code == 1 and out.startswith("01.1")
    code, out = check(capsys, folder, "all")
    assert code == 1 and out.endswith("1 of 2 passed\n")
    write(folder, "01.1")
    assert check(capsys, folder, "all")[0] == 0
    code, out = check(capsys, folder)
    assert code == 0 and "All 2 exercises" in out


@pytest.mark.slow
def test_hints_come_one_after_the_other(folder, capsys):
    exercise, seen = choose("01.2"), []
    for _ in range(4):
        code, out, _ = run(capsys, "exercise", "hint", "01.2", "--folder", folder)
        assert code == 0 and check(capsys, folder, "01.2")[0] == 1       # which forgets no hint
        seen.append([hint.split()[-1] in out for hint in exercise.hints])
    assert seen == [[True, False, False], [True, True, False], [True] * 3, [True] * 3]
    assert "3. " in run(capsys, "exercise", "hint", "01.1", "--all", "--folder", folder)[1]


def test_a_hint_needs_no_folder(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = run(capsys, "exercise", "hint", "01.2")[1]
    assert out.startswith("1. ") and "again in a folder with the exercises;" in " ".join(out.split())
    assert run(capsys, "exercise", "start", "mine", "01.2")[0] == 0
    out = run(capsys, "exercise", "hint", "01.2", "--folder", "mine")[1]
    assert "run the same command again; --all" in " ".join(out.split())


@pytest.mark.slow
def test_reset_keeps_what_was_there(folder, capsys):
    write(folder, "01.2")
    check(capsys, folder, "01.2")
    code, out, _ = run(capsys, "exercise", "reset", "01.2", "--folder", folder)
    assert code == 0 and BACKWARD + ".bak" in out
    assert (folder / f"{BACKWARD}.bak").read_text(encoding="utf-8") == choose("01.2").edited()
    assert (folder / BACKWARD).read_text(encoding="utf-8") == choose("01.2").skeleton()
    assert "not passed" in refused(capsys, "exercise", "solution", "01.2", "--folder", folder)
    assert check(capsys, folder, "01.2")[0] == 1
    assert ".bak" not in run(capsys, "exercise", "reset", "01.2", "--folder", folder)[1]      # there was nothing to keep
    write(folder, "01.2", "SMB-1")
    assert BACKWARD + ".bak1" in run(capsys, "exercise", "reset", "01.2", "--folder", folder)[1]
    assert (folder / f"{BACKWARD}.bak").read_text(encoding="utf-8") == choose("01.2").edited()


@pytest.mark.parametrize("text", ["1.2", "01.2", "01_2", "ex01_2", BACKWARD, f"some/where/{BACKWARD}", "ex1_2.py"])
def test_an_exercise_is_named_as_one_types_it(text):
    assert choose(text).name == "softmax_backward"


def test_several_exercises_are_checked_in_the_order_given(folder, capsys):
    out = check(capsys, folder, f"some/where/{BACKWARD},01.1", "ex01_2")[1]
    assert re.findall(r"^(\d\d\.\d) \w+: TODO$", out, re.M) == ["01.2", "01.1"]


@pytest.mark.slow
def test_the_number_of_a_lesson_means_all_of_its_exercises(tmp_path, capsys):
    assert run(capsys, "exercise", "start", tmp_path, "05", "17")[1].startswith("4 files written")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ex05_1_attention.py", "ex05_2_attention_backward.py", "ex05_3_scaling_in_the_figure.py", "ex17_1_online_softmax.py"]
    assert check(capsys, tmp_path, "5")[1].endswith("0 of 3 passed\n")
    assert "lesson 05 has the exercises 05.1, 05.2, 05.3; name one" in refused(
        capsys, "exercise", "hint", "05", "--folder", tmp_path)
    assert run(capsys, "exercise", "hint", "17", "--folder", tmp_path)[1].startswith("1. ")     # it has only one
    assert "lesson 18 has no exercises" in refused(capsys, "exercise", "check", "18", "--folder", tmp_path)


@pytest.mark.slow
def test_start_replaces_nothing(folder, capsys):
    write(folder, "01.2")
    code, out, _ = run(capsys, "exercise", "start", folder)
    assert code == 0 and "2 existed already" in out and f"{len(exercises()) - 2} files written" in out
    assert (folder / BACKWARD).read_text(encoding="utf-8") == choose("01.2").edited()
    for exercise in exercises().values():
        if exercise.number != "01.2":
            assert (folder / exercise.file).read_text(encoding="utf-8") == exercise.skeleton()


def test_the_list_tells_what_is_done(folder, capsys):
    write(folder, "01.2")
    check(capsys, folder, "01.2")
    code, out, _ = run(capsys, "exercise", "list", "--folder", folder)
    lines = {line[:4]: line for line in out.splitlines()}
    assert code == 0 and set(lines) == set(exercises())
    assert lines["01.2"].endswith("pass") and lines["01.1"].endswith("points")


def test_the_folder_is_found(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert run(capsys, "exercise", "check", "01.2")[0] == 1
    monkeypatch.chdir(folder.parent)
    assert "exercise start FOLDER" in refused(capsys, "exercise", "check", "01.2")


@pytest.mark.slow
@pytest.mark.parametrize("text, words", [
    ("def softmax_backward(p, dp:\n", "SyntaxError"),
    ("def softmax_backwards(p, dp):\n    return p\n", "did you mean softmax_backwards?"),
    ("def softmax_backward(p):\n    return p\n", "arguments"),
    ("import numpy_transformer\n", "only NumPy"),
    ("import sys\nsys.exit(0)\n", "SystemExit"),
    ("", "defines nothing"),
    ("def softmax_backward(p, dp):\n    breakpoint()\n", "breakpoint() does not work"),
    ("def softmax_backward(p, dp):\n    input()\n", "input() does not work"),
    ("def softmax_backward(p, dp):\n    print('seen', p.shape)\n    return p[0, 99]\n", "| seen (3, 5, 11)"),
    ("def softmax_backward(p, dp):\n    return [p]\n", "is a list"),
    ("def softmax_backward(p, dp):\n    return p + 0j\n", "not one of real numbers"),
    ("def softmax_backward(p, dp):\n    pass\n", "dz is None; is a return statement missing?"),
    ("class Late:\n    def __array__(self, *a, **k):\n        import os; os._exit(3)\n"
     "def softmax_backward(p, dp):\n    return Late()\n", "ended early (exit code 3)"),
    ("def softmax_backward(p, dp):\n\treturn p\n        #\n  x\n", "(line 4)"),
    ("x = 'Größe'\n".encode("latin-1").decode("utf-8", "surrogateescape"), "SyntaxError"),
])
def test_odd_files_get_a_line(folder, capsys, text, words):
    (folder / BACKWARD).write_bytes(text.encode("utf-8", "surrogateescape"))
    code, out = check(capsys, folder, "01.2")
    assert code == 1 and words in " ".join(out.split()) and "Traceback" not in out


@pytest.mark.slow
def test_what_a_file_prints_is_shown_up_to_twelve_lines(folder, capsys):
    write(folder, "01.2")
    with open(folder / BACKWARD, "a", encoding="utf-8") as file:
        file.write("for i in range(99):\n    print('line', i)\n")
    code, out = check(capsys, folder, "01.2")
    assert code == 0 and out.count("  | line ") == 12 and "  | ...\n" in out


@pytest.mark.slow
def test_an_endless_loop_ends(folder, capsys):
    (folder / BACKWARD).write_text("def softmax_backward(p, dp):\n    while True: pass\n", encoding="utf-8")
    code, out = check(capsys, folder, "01.2", "--timeout", "1")
    assert code == 1 and "TIMEOUT" in out and "stopped after 1 seconds; shortly before, it was in line 2. " in " ".join(
        out.split()) and "hints: numpy-transformer exercise hint 01.2" in out


@pytest.mark.slow
def test_another_seed_draws_other_cases(folder, capsys):
    write(folder, "01.2", "SMB-1")
    outs = [check(capsys, folder, "01.2", "--seed", seed)[1] for seed in (0, 0, 7)]
    assert outs[0] == outs[1] != outs[2] and all("[SMB-1]" in out for out in outs)


def wrong_bias(folder, wrong):
    """A linear layer whose bias gradient is wrong in this way."""
    right = choose("02.2").edited()
    assert right.count("self.bias.grad += drows.sum(0)") == 1
    (folder / choose("02.2").file).write_text(right.replace("self.bias.grad += drows.sum(0)", wrong), encoding="utf-8")


@pytest.mark.slow
def test_an_unknown_mistake_in_a_class_is_shown_by_differences(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("numpy_transformer.course.checker.localize.localize", lambda key, verdict, *rest: verdict)
    run(capsys, "exercise", "start", tmp_path, "02.2")
    wrong_bias(tmp_path, "self.bias.grad += (drows ** 3).sum(0) - dy.max() * drows.min(0)")
    code, out = check(capsys, tmp_path, "02.2")
    assert code == 1 and "DIAGNOSIS" not in out and "compared with your forward" in out
    table = {line.split()[0]: line for line in out.splitlines() if line.rstrip().endswith(("ok", "WRONG"))}
    assert [*table] == ["bias"] and table["bias"].endswith("WRONG")
    assert {path.suffix for path in tmp_path.iterdir()} == {".py", ".json"}     # no byte code


@pytest.mark.slow
def test_differences_are_shown_where_nothing_else_explains(tmp_path, capsys):
    run(capsys, "exercise", "start", tmp_path, "02.2")
    wrong_bias(tmp_path, "self.bias.grad += -drows.sum(0)")
    code, out = check(capsys, tmp_path, "02.2")
    assert code == 1 and "DIAGNOSIS bias.grad is the correct result times -1" in out and "compared with your forward" not in out
    write(tmp_path, "02.2", "LIN-7b")
    assert "compared with your forward" not in check(capsys, tmp_path, "02.2")[1]


def test_differences_survive_what_a_file_does(tmp_path, capsys):
    exercise, path = choose("02.2"), tmp_path / "mine.py"
    case = exercise.cases(0)[0]
    wrong_bias(tmp_path, "self.bias.grad -= drows.sum(0); print('seen'); self.weight.data[...] = 0")
    before = [array.copy() for array in case.arrays()]
    assert "bias" in differences(tmp_path / exercise.file, exercise, case) and capsys.readouterr() == ("", "")
    assert all((a == b).all() for a, b in zip(before, case.arrays()))
    for text in ("import sys\nsys.exit('so')\n", "raise ValueError('so')\n", "raise SystemExit('so')\n"):
        path.write_text(text, encoding="utf-8")
        told = differences(path, exercise, case)
        assert re.fullmatch("no gradient check of Linear: (SystemExit|ValueError): so", told)


@pytest.mark.parametrize("arguments, words", [
    (["check", "99"], "there is no exercise '99'"), (["check", "x"], "exercise list shows all of them"), (["check", "02.1"], "reset 02.1"),
    (["hint", "99"], "exercise list shows all of them"), (["hint", "all"], "no exercise 'all'"), (["reset", "all"], "no exercise 'all'"),
    (["check", "01.2", "all"], "no exercise 'all'"), (["check", "01.2", "--timeout", "0"], "at least 0.1"),
    (["check", "01.2", "--seed", "-1"], "at least 0")])
def test_bad_input(folder, capsys, arguments, words):
    assert words in refused(capsys, "exercise", *arguments, "--folder", folder)


@pytest.mark.parametrize("arguments, suggested", [(["80"], "my-exercises 80"), (["05.1", "05.2"], "my-exercises 05.1 05.2"),
                                                  (["ex05_1"], "my-exercises ex05_1")])
def test_a_number_is_not_taken_for_a_folder(tmp_path, capsys, monkeypatch, arguments, suggested):
    monkeypatch.chdir(tmp_path)
    assert suggested in refused(capsys, "exercise", "start", *arguments) and not list(tmp_path.iterdir())
    (tmp_path / "80").mkdir()                               # who has such a folder means it
    assert run(capsys, "exercise", "start", "80", "05.1")[0] == 0 and len(list((tmp_path / "80").iterdir())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("width", [60, 120])
def test_output_fits_the_terminal(folder, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    write(folder, "01.2", "SMB-1")
    run(capsys, "exercise", "start", folder, "02.2")
    outputs = [check(capsys, folder, "01.2")[1], run(capsys, "exercise", "list", "--folder", folder)[1],
               run(capsys, "exercise", "hint", "02.2", "--all", "--folder", folder)[1]]
    for output in outputs:
        assert 50 < max(map(len, output.splitlines())) <= width, output
    assert "".join(f"{exercise.title} " for exercise in exercises().values()).split() == [
        word for line in outputs[1].splitlines() for word in line[5:5 + min(52, width - 42)].split()]


@pytest.mark.parametrize("action", ["list", "start", "check", "watch", "hint", "reset", "solution"])
def test_help_fits_the_terminal_and_shows_no_python(capsys, monkeypatch, action):
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit):
        run(capsys, "exercise", action, "--help")
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 60 and "[]" not in text and "None" not in text


def test_a_file_is_no_folder(folder, capsys):
    assert "is a file" in refused(capsys, "exercise", "start", folder / BACKWARD)
    assert "exercise start" in refused(capsys, "exercise", "check", "01.2", "--folder", folder / "absent")


@pytest.mark.slow
def test_unreadable_progress_counts_as_no_progress(folder, capsys):
    for text in ("{", "[1]", '{"01.2": 3}', '{"01.2": {"hints": "x", "status": [1]}}', '{"01.2": {"hints": -7}}'):
        (folder / ".progress.json").write_text(text, encoding="utf-8")
        assert run(capsys, "exercise", "hint", "01.2", "--folder", folder)[1].startswith("1. ")
        (folder / ".progress.json").write_text(text, encoding="utf-8")
        assert check(capsys, folder, "01.2")[0] == 1 and run(capsys, "exercise", "list", "--folder", folder)[0] == 0


def test_feedback_is_given_even_if_progress_cannot_be_written(folder, capsys):
    (folder / ".progress.json.tmp").mkdir()                 # root may write into a folder without rights
    write(folder, "01.2")
    code, out = check(capsys, folder, "01.2")
    assert code == 0 and "PASS" in out and f"{folder} cannot be written to" in out and "--give-up" in out
    assert run(capsys, "exercise", "hint", "01.2", "--folder", folder)[0] == 0
    assert "--give-up" in refused(capsys, "exercise", "solution", "01.2", "--folder", folder)
    assert "return p * (dp - " in run(capsys, "exercise", "solution", "01.2", "--give-up", "--folder", folder)[1]


def test_commands_that_are_told_can_be_typed(tmp_path, capsys):
    out = run(capsys, "exercise", "start", tmp_path / file_name("한 글"), "01.2", "1.2")[1]
    assert out.startswith("1 file written") and out.endswith(f'exercise check 01.2 --folder "{tmp_path}/한 글"\n')
    write(tmp_path / "한 글", "01.2")
    code, out = check(capsys, tmp_path / "한 글", "01.2", "1.2")
    assert code == 0 and f'solution 01.2 --folder "{tmp_path}/한 글"' in out and out.count("PASS") == 1


@pytest.mark.parametrize("place", ["my-exercises", pytest.param("exercises", marks=pytest.mark.slow)])
def test_the_folder_is_found_below(tmp_path, capsys, monkeypatch, place):
    run(capsys, "exercise", "start", tmp_path / place, "01.2")
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "exercise", "check", "01.2")[0] == 1


@pytest.mark.slow
def test_watch_checks_a_file_that_is_saved(folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen([sys.executable, "-m", "numpy_transformer", "exercise", "watch", "--folder", str(folder),
                              "--every", "0.05"], stdout=subprocess.PIPE, text=True, env=environment)
    limit = threading.Timer(60, child.kill)                 # readline then returns nothing
    limit.start()
    try:
        assert child.stdout.readline().startswith("Watching")
        time.sleep(0.2)
        (folder / "ex01_1_softmax.py").unlink()
        (folder / "ex01_1_softmax.py").mkdir()                # it is no file any more
        assert "there is no" in child.stdout.readline()
        write(folder, "01.2", "SMB-2")
        lines = []
        while not any("[SMB-2]" in line for line in lines):
            lines.append(child.stdout.readline())
            assert lines[-1], "watch ended"
        for _ in range(2):                                  # the second time as it was, and of the same size
            write(folder, "01.2")
            lines.append("")
            while "PASS" not in lines[-1]:
                lines.append(child.stdout.readline())
                assert lines[-1], "watch ended"
    finally:
        limit.cancel()
        child.kill()
        child.wait()


def test_an_error_in_every_case_is_named_though_the_child_tells_its_line(tmp_path, capsys):
    run(capsys, "exercise", "start", tmp_path, "08.3")
    write(tmp_path, "08.3", "LN-20f")
    code, out = check(capsys, tmp_path, "08.3")
    assert code == 1 and "(line " in out and "DIAGNOSIS [LN-20b] " in out


def test_a_number_of_python_is_as_good_as_one_of_float32(tmp_path, capsys):
    run(capsys, "exercise", "start", tmp_path, "01.3")
    path = tmp_path / choose("01.3").file
    path.write_text(choose("01.3").edited().replace("def cross_entropy(", "def inner(")
                    + "\n\ndef cross_entropy(*arguments):\n    return float(inner(*arguments))\n", encoding="utf-8")
    assert check(capsys, tmp_path, "01.3")[0] == 0
