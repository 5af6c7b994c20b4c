"""numpy-transformer grade: the stages of `build`, from a class of folders to the table and the gradebook."""

import contextlib
import csv
import re
import threading
import time

import pytest
from helpers.arrivals import numbers, read
from helpers.commands import refused, run
from test_grading import SANDBOX, table

from numpy_transformer.course.sandbox import NO_LAYER, best_layer, run_files
from numpy_transformer.course.stages.definition import program_file
from numpy_transformer.course.stages.table import STAGES
from numpy_transformer.grading import grader, stages
from numpy_transformer.grading.arrival import File, Student, reading_process
from numpy_transformer.grading.gradable import choose_gradable, gradable
from numpy_transformer.grading.gradebooks.filling import counted_work
from numpy_transformer.grading.grader import Grader, StudentRuns
from numpy_transformer.grading.journal import Journal
from numpy_transformer.texts import render

CORRECT = {stage.file: stage.solution for stage in STAGES.values()} | {"module.py": program_file("module")}
LINEAR, NORM, FEED_FORWARD = (STAGES[number].file for number in (2, 3, 4))
ADDED = "np.add.at(self.weight.grad, ids, dx)"
MOST = {"stage02": 6, "stage04": 5}             # a point for five of the 30 and 25 minutes
CANVAS = "Student,ID,SIS User ID,SIS Login ID,Section,Stage 2 (1),Build (2)\n    Points Possible,,,,,6,22\n"
LOOP, MORE = "import numpy as np\nwhile True: pass\n", "\nEXTRA = 1\n"
IMPORTS = "from helpers import plain\nfrom module import EXTRA, Module"
HELPER = "def softmax(z):\n    return z\n\n\ndef plain(x):\n    return x\n"


def changed(name, old, new):
    """The correct files with one edit."""
    assert CORRECT[name].count(old) == 1
    return {**CORRECT, name: CORRECT[name].replace(old, new)}


def build_folder(folder, files):
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def school(tmp_path_factory):
    """All right; a known mistake; a syntax error; a loop without end; helpers, and a module.py that was changed."""
    folder = tmp_path_factory.mktemp("class")
    build_folder(folder / "ada" / "mine", CORRECT)
    build_folder(folder / "Ben" / "mine", changed(LINEAR, ADDED, "self.weight.grad[ids] += dx"))
    build_folder(folder / "cid", {**CORRECT, FEED_FORWARD: "def broken(:\n"})
    build_folder(folder / "dan" / "a" / "b", changed(FEED_FORWARD, "import numpy as np\n", LOOP))
    own = changed(FEED_FORWARD, "from module import Module", IMPORTS)
    build_folder(folder / "eve" / "mine", {**own, "helpers.py": HELPER, "module.py": CORRECT["module.py"] + MORE,
                                           "stage02_linear.md": "# A page", "report.html": "<p>A page"})
    return folder


