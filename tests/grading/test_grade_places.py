"""Where the grader writes: nothing of others is replaced, and only the teacher may read it."""

import io
import os
import stat
import types
from pathlib import Path

import matplotlib
import pytest
from helpers.commands import refused, run
from helpers.graded_rows import row
from PIL import Image

from numpy_transformer import views
from numpy_transformer.cli import grade as command, grade_places
from numpy_transformer.course.exercises import choose
from numpy_transformer.grading import anonymous, report
from numpy_transformer.grading.gradebooks import github, gradescope
from numpy_transformer.grading.gradebooks.people import people
from numpy_transformer.grading.gradebooks.summary import summary_table
from numpy_transformer.grading.replaceable import is_replaceable
from numpy_transformer.grading.shards import Record

posix = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
SOFTMAX = choose("01.1")
ROWS = [row("kim", "01.1"), row("zoe", "01.1", "missing")]
GRADEBOOK = "Student,ID,Section,Sheet 1 (5)\n    Points Possible,,,10\nKim,7,,\n"
TRUST = ("--trust-students", "--allow-root")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a class and a table of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(views, "write_figure", lambda figure, path: path)
    for name in ("kim", "zoe"):
        Path("class", name).mkdir(parents=True)
        Path("class", name, SOFTMAX.file).write_text(SOFTMAX.skeleton(), encoding="utf-8")
    report.write_csv(ROWS, Path("scores.csv"))
    settings = {"seed": 1, "timeout": 10.0, "memory": 1024, "versions": {"numpy_transformer": "1"}}
    report.write_json(report.document(ROWS, settings, {}), Path("scores.json"))
    return tmp_path


def foreign(kind):
    """The bytes of a picture that Matplotlib wrote for somebody else, a PNG with a palette."""
    file = io.BytesIO()
    matplotlib.figure.Figure((1, 1)).savefig(file, format=kind)
    if kind != "png":
        return file.getvalue()
    other = io.BytesIO()
    Image.open(file).convert("RGB").quantize(256).save(other, "png")
    return other.getvalue()


