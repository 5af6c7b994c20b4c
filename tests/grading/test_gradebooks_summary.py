"""One row a student, the dialects of CSV, and the options that bring it all to the command line."""

import csv
import json
from pathlib import Path

import pytest
from helpers.commands import refused, run
from helpers.gradebook_files import canvas_gradebook, github_roster, moodle_worksheet
from helpers.graded_rows import row
from helpers.pupils import SHEET, make_class
from helpers.students import write_class

from numpy_transformer.course.exercises import choose
from numpy_transformer.grading.gradebooks.canvas import CanvasGradebook
from numpy_transformer.grading.gradebooks.moodle import MoodleWorksheet
from numpy_transformer.grading.gradebooks.people import people
from numpy_transformer.grading.gradebooks.roster import add_roster
from numpy_transformer.grading.gradebooks.summary import summary_table
from numpy_transformer.grading.report import Dialect, document, summary, write_csv, write_json, write_table

KIM = {"canvas": "7", "email": "kim@example.edu"}
ROWS = [row("kim", "01.1", ids=KIM), row("kim", "05.1", "fail", 1.5, ids=KIM, late=2, deducted=0.5),
        row("=zoe", "01.1", "missing"), row("=zoe", "05.1")]
CANVAS = "Student,ID,Section,Lesson 1 (5)\n    Points Possible,,,10\nKim,7,,\n=zoe,8,,EX\n"


def test_one_row_a_student():
    header, rows = summary_table(people(ROWS))
    kim, zoe = (dict(zip(header, values)) for values in rows)
    assert kim == {"student": "kim", "canvas_id": "7", "email": "kim@example.edu", "points_01": 2, "points_05": 1.5,
                   "points": 3.5, "max": 5, "percent": 70.0, "pass": 1, "fail": 1, "todo": 0, "error": 0, "timeout": 0,
                   "memory": 0, "missing": 0, "late_days": 2, "deducted": 0.5}
    assert (zoe["canvas_id"], zoe["points"], zoe["missing"], zoe["percent"]) == ("", 3, 1, 60.0)