def command(capsys, *arguments):
    """What `grade` prints on standard error. The picture is not drawn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("numpy_transformer.views.write_figure", lambda figure, path: path)
        code, _, error = run(capsys, "grade", *arguments)
    assert code == 0, error
    return error


@pytest.mark.slow
def test_a_class_of_five_from_its_folders_to_the_gradebooks(school, tmp_path, capsys):
    error = command(capsys, school, "--out", tmp_path / "scores.csv", "--only", "stage2,stage04_feed_forward.py",
                    "--seed", "7", "--timeout", "4", "--feedback", tmp_path / "feedback", *SANDBOX)
    assert "5 students, 2 stages, seed 7" in error and "report.html" not in error
    rows_are_right(table(tmp_path / "scores.csv"))
    feedback_is_right((tmp_path / "feedback" / "Ben.txt").read_text(encoding="utf-8"))
    merge = "merge", tmp_path / "scores.csv", "--out", tmp_path / "new.csv", "--overwrite"
    book = tmp_path / "grades.csv"
    students = "".join(f"{name},{i},,{name},A,,\n" for i, name in enumerate(("ada", "Ben", "cid")))
    book.write_text(CANVAS + students, encoding="utf-8")
    command(capsys, *merge, "--canvas", book)
    assert grades(tmp_path) == {"ada": [6, None], "Ben": [0, None], "cid": [6, None]}
    command(capsys, *merge, "--canvas", book, "--column", "stages=Build", "--column", "stage2=1")
    assert grades(tmp_path) == {"ada": [6, 22], "Ben": [0, 10], "cid": [6, 12]}
    command(capsys, *merge, "--summary", tmp_path / "all.csv", "--anonymous", tmp_path / "page.html")
    ben = next(row for row in table(tmp_path / "all.csv") if row["student"] == "Ben")
    assert (ben["points_stages"], ben["points"], ben["max"]) == ("5", "5", "11")
    assert "5 students, 2 stages." in (tmp_path / "page.html").read_text(encoding="utf-8")


def rows_are_right(rows):
    """The wrong stage 2 of Ben costs no points in stage 4, which uses it."""
    rows = {(row["student"], row["exercise"][:7]): row for row in rows}
    wrong = {("Ben", "stage02"): "fail", ("cid", "stage04"): "error", ("dan", "stage04"): "timeout"}
    keys = [(name, number) for name in ("Ben", "ada", "cid", "dan", "eve") for number in MOST]
    assert {key: row["status"] for key, row in rows.items()} == {key: wrong.get(key, "pass") for key in keys}
    for (name, number), row in rows.items():
        assert int(row["max"]) == MOST[number] and int(row["points"]) == MOST[number] * ((name, number) not in wrong)
        assert "look at" not in row["note"]
    assert rows["Ben", "stage02"]["exercise"] == "stage02_linear"
    assert "EMB-1" in rows["Ben", "stage02"]["misconception"] and "(line 1)" in rows["cid", "stage04"]["note"]


def feedback_is_right(text):
    assert "5 of 11 points" in text and re.search(r"^stage02 linear: FAIL \(values\)$", text, re.M)
    assert "DIAGNOSIS [EMB-1" in text and "Right so far: Linear.forward" in text and "build hint stage02" in text
    assert "The check of Embedding.backward failed." in text
    assert re.search(r"stage04 feed_forward: PASS\n  Values: GELU.forward.*50\s+steps with your stage 4;", text, re.S)


def grades(folder):
    """{student: points in the two columns} of the filled gradebook."""
    with open(folder / "grades-graded.csv", encoding="utf-8", newline="") as file:
        return {row[0]: [float(value) if value else None for value in row[5:]] for row in list(csv.reader(file))[2:]}


@pytest.mark.parametrize("text, said", [("stage13", "no stage 'stage13'; the stages are stage1 to stage12"),
                                        ("stage", "no stage 'stage'"), ("stage5x", "no stage 'stage5x'"),
                                        ("stage1-3", "'stage1-3'"), ("stage1 stage3", "'stage1 stage3'"),
                                        ("stag5", "no exercise 'stag5'"), ("", "names no exercise and no stage")])
def test_an_unknown_stage_is_refused(text, said, school, tmp_path, capsys):
    assert said in refused(capsys, "grade", school, "--out", tmp_path / "scores.csv", "--only", text, *SANDBOX)


def test_words_stand_for_stages():
    assert [one.number for one in choose_gradable(["stage5,Stage05_attention.py", "stage12", "01.1"])] == [
        "stage05", "stage12", "01.1"]
    assert [one.number for one in choose_gradable(["stages"])] == [f"stage{i:02}" for i in range(1, 13)]
    assert list(gradable())[0] == "01.1" and list(gradable())[-1] == "stage12"
    assert counted_work(["01.1", "stage02", "stage03"]) == "1 exercise and 2 stages"
    assert counted_work([]) == "0 exercises"


@pytest.mark.parametrize("name, wanted", [
    ("mine/stage05_attention.py", "stage05"), ("a/b/Stage 5.py", "stage05"), ("stage5 (1).py", "stage05"),
    ("stage05-2.py", "stage05"), ("stage10_sampling.py", "stage10"), ("backstage5.py", None), ("stage13.py", None),
    ("test_stage05.py", None), ("stage5/solution.py", None), ("ex05_2_stage1.py", "05.2")])
def test_a_stage_is_recognized_by_its_name(name, wanted, tmp_path):
    students, _ = read(tmp_path, {f"ada/{name}": "x = 1\n"})
    assert list(numbers(students["ada"])) == ([wanted] if wanted else [])


def test_files_of_two_students_beside_each_other(tmp_path):
    students, _ = read(tmp_path, {"Kim_stage05_attention.py": "x = 1\n", "Lee_stage5.py": "x = 2\n"})
    assert [(name, *student.attempts) for name, student in students.items()] == [("Kim", "stage05"), ("Lee", "stage05")]


def test_files_beside_stages_are_helpers_unless_they_are_named_after_an_exercise(tmp_path):
    """A stage defines softmax, and a helper may: neither is exercise 01.1."""
    files = {**CORRECT, "helpers.py": HELPER, "ex01_2_softmax_backward.py": "def softmax_backward(p, dp): return p\n"}
    students, notes = read(tmp_path / "both", {f"ada/mine/{name}": text for name, text in files.items()})
    assert set(students["ada"].attempts) == {"01.2", *(f"stage{i:02}" for i in range(1, 13))} and not notes
    assert {"helpers.py", "module.py"} < set(students["ada"].files)
    files = {"ada/mine/stage06_heads.py": "x = 1\n", "ada/mine/module.py": "x = 1\n"}
    students, _ = read(tmp_path / "only", files, ["stage05"])
    assert "stage05" not in students["ada"].attempts


def student_with(files, name="ada"):
    attempts = {f"stage{STAGES[i].number:02}": [File(STAGES[i].file, STAGES[i].file, files[STAGES[i].file].encode())]
                for i in STAGES if STAGES[i].file in files}
    return Student(name, attempts=attempts, files={name: text.encode() for name, text in files.items()})


def judged(stage, files, execute=None):
    """The Judgment of a stage, whose programs run without a sandbox if there is none."""
    judge, files = stages.StageJudge(gradable()[stage], 5), {name: text.encode() for name, text in files.items()}
    with StudentRuns(lambda files, tasks: run_files(files, tasks, best_layer() or NO_LAYER)) as runs:
        file = File(judge.exercise.file, "", files[judge.exercise.file])
        return judge.grade(file, files, execute or runs.execute)


IN_PLACE = "        self.remember(x, t)\n"
SPOILT = """        self.remember(x.copy(), t.copy())
        y = 0.5 * x * (1 + t)
        x[...] = 0
        return y
