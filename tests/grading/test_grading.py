"""numpy-transformer grade: a class from its folder to the table, the feedback and the picture."""

import csv
import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import refused, run
from helpers.names import file_name
from helpers.processes import alive, descendants, wait_until
from helpers.quick import quick
from helpers.students import write_class
from PIL import Image

import numpy_transformer
from numpy_transformer import views
from numpy_transformer.cli import grade as command
from numpy_transformer.course.exercises import choose, exercises
from numpy_transformer.course.exercises.observation import Observation
from numpy_transformer.course.sandbox import NO_LAYER, Layer, ProgramRun
from numpy_transformer.grading import grader, report
from numpy_transformer.grading.arrival import File, Problem, Student
from numpy_transformer.grading.grader import Grader
from numpy_transformer.grading.journal import Journal
from numpy_transformer.grading.rows import Row, digest_of, row_without_file, unreadable, with_arrival

SOFTMAX, BACKWARD = choose("01.1"), choose("01.2")
posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
SANDBOX = [] if command.best_layer() else ["--trust-students", "--allow-root"]
COLUMNS = ["student", "exercise", "status", "points", "max", "misconception", "seconds", "note"]


def grade(capsys, folder, out, *options, code=0, picture=False):
    """Rows of the table, standard output and standard error; the picture is drawn if it is asked for."""
    with pytest.MonkeyPatch.context() as patch:
        if not picture:
            patch.setattr("numpy_transformer.views.write_figure", lambda figure, path: path)
        got, text, error = run(capsys, "grade", folder, "--out", out, *SANDBOX, *options)
    assert got == code, error
    return table(out) if code == 0 else None, text, error


def table(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def hand_in(folder, exercise, *mistakes, source=None, name=None):
    """Write a student's file: the solution with these mistakes, or the source."""
    edits = [mistake.edits for mistake in exercise.mistakes if mistake.name in mistakes]
    assert len(edits) == len(mistakes)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or exercise.file)
    path.write_text(exercise.edited(*edits) if source is None else source, encoding="utf-8")
    return path


@pytest.fixture
def school(tmp_path):
    """Three students, two exercises: all right; one mistake and one skeleton; the same mistake, one file missing."""
    hand_in(tmp_path / "class" / "ada", SOFTMAX)
    hand_in(tmp_path / "class" / "ada", BACKWARD)
    hand_in(tmp_path / "class" / "Ben", SOFTMAX, source=SOFTMAX.skeleton())
    hand_in(tmp_path / "class" / "Ben" / "exercises", BACKWARD, "SMB-1")
    hand_in(tmp_path / "class" / file_name("Zoë"), BACKWARD, "SMB-1")
    (tmp_path / "class" / ".git").mkdir()
    return tmp_path / "class"


def test_a_class_is_graded_named_and_drawn(school, tmp_path, capsys):
    rows, text, error = grade(capsys, school, tmp_path / "scores.csv", "--seed", "7", "--feedback",
                              tmp_path / "feedback", "--json", tmp_path / "scores.json", picture=True)
    assert list(rows[0]) == COLUMNS
    assert [(row["student"], row["exercise"], row["status"], row["misconception"]) for row in rows] == [
        ("Ben", "ex01_1_softmax", "todo", ""), ("Ben", "ex01_2_softmax_backward", "fail", "SMB-1"),
        ("Zoë", "ex01_1_softmax", "missing", ""), ("Zoë", "ex01_2_softmax_backward", "fail", "SMB-1"),
        ("ada", "ex01_1_softmax", "pass", ""), ("ada", "ex01_2_softmax_backward", "pass", "")]
    for row in rows:
        exercise = SOFTMAX if "ex01_1" in row["exercise"] else BACKWARD
        assert int(row["max"]) == exercise.points and int(row["points"]) == exercise.points * (row["status"] == "pass")
    assert "3 students, 2 exercises, seed 7" in error and "The seed 7 is kept in" in " ".join(text.split())
    assert re.search(r"2 x SMB-1 in ex01_2_softmax_backward\n +This is the derivative of the sigmoid", text)
    found = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert found["seed"] == 7 and set(found["versions"]) == {"numpy", "python", "numpy_transformer"}
    assert found["summary"]["mistakes"][0]["count"] == 2 and found["summary"]["exercises"]["ex01_1_softmax"]["todo"] == 1
    ada = found["students"][2]
    assert (ada["student"], ada["status"], ada["points"], ada["max"]) == ("ada", "pass", 4, 4)
    assert [test["name"] for test in ada["tests"]] == ["ex01_1_softmax", "ex01_2_softmax_backward"]
    assert sorted(os.listdir(tmp_path / "feedback")) == ["Ben.txt", "Zoë.txt", "ada.txt"]
    words = (tmp_path / "feedback" / "Ben.txt").read_text(encoding="utf-8")
    assert re.search(r"^01\.2 softmax_backward: FAIL \(values\)$", words, re.M) and "DIAGNOSIS [SMB-1]" in words
    assert "0 of 4 points" in words and "SMB" not in (tmp_path / "feedback" / "ada.txt").read_text(encoding="utf-8")
    assert np.asarray(Image.open(tmp_path / "scores.png").convert("L")).std() > 10
    assert not (tmp_path / "scores.csv.part").exists()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_and_the_old_table_is_kept(school, tmp_path, capsys):
    hand_in(school / "dora", BACKWARD, source="import numpy as np\nimport random\n"
            "def softmax_backward(p, dp):\n    return dp * np.random.rand() + random.random()\n")
    texts = []
    for jobs in ("1", "3"):
        grade(capsys, school, tmp_path / "scores.csv", "--seed", "11", "--jobs", jobs, "--only", "01.2")
        rows = table(tmp_path / "scores.csv")
        for row in rows:
            row["seconds"] = ""
        texts.append(rows)
    assert texts[0] == texts[1] and table(tmp_path / "scores.csv.bak") != []
    assert b"\r" not in (tmp_path / "scores.csv").read_bytes()