@pytest.mark.slow
def test_what_the_grader_wrote_is_recognized_and_nothing_else(tmp_path):
    def path(name, content=None):
        if content is not None:
            Path(tmp_path, name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    person = people(ROWS)[0]
    for i, dialect in enumerate((report.Dialect(), report.Dialect(";", True))):
        report.write_csv(ROWS, path(f"table{i}.csv"), dialect, lateness=True)
        report.write_table(*summary_table(people(ROWS)), path(f"summary{i}.csv"), dialect)
    report.write_json(report.document(ROWS, {"seed": 3, "versions": {"numpy_transformer": "1"}}, {}), path("scores.json"))
    report.write_json(gradescope.results(person), path("gradescope.json"))
    report.write_json(github.result(person), path("github.json"))
    many = [row(f"student{i}", "01.1") for i in range(2 * anonymous.SMALL)]
    anonymous.write_page(anonymous.results(many, [SOFTMAX]), path("lecture.html"))
    for kind in ("png", "svg", "pdf"):
        views.write_figure(matplotlib.figure.Figure((1, 1)), path(f"picture.{kind}"))
    path("empty.csv", "")
    written = os.listdir(tmp_path)
    assert len(written) == 12 and all(is_replaceable(path(name)) for name in [*written, "none.csv"])
    others = {"grades.csv": GRADEBOOK, "worksheet.csv": "Identifier,Full name,Grade\n", "roster.csv": "student,days\nkim,2\n",
              "package.json": '{"name": "x"}', "notes.md": "# Notes\n", "index.html": "<title>Home</title>",
              "class.zip": b"PK\x03\x04", "photo.png": foreign("png"), "plot.svg": foreign("svg"), "plot.pdf": foreign("pdf"),
              "settings.json": '{"seed": 3, "max_score": 5}'}
    assert [name for name, content in others.items() if is_replaceable(path(name, content))] == []


@pytest.mark.parametrize("option", ["--out", "--json", "--picture", "--summary", "--anonymous", "--gradescope"])
def test_a_file_of_others_is_replaced_only_if_told_to(option, here, capsys, monkeypatch):
    monkeypatch.setattr(command, "read_class", lambda *_: (_ for _ in ()).throw(ValueError("went on")))
    name = {"--out": "grades.csv", "--json": "package.json", "--picture": "photo.svg", "--summary": "grades.csv",
            "--gradescope": "package.json"}.get(option, "home.html")
    Path(name).write_text(GRADEBOOK, encoding="utf-8")
    options = ("grade", "class", *TRUST, option, name)
    said = refused(capsys, *options)
    assert f"{name!r} was not written by this command" in said and "--overwrite" in said
    if option != "--json":                      # from which grading goes on
        assert "went on" in refused(capsys, *options, "--overwrite")
    assert Path(name).read_text(encoding="utf-8") == GRADEBOOK


def test_the_class_and_tables_to_join_are_never_replaced(here, capsys):
    assert "class/../scores.csv is given twice" in refused(capsys, "grade", "merge", "scores.csv", "class/../scores.csv",
                                                           "--out", "new.csv")
    Path("class.txt").write_bytes(b"PK\x03\x04")
    assert "class.txt is the class to be graded" in refused(capsys, "grade", "class.txt", *TRUST, "--overwrite", "--out",
                                                            "class.txt")
    assert "one of the tables" in refused(capsys, "grade", "merge", "scores.csv", "other.csv", "--out", "new.csv",
                                          "--overwrite", "--json", "scores.json")


@pytest.mark.parametrize("options, words", [
    (["--out", "scores.xlsx"], "ends in .csv"), (["--summary", "s.ods"], "ends in .csv"), (["--out", "."], "folder"),
    (["--canvas", "."], "--canvas . is a folder"), (["--moodle", "."], "folder"), (["--picture", "."], "folder"),
    (["--feedback", "no/feedback"], "name a folder, new or existing"), (["--feedback", f"class/kim/{SOFTMAX.file}"], "it is a file"),
    (["--submitted", "scores.csv"], "different names"), (["--anonymous", "no/lecture.html"], "cannot write"),
    (["--gradescope", "no/results.json"], "cannot write"), (["--picture", "no/scores.png"], "cannot write")])
def test_a_wrong_path_is_refused_in_a_sentence(options, words, here, capsys):
    before = sorted(here.rglob("*"))
    assert words in refused(capsys, "grade", "class", *TRUST, *options)
    assert sorted(here.rglob("*")) == before


def test_a_file_that_is_no_class_is_called_a_file(here, capsys):
    Path("grades.csv").write_text(GRADEBOOK, encoding="utf-8")
    assert "'grades.csv' is a file" in refused(capsys, "grade", "grades.csv", *TRUST)


@pytest.mark.parametrize("options", [[], ["--students", "kim"], ["--only", "01.1"]])
def test_the_table_of_another_class_is_not_replaced(options, here, capsys):
    Path("class").rename("old")
    Path("other", "lessons").mkdir(parents=True)
    Path("other", "lessons", SOFTMAX.file).write_text(SOFTMAX.skeleton(), encoding="utf-8")
    before = Path("scores.csv").read_bytes()
    said = refused(capsys, "grade", "other", *TRUST, *options)
    assert "scores.csv has 2 students, such as kim, none of whom is in other" in said
    assert Path("scores.csv").read_bytes() == before and not Path("scores.csv.bak").exists()


def test_the_table_of_another_sheet_is_not_replaced(here, capsys):
    for name in ("kim", "zoe"):
        Path("class", name, SOFTMAX.file).unlink()
        Path("class", name, choose("01.2").file).write_text(choose("01.2").skeleton(), encoding="utf-8")
    said = refused(capsys, "grade", "class", *TRUST)
    assert "scores.csv has other exercises, such as 01.1, than class; choose another --out" in said


def test_an_empty_table_is_no_other_class():
    grade_places.check_same_class([], [], Record({}, [], {}), types.SimpleNamespace())
    grade_places.check_same_class([], [], None, types.SimpleNamespace())


@posix
def test_only_the_teacher_may_read_what_is_written(here, capsys):
    code, text, error = run(capsys, "grade", "merge", "scores.csv", "--out", "new.csv", "--feedback", "feedback", "--summary",
                         "summary.csv")
    assert code == 0, error
    assert text.startswith("\n1 of 2 passed.") and "exercise" not in text      # nothing was graded: no summary again
    modes = {path.name: stat.S_IMODE(path.stat().st_mode)
             for path in map(Path, ("new.csv", "new.json", "summary.csv", "feedback/kim.txt", "feedback"))}
    assert modes == {"new.csv": 0o600, "new.json": 0o600, "summary.csv": 0o600, "kim.txt": 0o600, "feedback": 0o700}


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everything")
def test_a_folder_of_others_is_refused(here, capsys):
    Path("others").mkdir(mode=0o000)
    for option in ("--out", "--summary", "--picture", "--feedback", "--canvas"):
        said = refused(capsys, "grade", "class", *TRUST, option, "others/x.png" if option == "--picture" else "others/x.csv")
        assert "Permission denied; " in said and "Errno" not in said
    assert "cannot read 'others/class': Permission denied; " in refused(capsys, "grade", "others/class", *TRUST)