"""


@pytest.mark.slow
@pytest.mark.parametrize("backward, points", [("", 2), ("        raise NotImplementedError\n", 0)])
def test_half_of_the_points_need_right_values_in_all_parts(backward, points):
    """GELU changes its argument: 2 of 5 points are left if all other values are right, and otherwise none."""
    assert CORRECT[FEED_FORWARD].count(IN_PLACE) == 1
    text = CORRECT[FEED_FORWARD].replace(IN_PLACE, SPOILT)
    head, tail = text.rsplit("    def backward(self, dy):\n", 1)
    text = f"{head}    def backward(self, dy):\n{backward}{tail}"
    verdict = judged("stage04", {**CORRECT, FEED_FORWARD: text}).verdict
    assert (verdict.status, verdict.stage, verdict.points(5)) == ("fail", "arguments changed", points)


@pytest.mark.slow
@pytest.mark.parametrize("condition, stage", [
    ("self.calls > 30", "gradients"), ("x.shape[:2] == (8, 20)", "training")])
def test_right_values_alone_are_half_of_the_points(condition, stage):
    """The norm is wrong after its thirtieth call, or for a batch of the training: in no case that compares values."""
    files = changed(NORM, "    def forward(self, x):\n", "    calls = 0\n\n    def forward(self, x):\n"
                    f"        self.calls += 1\n        x = x ** 3 if {condition} else x\n")
    verdict = judged("stage03", files).verdict
    assert (verdict.status, verdict.stage, verdict.points(6)) == ("fail", stage, 3)


def test_a_stage_runs_with_the_references_other_stages_and_with_the_students_helpers():
    wrong = {name: "raise SystemExit\n" for name in CORRECT if name.startswith("stage")}
    own = {**wrong, "helpers.py": HELPER, "module.py": CORRECT["module.py"] + MORE,
           FEED_FORWARD: "from helpers import plain\n" + CORRECT[FEED_FORWARD] + "# mine\n"}
    programs = []

    def execute(program, task):
        programs.append(program)
        raise ValueError("enough")

    assert judged("stage04", own, execute).verdict.stage == "verdict"
    assert {name: content.decode() for name, content in programs[0].items()} == {
        **CORRECT, **{name: own[name] for name in ("helpers.py", "module.py", FEED_FORWARD)}}
    assert CORRECT[FEED_FORWARD].encode() not in programs[0].values()       # the solution is out of reach


def test_programs_of_a_student_run_while_another_is_judged():
    """Two threads are in a program of the same stage at once, which a lock around all of it would not let them be."""
    both, judge = threading.Barrier(2, timeout=20), stages.StageJudge(gradable()["stage04"], 5)

    def execute(program, task):
        both.wait()
        raise ValueError("enough")

    file = File(FEED_FORWARD, "", CORRECT[FEED_FORWARD].encode())
    threads = [threading.Thread(target=judge.grade, args=(file, {}, execute), daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not both.broken


def test_a_file_that_cannot_be_parsed_within_limits_is_an_error(monkeypatch):
    def no_answer(**question):
        raise reading_process.NoAnswer("could not be read within 10 seconds")

    monkeypatch.setattr(reading_process.reading_process(), "ask", no_answer)
    verdict = judged("stage04", CORRECT).verdict
    assert (verdict.status, render(verdict.note)) == ("error", f"{FEED_FORWARD} could not be read within 10 seconds.")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["x = " + "-" * 900_000 + "1", "x" + ".y" * 400_000, "x = [" + "1," * 500_000 + "]"])
def test_hostile_files_are_parsed_within_limits(text, monkeypatch):
    monkeypatch.setattr(reading_process, "SECONDS", 2)
    own = {**CORRECT, FEED_FORWARD: CORRECT[FEED_FORWARD] + "".join(f"import h{i}\n" for i in range(8))}
    start = time.monotonic()
    assert judged("stage04", own | {f"h{i}.py": text for i in range(8)}).verdict.stage == "import"
    assert time.monotonic() - start < 20
    assert judged("stage04", CORRECT).verdict.status == "pass"


@pytest.mark.slow
def test_an_interrupted_grading_goes_on_unless_a_helper_has_changed(tmp_path, monkeypatch):
    files, counts = {FEED_FORWARD: CORRECT[FEED_FORWARD], "helpers.py": HELPER}, []
    real = grader.run_files
    monkeypatch.setattr(grader, "run_files", lambda *arguments: counts.append(1) or real(*arguments))

    def rows(helper):
        with contextlib.closing(Journal(tmp_path / "scores.csv.part", b"k" * 32)) as journal:
            journal.start({"seed": 5})
            run = Grader([gradable()["stage04"]], 5, best_layer() or NO_LAYER, journal, lambda student, number:
                         student.attempts[number], jobs=1)
            return [row for _, _, row in run.grade([student_with({**files, "helpers.py": helper})])]

    first = rows(HELPER)
    assert [(row.number, row.status, row.points) for row in first] == [("stage04", "pass", 5)] and len(counts) == 1
    assert rows(HELPER) == first and len(counts) == 1
    assert rows(HELPER + "x = 1\n")[0].status == "pass" and len(counts) == 2