@pytest.mark.slow
def test_without_a_seed_a_random_one_is_drawn_and_kept(school, tmp_path, capsys):
    def seed(name):
        return re.search(r"seed (\d+)", grade(capsys, school, tmp_path / name, "--only", "1.1")[2])[1]

    first = seed("scores.csv")
    assert seed("other.csv") != first == seed("scores.csv")
    assert json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["seed"] == int(first)


@pytest.mark.slow
def test_single_files_and_names_of_learning_platforms(tmp_path, capsys):
    folder = tmp_path / "files"
    hand_in(folder, BACKWARD, name="Kim_12345_assignsubmission_file_ex01_2_softmax_backward.py")
    hand_in(folder, SOFTMAX, name="Kim_12345_assignsubmission_file_ex01_1_softmax.py")
    hand_in(folder, BACKWARD, "SMB-2", name="Alex_ex1_2.py")
    rows = grade(capsys, folder, tmp_path / "scores.csv")[0]
    assert [(row["student"], row["exercise"][:6], row["status"]) for row in rows] == [
        ("Alex", "ex01_1", "missing"), ("Alex", "ex01_2", "fail"),
        ("Kim", "ex01_1", "pass"), ("Kim", "ex01_2", "pass")]
    assert not (tmp_path / "scores.csv.bak").exists()


@pytest.mark.slow
def test_with_one_exercise_a_file_may_have_the_name_of_the_student(tmp_path, capsys):
    folder = tmp_path / "files"
    hand_in(folder, BACKWARD, name="kim.py")
    hand_in(folder, BACKWARD, "SMB-8", name="lee.py")
    rows = grade(capsys, folder, tmp_path / "scores.csv", "--only", "1.2")[0]
    assert [(row["student"], row["status"], row["misconception"]) for row in rows] == [("kim", "pass", ""),
                                                                                       ("lee", "fail", "SMB-8")]


@pytest.mark.slow
def test_warnings_for_the_teacher_are_not_shown_to_the_student(tmp_path, capsys):
    hand_in(tmp_path / "class" / "kim", BACKWARD, source="import gc\n" + BACKWARD.edited())
    hand_in(tmp_path / "class" / "lee", BACKWARD, source="from helper import right\n" + BACKWARD.edited())
    hand_in(tmp_path / "class" / "lee", BACKWARD, source="right = 1\n", name="helper.py")
    rows, text, _ = grade(capsys, tmp_path / "class", tmp_path / "scores.csv", "--feedback", tmp_path / "feedback")
    assert [row["status"] for row in rows] == ["pass", "pass"] and "imports gc" in rows[0]["note"]
    assert "note says why): kim ex01_2_softmax_backward\n" in text and rows[1]["note"] == ""
    assert "gc" not in (tmp_path / "feedback" / "kim.txt").read_text(encoding="utf-8")


@pytest.mark.slow
def test_unknown_wrong_answers_that_students_share_are_reported(tmp_path, capsys):
    source = "def softmax_backward(p, dp):\n    return {} * p * p * dp\n"
    for name, factor in (("kim", 3), ("lee", 3.0000000000001), ("max", 7)):
        hand_in(tmp_path / "class" / name, BACKWARD, source=source.format(factor))
    _, text, _ = grade(capsys, tmp_path / "class", tmp_path / "scores.csv", "--json", tmp_path / "scores.json")
    clusters = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["summary"]["clusters"]
    assert [cluster["students"] for cluster in clusters] == [["kim", "lee"]]
    assert "2 x ex01_2_softmax_backward (kim, lee):" in text


@pytest.mark.parametrize("case", ["no folder", "empty", "the exercises", "no exercise", "unknown", "out",
                                  "out is a folder", "picture", "feedback inside", "one place", "feedback is a file",
                                  "root"])