@pytest.mark.parametrize("dialect", [Dialect(), Dialect(";", True)])
def test_dialects_of_excel(tmp_path, dialect):
    path = tmp_path / "summary.csv"
    write_table(*summary_table(people(ROWS)), path, dialect)
    content = path.read_bytes()
    assert content.startswith(b"\xef\xbb\xbf") == dialect.bom
    with open(path, encoding="utf-8-sig", newline="") as file:
        kim, zoe = csv.DictReader(file, delimiter=dialect.delimiter)
    assert (kim["points"], zoe["student"]) == ("3,5" if dialect.delimiter == ";" else "3.5", "'=zoe")
    write_csv(ROWS, path, dialect)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf") == dialect.bom


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """A table that was graded earlier, with its record, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("numpy_transformer.views.write_figure", lambda figure, path: path)
    versions = {"numpy_transformer": "1", "numpy": "2", "python": "3"}
    settings = {"seed": 1, "timeout": 10.0, "memory": 1024, "versions": versions}
    write_json(document(ROWS, settings, summary(ROWS, [])), tmp_path / "scores.json")
    write_csv(ROWS, tmp_path / "scores.csv")
    return tmp_path


def merge(capsys, *options):
    code, text, error = run(capsys, "grade", "merge", "scores.csv", "--out", "new.csv", *options)
    assert code == 0, error
    return text


def test_gradebooks_are_filled_from_a_table_beside_the_download(graded, capsys):
    Path("grades.csv").write_text(CANVAS, encoding="utf-8")
    text = merge(capsys, "--canvas", "grades.csv", "--summary", "summary.csv")
    assert Path("grades.csv").read_text(encoding="utf-8") == CANVAS
    assert Path("grades-graded.csv").read_text(encoding="utf-8") == CANVAS.replace("Kim,7,,", "Kim,7,,10")
    assert "Lesson 1 (5): lesson 01, 2 points scaled to 10" in text and "(excused), 1: =zoe" in text
    assert Path("summary.csv").exists() and "summary.csv, grades-graded.csv" in " ".join(text.split())


def test_a_roster_says_who_a_login_is(tmp_path):
    pupils = make_class(30, seed=5)
    github_roster(pupils, tmp_path / "roster.csv")
    canvas_gradebook(pupils, tmp_path / "grades.csv", {"Sheet (7)": 10})
    gradebook = CanvasGradebook(tmp_path / "grades.csv", [choose(number) for number in SHEET], ["Sheet"])
    students = people([row(pupil.ids["github"], "01.1", ids={"github": pupil.ids["github"]}) for pupil in pupils])
    assert len(gradebook.fill(students).entered) == 0
    assert add_roster(students, tmp_path / "roster.csv") == []
    filling = gradebook.fill(students)
    assert len(filling.entered) == 30
    moodle_worksheet(pupils, tmp_path / "worksheet.csv", 10)
    assert len(MoodleWorksheet(tmp_path / "worksheet.csv").fill(students).entered) == 30
    header, rows = summary_table(students)
    assert header[:4] == ["student", "name", "github_id", "email"]
    assert rows[1][:4] == [pupils[1].ids["github"], "Kim Lee", pupils[1].ids["github"], pupils[1].ids["email"]]


def test_the_summary_has_names_and_ids_from_the_gradebook(graded, capsys):
    Path("grades.csv").write_text('Student,ID,SIS User ID,SIS Login ID,Section,Lesson 1 (5)\n'
                                  '    Points Possible,,,,,10\n"Lee, Kim",7,S7,klee,,\n', encoding="utf-8")
    merge(capsys, "--canvas", "grades.csv", "--summary", "summary.csv")
    with open("summary.csv", encoding="utf-8", newline="") as file:
        zoe, kim = sorted(csv.DictReader(file), key=lambda line: line["student"])
    assert (kim["name"], kim["canvas_id"], kim["sis_id"], kim["login"]) == ("Lee, Kim", "7", "S7", "klee")
    assert (zoe["name"], zoe["sis_id"]) == ("", "")


def test_a_table_of_some_students_says_who_is_not_in_it(graded, capsys):
    Path("grades.csv").write_text(CANVAS + "Ada,9,,\nMia,10,,\n", encoding="utf-8")
    record = json.loads(Path("scores.json").read_text(encoding="utf-8"))
    write_json({**record, "left_out": {"ada": {}}}, Path("scores.json"))
    text = merge(capsys, "--canvas", "grades.csv", "--zero-if-missing")
    assert "(not in this table): 1 student" in text and "0 entered (nothing handed in for lesson 01), 1: Mia" in text
    assert Path("grades-graded.csv").read_text(encoding="utf-8").endswith("Ada,9,,\nMia,10,,0\n")
    assert json.loads(Path("new.json").read_text(encoding="utf-8"))["left_out"] == {"ada": {}}


def test_a_gradebook_of_another_class_is_refused_before_anything_is_written(graded, capsys):
    Path("grades.csv").write_text(CANVAS.replace("Kim,7", "Mia,9").replace("=zoe", "Ada"), encoding="utf-8")
    before = sorted(graded.iterdir())
    assert "none of the 2 students" in refused(capsys, "grade", "merge", "scores.csv", "--out", "new.csv", "--canvas",
                                               "grades.csv")
    assert sorted(graded.iterdir()) == before


def test_the_summary_has_ids_from_any_list_of_the_class(tmp_path):
    (tmp_path / "list.csv").write_text("Full name,Username,ID number,github_username\nKim Lee,klee,S7,kl-7\n")
    students = people([row("kl-7", "01.1", ids={"github": "kl-7"})])
    add_roster(students, tmp_path / "list.csv")
    header, rows = summary_table(students)
    assert dict(zip(header, rows[0][:5])) == {"student": "kl-7", "name": "Kim Lee", "github_id": "kl-7", "sis_id": "S7",
                                              "login": "klee"}


def test_files_of_others_are_not_replaced(graded, capsys):
    Path("grades.csv").write_text(CANVAS, encoding="utf-8")
    merge(capsys, "--canvas", "grades.csv")
    merge(capsys, "--canvas", "grades.csv")                 # an earlier result is replaced
    Path("grades-graded.csv").write_text(CANVAS.replace("zoe", "mia"), encoding="utf-8")
    arguments = ("grade", "merge", "scores.csv", "--out", "new.csv", "--canvas", "grades.csv")
    assert "is not this gradebook" in refused(capsys, *arguments)
    assert "mia" in Path("grades-graded.csv").read_text(encoding="utf-8")
    merge(capsys, "--canvas", "grades.csv", "--overwrite")
    assert "mia" in Path("grades-graded.csv.bak").read_text(encoding="utf-8")


def test_options_that_do_not_fit_are_refused(graded, capsys):
    merge_ = ("grade", "merge", "scores.csv", "--out", "new.csv")
    Path("grades.csv").write_text(CANVAS, encoding="utf-8")
    assert "has 2" in refused(capsys, *merge_, "--github", "a.json")
    assert "add --canvas" in refused(capsys, *merge_, "--column", "Lesson 1")
    assert "there is no file 'none.csv'" in refused(capsys, *merge_, "--moodle", "none.csv")
    assert "different names" in refused(capsys, *merge_, "--canvas", "grades.csv", "--summary", "grades.csv")
    assert "different names" in refused(capsys, *merge_, "--canvas", "grades.csv", "--summary", "grades-graded.csv")
    Path("grades.xlsx").write_bytes(b"PK\x03\x04")
    assert "not a CSV file; save it as CSV" in refused(capsys, *merge_, "--canvas", "grades.xlsx")
    assert "cannot write" in refused(capsys, *merge_, "--summary", "no/summary.csv")


@pytest.mark.parametrize("chosen", [("--students", "student02"), ("--shard", "1/2", "--seed", "1")])
def test_grading_some_students_enters_nothing_for_the_others(chosen, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("numpy_transformer.views.write_figure", lambda figure, path: path)
    monkeypatch.setattr("numpy_transformer.cli.grade.graded",
                        lambda *given: [row(student.name, "01.1") for student in given[4]])
    write_class(tmp_path / "class", 3, [choose("01.1")])
    (tmp_path / "grades.csv").write_text(CANVAS + "".join(f"student0{i},{i},,\n" for i in (1, 2, 3)), encoding="utf-8")
    code, _, error = run(capsys, "grade", tmp_path / "class", *chosen, "--zero-if-missing", "--trust-students",
                         "--allow-root", "--out", tmp_path / "s.csv", "--canvas", tmp_path / "grades.csv")
    assert code == 0, error
    found = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    graded = {student["student"] for student in found["students"]}
    assert 0 < len(graded) < 3
    names = ("student01", "student02", "student03")
    expected = [f"{name},{name[-1]},,{'10' if name in graded else ''}" for name in names]
    lines = (tmp_path / "grades-graded.csv").read_text(encoding="utf-8").splitlines()
    assert lines[2:] == ["Kim,7,,0", "=zoe,8,,EX", *expected]


def test_a_wrong_gradebook_is_refused_before_the_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("numpy_transformer.cli.grade.graded", lambda *_: pytest.fail("graded"))
    write_class(tmp_path / "class", 2, [choose("01.1")])
    path = tmp_path / "grades.csv"
    options = ("--out", tmp_path / "s.csv", "--trust-students", "--allow-root", "--canvas", path)
    path.write_text(CANVAS.replace("Lesson 1", "Quiz"), encoding="utf-8")
    assert "no column" in refused(capsys, "grade", tmp_path / "class", *options)
    path.write_text(CANVAS, encoding="utf-8")
    complaint = refused(capsys, "grade", tmp_path / "class", *options)
    assert "none of the 2 students of the class, such as student01, is in" in complaint and "--roster" in complaint
    assert json.dumps(sorted(item.name for item in tmp_path.iterdir())) == '["class", "grades.csv"]'