def test_what_cannot_be_graded_is_refused_in_a_line_and_nothing_is_lost(case, tmp_path, capsys, monkeypatch):
    folder, out, options = tmp_path / "class", tmp_path / "scores.csv", SANDBOX
    old = ",".join(COLUMNS) + "\n"
    out.write_text(old, encoding="utf-8")
    hand_in(folder / file_name("Zoé"), BACKWARD)
    if case == "no folder":
        folder, word = tmp_path / "none", "no folder"
    elif case == "empty":
        (tmp_path / "other").mkdir()
        folder, word = tmp_path / "other", "contains no student's folder"
    elif case == "the exercises":
        folder, word = folder / "Zoé", "name the folder above it"
    elif case == "no exercise":
        (folder / "Zoé" / BACKWARD.file).unlink()
        hand_in(folder / "Zoé", BACKWARD, source="x = 1\n", name="other.py")
        word = "--only"
    elif case == "unknown":
        options, word = [*options, "--only", "01.2,97"], "'97'"
    elif case == "out":
        out, word = tmp_path / "none" / "scores.csv", "name a file in an existing folder"
    elif case == "out is a folder":
        out, word = folder, "it is a folder"
    elif case == "picture":
        options, word = [*options, "--picture", tmp_path / "mistakes.txt"], ".png"
    elif case == "one place":
        options, word = [*options, "--json", out], "same name"
    elif case == "feedback is a file":
        options, word = [*options, "--feedback", folder / "Zoé" / BACKWARD.file], "is a file"
    elif case == "feedback inside":
        options, word = [*options, "--feedback", folder / "feedback"], "would be taken for a student"
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
        options, word = ["--trust-students"], "--allow-root"
    before = sorted(tmp_path.rglob("*"))
    assert word in refused(capsys, "grade", folder, "--out", out, *options)
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "scores.csv").read_text(encoding="utf-8") == old


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_refused(school, tmp_path, capsys):
    path = school / "ada" / BACKWARD.file
    for item in (path, path.parent):
        item.chmod(0)
        assert "change its permissions" in refused(capsys, "grade", school, "--out", tmp_path / "scores.csv")
        item.chmod(0o700)


class Counted:
    """grader.run_files, counting the files that run, and interrupted after `most` of them."""

    def __init__(self, monkeypatch, most=99):
        self.run_files, self.count, self.most = grader.run_files, 0, most
        monkeypatch.setattr(grader, "run_files", self)

    def __call__(self, files, tasks, *arguments):
        for run in self.run_files(files, tasks, *arguments):
            self.count += 1
            if self.count > self.most:
                raise KeyboardInterrupt
            yield run


@pytest.mark.slow
def test_an_interrupted_grading_goes_on(school, tmp_path, capsys, monkeypatch):
    out, options = tmp_path / "scores.csv", ("--jobs", "1", "--seed", "3")
    with monkeypatch.context() as patch:
        Counted(patch, 2)
        _, _, error = grade(capsys, school, out, *options, code=130)
    assert re.search(r"\d of 6 rows are saved in .*scores.csv.part; run the same command again to resume", error)
    kept = (tmp_path / "scores.csv.part").read_text(encoding="utf-8").splitlines()
    assert len(kept) >= 3 and not out.exists()
    with open(tmp_path / "scores.csv.part", "a", encoding="utf-8") as file:
        file.write('{"student": "Zo')                       # the machine went down in the midst of a line
    assert "seed 3, not 4" in refused(capsys, "grade", school, "--out", out, "--seed", "4")
    assert "timeout 10.0, not 9.0" in refused(capsys, "grade", school, "--out", out, "--timeout", "9")
    with monkeypatch.context() as patch:
        counted = Counted(patch)
        rows, _, error = grade(capsys, school, out, "--jobs", "1")              # the journal holds the seed
    assert "resuming an interrupted run: 2 files" in error and "seed 3" in error and counted.count == 5 - 2
    grade(capsys, school, tmp_path / "whole.csv", *options)
    whole = table(tmp_path / "whole.csv")
    assert [{**row, "seconds": ""} for row in rows] == [{**row, "seconds": ""} for row in whole]
    assert not (tmp_path / "scores.csv.part").exists()


@pytest.mark.slow
def test_a_file_that_was_changed_meanwhile_is_graded_again(school, tmp_path, capsys, monkeypatch):
    out = tmp_path / "scores.csv"
    with monkeypatch.context() as patch:
        patch.setattr(command.grade_outputs, "publish", interrupted)      # all is graded, nothing written
        grade(capsys, school, out, "--seed", "3", code=130)
    hand_in(school / "Ben" / "exercises", BACKWARD, "SMB-8")
    with monkeypatch.context() as patch:
        counted = Counted(patch)
        rows = grade(capsys, school, out)[0]
    assert counted.count == 2               # both of Ben's files, because one may import the other
    assert [row["misconception"] for row in rows if row["student"] == "Ben"] == ["", "SMB-8"]


@pytest.mark.slow
def test_a_disk_that_fills_up_costs_no_row(tmp_path, capsys, monkeypatch):
    for name in ("ada", "ben", "cem"):
        hand_in(tmp_path / "class" / name, BACKWARD, source="")
    add = Journal.add

    def full(journal, row):
        if row.student == "cem":
            raise OSError(errno.ENOSPC, "No space left on device")
        add(journal, row)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", full)
        command_line = ["grade", tmp_path / "class", "--out", tmp_path / "scores.csv", "--jobs", "1", *SANDBOX]
        code, _, error = run(capsys, *command_line)
    assert code == 2 and "No space left on device: 2 of 3 rows are saved in" in error and "again to resume" in error
    with monkeypatch.context() as patch:
        counted = Counted(patch)
        assert len(grade(capsys, tmp_path / "class", tmp_path / "scores.csv")[0]) == 3 and counted.count == 1


@pytest.mark.parametrize("name", quick(1, ["scores.json", "scores.csv", "scores.png"]))
def test_a_disk_that_is_full_at_the_end_names_the_missing_file(name, tmp_path, capsys, monkeypatch):
    hand_in(tmp_path / "class" / "ada", BACKWARD, source="")
    command_line = ["grade", tmp_path / "class", "--out", tmp_path / "scores.csv", *SANDBOX]
    place, kept = ("numpy_transformer.views.write_figure", None) if name.endswith("png") else (
        "numpy_transformer.grading.files.os.fsync", os.fsync)

    def full(file, *_):
        if kept is None or name in os.readlink(f"/proc/self/fd/{file}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        kept(file)

    with monkeypatch.context() as patch:
        patch.setattr(place, full)
        code, _, error = run(capsys, *command_line)
    assert code == 2 and f"{name} is missing (No space left on device)" in error and "same command again" in error
    assert not (tmp_path / name).exists() and (tmp_path / "scores.csv.part").exists()
    with monkeypatch.context() as patch:
        counted = Counted(patch)
        grade(capsys, tmp_path / "class", tmp_path / "scores.csv")
    assert counted.count == 0 and not (tmp_path / "scores.csv.part").exists()
    assert (tmp_path / name).exists() or name.endswith("png")              # these tests draw no pictures


@pytest.mark.slow
def test_grading_one_student_keeps_the_others_of_an_interrupted_run(school, tmp_path, capsys, monkeypatch):
    out = tmp_path / "scores.csv"
    with monkeypatch.context() as patch:
        patch.setattr(command.grade_outputs, "publish", interrupted)
        grade(capsys, school, out, code=130)
    rows, _, error = grade(capsys, school, out, "--students", "ada")
    assert len(rows) == 2 and "3 rows of an interrupted run stay in" in error
    with monkeypatch.context() as patch:
        counted = Counted(patch)
        assert len(grade(capsys, school, out)[0]) == 6 and counted.count == 0
    assert not (tmp_path / "scores.csv.part").exists()


def interrupted(*_):
    raise KeyboardInterrupt


def test_a_file_that_is_no_journal_stays(school, tmp_path, capsys):
    part = tmp_path / "scores.csv.part"
    for text in ("my notes\n", "[]\n", ""):
        part.write_text(text, encoding="utf-8")
        assert "not the journal" in refused(capsys, "grade", school, "--out", tmp_path / "scores.csv")
        assert part.read_text(encoding="utf-8") == text


def start(folder, *options):
    """Grade folder/class in a process of its own, temporary files in folder/temporary."""
    (folder / "temporary").mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(numpy_transformer.__file__).parents[1]),
                   "TMPDIR": str(folder / "temporary")}
    return subprocess.Popen([sys.executable, "-m", "numpy_transformer", "grade", "class", *SANDBOX, *options],
                            cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def entries(path, kind):
    """Entries of the journal, such as those of kind "row"."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line.partition(" ")[2]) for line in lines]
    return [entry[kind] for entry in found if kind in entry]


def running(folder, name):
    """True once this student's file has been started, and nothing else is to do."""
    part = folder / "scores.csv.part"
    started = [entry[0] for entry in entries(part, "started")]
    return name in started and len(started) - len(entries(part, "row")) == 1


@pytest.mark.slow
@posix
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_keeps_what_is_graded_and_leaves_nothing_behind(number, tmp_path):
    hand_in(tmp_path / "class" / "ada", BACKWARD)
    hand_in(tmp_path / "class" / "ben", BACKWARD, source="import time\ntime.sleep(50)\n")
    process = start(tmp_path)
    wait_until(lambda: running(tmp_path, "ben"))
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130 and "1 of 2 rows are saved in scores.csv.part" in error, error
    assert "Traceback" not in error and not os.listdir(tmp_path / "temporary")
    part = tmp_path / "scores.csv.part"
    assert [(row["student"], row["status"]) for row in entries(part, "row")] == [("ada", "pass")]
    assert entries(part, "ended") == ["interrupted"]        # ben is not to blame


@posix
@pytest.mark.slow
def test_a_killed_grader_leaves_no_process_and_skips_the_file_that_was_running(tmp_path):
    hand_in(tmp_path / "class" / "ada", BACKWARD)
    sleeper = hand_in(tmp_path / "class" / "ben", BACKWARD, source="import time\ntime.sleep(50)\n")
    process = start(tmp_path, "--jobs", "1", "--timeout", "20")
    wait_until(lambda: running(tmp_path, "ben"))
    children = descendants(process.pid)
    process.kill()
    process.communicate()
    wait_until(lambda: not any(map(alive, children)))
    again = start(tmp_path)
    _, error = again.communicate(timeout=60)
    assert again.returncode == 2 and "timeout 20.0, not 10.0" in error
    _, error = start(tmp_path, "--timeout", "20").communicate(timeout=60)
    assert "resuming an interrupted run: 1 files are graded already" in error, error
    assert "not run again without --retry: ben 01.2" in error
    rows = table(tmp_path / "scores.csv")
    assert [entry["status"] for entry in rows] == ["pass", "error"] and "--retry" in rows[1]["note"]
    assert sleeper.exists()


@posix
@pytest.mark.slow
@pytest.mark.parametrize("how", ["--retry", "changed"])
def test_the_file_that_was_running_is_tried_again_if_told_to_or_changed(how, tmp_path, capsys, monkeypatch):
    hand_in(tmp_path / "class" / "ben", BACKWARD, "SMB-1")
    out, options = tmp_path / "scores.csv", []
    with monkeypatch.context() as patch:                    # the grader is killed while the file runs
        patch.setattr(Journal, "close", lambda journal: journal.file.close())
        Counted(patch, 0)
        grade(capsys, tmp_path / "class", out, code=130)
    if how == "changed":
        hand_in(tmp_path / "class" / "ben", BACKWARD)
    else:
        options = ["--retry"]
    rows = grade(capsys, tmp_path / "class", out, *options)[0]
    assert [row["status"] for row in rows] == ["pass" if how == "changed" else "fail"]


@pytest.mark.slow
def test_one_student_or_one_exercise_is_graded_again_into_the_table(school, tmp_path, capsys):
    out, whole = tmp_path / "scores.csv", tmp_path / "whole.csv"
    grade(capsys, school, out)
    seed = json.loads(whole.with_name("scores.json").read_text(encoding="utf-8"))["seed"]
    hand_in(school / "Ben", SOFTMAX)
    hand_in(school / "Ben" / "exercises", BACKWARD)
    rows, text, _ = grade(capsys, school, out, "--students", "Ben", "--only", "01.1", "--feedback", tmp_path / "feedback")
    assert [(row["student"], row["exercise"][:6], row["status"]) for row in rows] == [
        ("Ben", "ex01_1", "pass"), ("Ben", "ex01_2", "fail"), ("Zoë", "ex01_1", "missing"), ("Zoë", "ex01_2", "fail"),
        ("ada", "ex01_1", "pass"), ("ada", "ex01_2", "pass")]
    assert text.startswith("Ben, ex01_1_softmax: pass, 2 of 2 points\n\n3 of 6 passed") and sorted(os.listdir(tmp_path / "feedback")) == ["Ben.txt", "Zoë.txt", "ada.txt"]
    grade(capsys, school, out, "--students", "Ben,ada")
    grade(capsys, school, whole, "--seed", str(seed))
    assert stable(out) == stable(whole)         # as if all had been graded at once
    assert "no student 'Bem'" in refused(capsys, "grade", school, "--out", out, "--students", "Bem", *SANDBOX)
    said = refused(capsys, "grade", school, "--out", out, "--students", "Ben", "--seed", str(seed + 1), *SANDBOX)
    assert f"was graded with seed {seed}, not {seed + 1}" in said


def stable(path):
    """The table and the JSON beside it, without the seconds."""
    found = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    for student in found["students"]:
        for test in student["tests"]:
            del test["seconds"]
    return [{**row, "seconds": ""} for row in table(path)], found


@pytest.mark.slow
def test_joined_parts_are_the_same_as_one_run(tmp_path, capsys):
    write_class(tmp_path / "class", 7, [SOFTMAX, BACKWARD], seed=2)
    tables = []
    for number in (2, 1, 3):
        tables.append(tmp_path / f"part{number}.csv")
        grade(capsys, tmp_path / "class", tables[-1], "--seed", "4", "--shard", f"{number}/3")
    grade(capsys, tmp_path / "class", tmp_path / "whole.csv", "--seed", "4", "--feedback", tmp_path / "feedback")
    code, _, error = run(capsys, "grade", "merge", *tables, "--out", tmp_path / "joined.csv", "--feedback",
                         tmp_path / "joined")
    assert code == 0, error
    assert stable(tmp_path / "joined.csv") == stable(tmp_path / "whole.csv")
    for path in (tmp_path / "feedback").iterdir():
        assert path.read_bytes() == (tmp_path / "joined" / path.name).read_bytes()
    refusals = [(("merge", *tables[:2], "--out", tmp_path / "x.csv"), "missing parts: 3/3"),
                (("merge", *tables), "--out FILE"), (("merge", "--out", tmp_path / "x.csv"), "TABLE"),
                (("merge", tmp_path / "none.csv", "--out", tmp_path / "x.csv"), "there is no"),
                (("merge", *tables, "--out", tables[0]), "one of the tables"),
                ((tmp_path / "class", "--shard", "1/3"), "--shard needs --seed"),
                ((tmp_path / "class", "--shard", "4/3"), "no part of a class"),
                ((tmp_path / "class", tmp_path), "one FOLDER at a time"), ((), "name the FOLDER")]
    for arguments, words in refusals:
        assert words in refused(capsys, "grade", *arguments)


class Runs:
    """Stands in for run_files: counts how many run at the same time, and how often a sandbox does not start."""

    def __init__(self, failures=0):
        self.guard, self.now, self.failures, self.most = threading.Lock(), 0, failures, {}

    def __call__(self, files, tasks, *_):
        for task in tasks:
            with self.guard:
                self.failures -= 1
                if self.failures >= 0:
                    raise OSError("the sandbox did not start")
                self.now += 1
            time.sleep(0.1)
            name = files["name"].decode()
            with self.guard:
                self.most[name] = max(self.most.get(name, 0), self.now)
                self.now -= 1
            yield ProgramRun("timeout", 0, 0.5, "", {})


def grade_with(patch, runs, path, students, jobs, chosen=(BACKWARD,)):
    """Rows by (student, number) of a Grader that uses `runs` in place of the sandbox."""
    patch.setattr(grader, "run_files", runs)
    journal = Journal(path)
    journal.start({"seed": 1})
    made = Grader(chosen, 1, NO_LAYER, journal, lambda student, number: student.attempts[number], jobs=jobs)
    try:
        return {(row.student, row.number): row for _, _, row in made.grade(students)}
    finally:
        journal.file.close()


def pupil(name, chosen=(BACKWARD,)):
    attempts = {exercise.number: [File(exercise.file, exercise.file, b"x", exercise.number)] for exercise in chosen}
    return Student(name, attempts=attempts, files={"name": name.encode()})


@pytest.mark.slow
def test_files_under_suspicion_run_alone_and_first(tmp_path, monkeypatch):
    students = [pupil(name) for name in ("ada", "ben", "cem", "dan", "eva")]
    path, killed = tmp_path / "part", []

    def die(files, tasks, *_):
        killed.append(files["name"].decode())
        while len(killed) < 2:                              # until two run at the same time
            time.sleep(0.01)
        raise SystemExit                                    # not recorded as an orderly end
        yield

    with pytest.raises(SystemExit):
        grade_with(monkeypatch, die, path, students, 2)
    runs = Runs()
    assert len(grade_with(monkeypatch, runs, path, students, 3)) == 5
    assert len(killed) == 2 and set(killed) <= {name for name, most in runs.most.items() if most == 1}
    assert max(runs.most.values()) > 1
    assert set(list(runs.most)[:len(killed)]) == set(killed)


@pytest.mark.slow
def test_a_sandbox_that_does_not_start_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(threading.Event, "wait", lambda event, seconds=None: event.is_set())
    chosen = (SOFTMAX, BACKWARD)
    rows = grade_with(monkeypatch, Runs(failures=3), tmp_path / "part", [pupil("ada", chosen)], 1, chosen)
    assert [row.status for row in rows.values()] == ["timeout", "timeout"]
    with pytest.raises(OSError, match="did not start"):
        grade_with(monkeypatch, Runs(failures=4), tmp_path / "other", [pupil("ada", chosen)], 1, chosen)


@pytest.mark.parametrize("installed", [True, False])
def test_without_a_sandbox_grading_is_refused_in_a_sentence(installed, school, tmp_path, capsys, monkeypatch):
    found = [Layer("bubblewrap", installed, "bubblewrap works" if installed else "bubblewrap is not installed"), NO_LAYER]
    monkeypatch.setattr(command, "layers", lambda: found)
    monkeypatch.setattr(command, "best_layer", lambda: found[0] if installed else None)
    code, text, _ = run(capsys, "grade", "--doctor")
    assert code == (0 if installed else 2) and found[0].sentence in text
    assert ("uses bubblewrap" if installed else "refuses to run") in text
    if not installed:
        said = refused(capsys, "grade", school, "--out", tmp_path / "scores.csv")
        for words in ("bubblewrap is not installed", "numpy-transformer[sandbox]", "lessons/GRADING.md", "--trust-students"):
            assert words in said
        assert sorted(os.listdir(tmp_path)) == ["class"]


@pytest.mark.slow
def test_an_answer_on_which_the_verdict_fails_is_an_error_without_points(school, tmp_path, capsys, monkeypatch):
    def broken(answer_key, result):
        raise ZeroDivisionError("strange")
    monkeypatch.setattr(grader, "judge", broken)
    rows = grade(capsys, school, tmp_path / "scores.csv", "--only", "01.2")[0]
    assert {(row["status"], row["points"]) for row in rows} == {("error", "0")}
    assert all("cannot be judged: ZeroDivisionError: strange" in row["note"] for row in rows)


def row(name, **more):
    return Row(**{**dict(student=name, number="01.2", exercise="ex01_2_softmax_backward", status="fail", points=0, max=2,
                         seconds=0.5, note=""), **more})


def test_what_could_not_be_read_is_said_and_never_called_missing():
    newer = datetime(2026, 11, 21, tzinfo=timezone.utc)
    broken, old = Problem("all.zip", "", "This is damaged."), Problem("ex.pdf", "01.2", "This is a PDF file.", newer)
    student = Student("kim", {"moodle": "7"}, problems=[broken, old],
                      remarks={"01.2": ["2 files; the newest counts: b.py (not a.py)", "Latin-1 became UTF-8"]})
    one, two = (with_arrival(row_without_file(student, exercise), student, graded=False) for exercise in (SOFTMAX, BACKWARD))
    assert (one.status, one.whole_note) == ("error", "all.zip: This is damaged") and one.ids == {"moodle": "7"}
    assert two.note == "all.zip: This is damaged; ex.pdf: This is a PDF file"
    assert two.verdict.sentences == ["all.zip: This is damaged.", "ex.pdf: This is a PDF file."]
    assert list(report.student_feedback(one))[1:] == ["  all.zip: This is damaged.", "  hints: numpy-transformer exercise "
                                                      "hint 01.1"]
    shown = " ".join(report.student_feedback(one, ["all.zip: This is damaged."]))
    assert "damaged" not in shown and "no file for this exercise that can be read; see above." in shown
    assert [unreadable(student, number) for number in ("01.1", "01.2")] == [broken, old]
    nothing = row_without_file(Student("lee", problems=[old]), SOFTMAX)
    assert unreadable(Student("lee", problems=[old]), "01.1") is None
    assert (nothing.status, nothing.note) == ("missing", "no file ex01_1_softmax.py")
    failed = with_arrival(row("kim", note="y is wrong"), student)
    assert failed.note == "y is wrong; all.zip: This is damaged"
    assert failed.remarks == [*student.remarks["01.2"], "ex.pdf: This is a PDF file."]
    student.remarks["01.2"].append("all.zip: This is damaged.")
    assert with_arrival(row("kim"), student).whole_note.count("damaged") == 1
    student.remarks["01.2"].pop()
    passed = with_arrival(row("kim", status="pass"), student)
    assert passed.whole_note == "; ".join([*student.remarks["01.2"], "ex.pdf: This is a PDF file"])


def test_csv_cells_are_no_formulas_and_quotes_survive(tmp_path):
    notes = ["=1+1", "+1", "-1", "@x", "plain", 'a "b", c', "ü = 3", "not 0.2; -0.5, -1e-3"]
    report.write_csv([row("kim", note=note) for note in notes], tmp_path / "scores.csv")
    assert [entry["note"] for entry in table(tmp_path / "scores.csv")] == ["'=1+1", "'+1", "'-1", "'@x", *notes[4:]]


@pytest.mark.parametrize("delimiter", [",", ";"])
@pytest.mark.parametrize("other", [",", ";", "\t"])
def test_no_cell_is_a_formula_whatever_separator_a_spreadsheet_is_set_to(delimiter, other, tmp_path):
    notes = ["x;=1+1", "x,=1+1", "a; @b", "x,-1+1;+c", "x\t=2", 'a"; =1', "-2;=3"]
    report.write_csv([row("kim", note=note) for note in notes], tmp_path / "scores.csv", report.Dialect(delimiter))
    text = (tmp_path / "scores.csv").read_text(encoding="utf-8")
    cells = [cell.strip(' "') for line in text.splitlines() for cell in line.split(other)]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@")) or cell.startswith("-") and len(cell) > 2]


def test_names_of_feedback_files_are_safe_and_differ():
    taken = set()
    names = [report.file_name(name, taken) for name in
             ("kim", "a b", "a/b", "A_b", "..", ".hidden", "con", "CON.x", "ü" * 300, "\u202e", "")]
    assert len({name.casefold() for name in names}) == len(names)
    assert all(re.fullmatch(r"[\w.-]{1,84}", name) and not name.startswith(".") for name in names)
    assert not {"con", "con.x"} & {name.casefold() for name in names} and names[:2] == ["kim", "a_b"]


def test_a_student_passes_only_with_all_exercises():
    rows = [row("kim", status="pass"), row("kim"), row("lee", status="pass"), row("lee", status="pass"), row("max")]
    found = {student["student"]: student["status"] for student in report.document(rows, {}, {})["students"]}
    assert found == {"kim": "fail", "lee": "pass", "max": "fail"}


def test_the_journal_is_kept_until_every_output_is_written(tmp_path, monkeypatch, capsys):
    """A disk that is full at the last output, the picture, costs no row: the same command resumes from the journal."""
    def full(figure, path):
        raise OSError("no space left on device")

    hand_in(tmp_path / "class" / "kim", BACKWARD, source="")
    out = tmp_path / "scores.csv"
    with monkeypatch.context() as patch:
        patch.setattr(views, "write_figure", full)
        code, _, error = run(capsys, "grade", tmp_path / "class", "--out", out, *SANDBOX)
    assert code == 2 and "no space left" in error and "Traceback" not in error
    with monkeypatch.context() as patch:
        counted = Counted(patch)
        rows, text, _ = grade(capsys, tmp_path / "class", out)
    assert counted.count == 0 and len(rows) == 1 and "0 of 1 passed" in text
    assert not out.with_name("scores.csv.part").exists()


def test_rows_are_printed_as_lines_that_fit():
    rows = [row("kim", mistakes=[["SMB-1"]], deducted=0.5), row("lee", note="no file " * 30)] * 30
    lines = list(report.row_lines(rows, 90))
    assert lines[0] == "kim, ex01_2_softmax_backward: fail, 0 of 2 points, 0.5 deducted for lateness; SMB-1" and len(lines) == 41
    assert max(map(len, lines)) <= 90 and lines[1].endswith(" ...") and lines[-1] == "and 20 more rows in the table"


def test_mistakes_are_counted_by_name():
    rows = [row("a", mistakes=[["X", "Y"]]), row("b", mistakes=[["Y"]]), row("c", mistakes=[["X"], ["Z"]]), row("d")]
    counts = {entry["mistake"]: entry["count"] for entry in report.summary(rows, [])["mistakes"]}
    assert counts == {"Y": 2, "X": 1, "X or Z": 1}


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_summary_fits_the_terminal(width):
    name, students = "ex14_5_what_moves_what_in_an_encoder", [f"student{i:02}" for i in range(12)]
    counts = {status: 3 for status in ("pass", "fail", "todo", "error", "timeout", "memory", "missing")}
    summary = {"exercises": {name: counts}, "mistakes": [{"mistake": "PRD-14.5a", "exercise": name, "count": 2,
               "say": "A long explanation. " * 9}], "to_look_at": [f"{student} {name}" for student in students],
               "clusters": [{"exercise": name, "students": students, "note": "answer 1 is wrong. " * 9}]}
    lines = list(report.summary_lines(summary, width))
    assert max(map(len, lines)) <= width
    assert lines[0].split() == ["exercise", *counts] and lines[1].split()[1:] == ["3"] * 7
    assert (name in lines[1]) == (width >= 100)
    assert " ".join(" ".join(lines).split()).count("A long explanation.") == 9


def test_the_picture_labels_each_mistake_with_its_exercise():
    figure = views.class_report({"ex05_2_attention_backward": {"fail": 3}}, [
        {"exercise": "ex05_2_attention_backward", "mistake": "ATB-3", "count": 3}])
    labels = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]
    assert labels == [["ex05_2_attention_backward"], ["05.2  ATB-3"]]


def test_the_picture_shows_twelve_mistakes_and_what_they_are():
    figure = views.class_report({"ex01_1_softmax": {"fail": 40}}, [
        {"exercise": "ex01_1_softmax", "mistake": f"SMF-{i}", "count": 40 - i, "say": "You forget " + "the maximum " * 9}
        for i in range(30)])
    labels = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert len(labels) == 12 and labels[3].startswith("01.1  SMF-3  You forget the maximum") and labels[3][-1] == "…"
    assert max(map(len, labels)) < 65


def test_equal_answers_have_one_digest_up_to_rounding():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((3, 4))
    def digest(*outputs):
        return digest_of([Observation(outputs)])
    assert digest(y) == digest(y * (1 + 1e-14)) == digest(y + 0.0) and digest(-0.0 * y) == digest(0.0 * y)
    others = [y, 2 * y, y.T, y[::-1], np.full(3, np.nan), np.full(3, np.inf)]
    assert len(set(map(digest, others))) == len(others) and digest_of([Observation()]) == ""
    assert digest(np.array([1.0, -np.nan])) == digest(np.array([1.0, np.nan]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        digest(np.array([np.inf, 1.0]), np.array(3.0), np.array([True]), np.zeros((1,) * 31))


@pytest.mark.slow
def test_every_drawn_mistake_of_a_class_is_named(tmp_path, capsys):
    chosen = list(exercises().values())
    made = write_class(tmp_path / "class", 4, chosen, seed=5)
    rows = grade(capsys, tmp_path / "class", tmp_path / "scores.csv")[0]
    numbers = {exercise.file.removesuffix(".py"): exercise for exercise in chosen}
    assert len(rows) == len(made)
    for entry in rows:
        exercise = numbers[entry["exercise"]]
        kind = made[entry["student"], exercise.number]
        if kind in ("right", "todo", "missing", "syntax"):
            assert entry["status"] == {"right": "pass", "syntax": "error"}.get(kind, kind), entry
        elif " and " not in kind:
            twin = next(mistake.twin for mistake in exercise.mistakes if mistake.name == kind)
            assert set(entry["misconception"].split(" or ")) == {kind, twin} - {""}, entry
            assert entry["points"] != entry["max"], entry
