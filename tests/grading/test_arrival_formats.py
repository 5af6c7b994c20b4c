"""A class as Canvas, Moodle, Gradescope, GitHub Classroom, Blackboard and plain folders deliver it."""

import os
import shutil
import subprocess
from datetime import datetime, timezone

import pytest
from helpers.arrivals import lay, notebook, numbers, read, right, zipped

from numpy_transformer.grading.arrival import read_class
from numpy_transformer.grading.arrival.gradescope import submissions

FILE = "ex01_1_softmax.py"
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def one(folder, files, only=None):
    students, _ = read(folder, files, only)
    assert len(students) == 1, list(students)
    return next(iter(students.values()))


@pytest.mark.parametrize("name, person, ids, late", [
    ("leekim_12345_678901_ex01_1_softmax.py", "leekim", {"canvas": "12345"}, False),
    ("leekim_LATE_12345_678901_ex01_1_softmax-1.py", "leekim", {"canvas": "12345"}, True),
    ("nguyễnthịminhanh_7_91001_softmax.py", "nguyễnthịminhanh", {"canvas": "7"}, False),
    ("s\u0327ahini\u0307pek_40084_9100480_EX01_1.PY", "şahini̇pek", {"canvas": "40084"}, False),
    ("王小明_5_10001_ex01_1.py", "王小明", {"canvas": "5"}, False),
    ("team_a_77_10001_ex01_1.py", "team_a", {"canvas": "77"}, False),
    ("anon_aB3xY_10001_ex01_1.py", "anon_aB3xY", {"anonymous": "aB3xY"}, False),
    ("LATE_anon_aB3xY_10001_ex01_1.py", "anon_aB3xY", {"anonymous": "aB3xY"}, True),
    ("Kim O'Lee_321_assignsubmission_file_ex01_1_softmax.py", "Kim O'Lee", {"moodle": "321"}, False),
    ("Kim Lee_321_assignsubmission_file_/sub/ex01_1_softmax.py", "Kim Lee", {"moodle": "321"}, False),
    ("Teilnehmerin_321_assignsubmission_file/ex01_1_softmax.py", "Teilnehmerin", {"moodle": "321"}, False),
    ("Default group_assignsubmission_file/ex01_1_softmax.py", "Default group", {}, False),
    ("Sheet 1_klee_attempt_2026-11-20-23-59-01_ex01_1.py", "klee", {"login": "klee"}, False),
    ("Kim_ex01_1.py", "Kim", {}, False), ("Kim Lee - exercise 1.1.py", "Kim Lee", {}, False),
    ("Kim_05.1.py", "Kim", {}, False), ("Kim/homework/week 1/softmax.py", "Kim", {}, False), ("Kim.py", "Kim", {}, False),
    ("Kim_softmax.py", "Kim", {}, False)])
def test_the_owner_of_a_file(name, person, ids, late, tmp_path):
    student = one(tmp_path, {name: right("05.1" if "05.1" in name else "01.1")})
    assert (student.name, student.ids) == (person, ids) and not student.problems
    (file,) = student.attempts["05.1" if "05.1" in name else "01.1"]
    assert file.late == late and file.number in ("01.1", "05.1")
    if "attempt" in name:
        assert file.submitted.replace(tzinfo=None) == datetime(2026, 11, 20, 23, 59, 1) and file.submitted.tzinfo
    else:
        assert file.submitted is None and "not tell" in file.time_from


def test_a_name_that_only_looks_like_canvas_is_a_name(tmp_path):
    students, _ = read(tmp_path, {"Kim_05_200_ex01_1.py": right("01.1"), "Anna_ex01_2.py": right("01.2")})
    assert sorted(students) == ["Anna", "Kim_05_200"]


@pytest.mark.parametrize("as_zip", [False, True])
def test_several_downloads_in_one_folder_are_joined_by_id(as_zip, tmp_path):
    sheets = {"sheet1": {f"leekim_12_10001_{FILE}": right("01.1"), f"leekim_13_10002_{FILE}": right("01.1")},
              "sheet2": {"leekim_LATE_12_20001_ex01_2.py": right("01.2"), "abe_14_20002_ex01_2.zip": zipped({
                  "x/ex01_2.py": right("01.2")})}}
    files = {f"{name}.zip": zipped(sheet) for name, sheet in sheets.items()} if as_zip else {
        f"{name}/{path}": content for name, sheet in sheets.items() for path, content in sheet.items()}
    students, notes = read(tmp_path, files)
    assert {name: (student.ids["canvas"], numbers(student).keys()) for name, student in students.items()} == {
        "abe": ("14", {"01.2"}), "leekim (12)": ("12", {"01.1", "01.2"}), "leekim (13)": ("13", {"01.1"})}
    assert students["leekim (12)"].attempts["01.2"][0].late and not notes


def test_moodle_text_and_file_of_one_student_are_one(tmp_path):
    page = "<p>" + right("01.2").replace("&", "&amp;").replace("\n", "<br>") + "</p>"
    student = one(tmp_path, {f"Kim Lee_321_assignsubmission_file/{FILE}": right("01.1"),
                             "Kim Lee_321_assignsubmission_onlinetext/onlinetext.html": page})
    assert set(student.attempts) == {"01.1", "01.2"} and "onlinetext.html" in student.remarks["01.2"][0]
    assert student.attempts["01.2"][0].content.decode().split() == right("01.2").split()


def test_a_link_or_a_prose_text_is_a_problem(tmp_path):
    students, _ = read(tmp_path, {"kim_12_link.html": "<html><a href='https://example.edu'>x</a></html>",
                                  "lee_13_text.html": "<html><body><p>See my e-mail.</p></body></html>"})
    assert "only a link" in students["kim"].problems[0].sentence and not students["kim"].problems[0].late
    assert "web page without code" in students["lee"].problems[0].sentence


METADATA = """---
submission_1:
  :submitters:
  - :name: Anna Müller
    :sid: '0100'
    :email: anna@example.edu
  :created_at: 2026-04-26 17:34:00.861687000 Z
  :score: 2.0
  :results:
    score: 2.0
    output: |-
      submission_9:
      :submitters:
      - :name: Nobody
  :history:
  - :id: 5
    :created_at: 2026-04-01 00:00:00.000000000 Z
submission_2:
  :submitters:
  - :name: "Kim \\xE9 \\"K\\" O'Lee"
    :sid: 200
    :email: kim@example.edu
  - :name: 'Sean O''Brien'
    :sid:
    :email: sean@example.edu
  :created_at: !ruby/object:ActiveSupport::TimeWithZone
    utc: 2026-04-27 01:02:03.000000000 Z
    zone: x
submission_3:
  :submitters: []
submission_4:
  :submitters:
  - :name: Empty Folder
    :sid: '400'
"""


def test_what_cannot_be_read_has_its_time_and_its_mark(tmp_path):
    students, _ = read(tmp_path / "canvas", {"kim_LATE_12_10001_ex01_1.pdf": b"%PDF", "lee_LATE_13_10002_homework.rar": b"Rar!"})
    exported, _ = read(tmp_path / "gradescope", {"submission_metadata.yml": METADATA, "submission_1/notes.pdf": b"%PDF-1.7"})
    problems = [(students | exported)[name].problems[0] for name in ("kim", "lee", "Anna Müller")]
    assert [(problem.number, problem.late, problem.time_from) for problem in problems] == [
        ("01.1", True, "Canvas does not tell"), ("", True, "Canvas does not tell"), ("", False, "Gradescope")]
    assert problems[2].submitted == datetime(2026, 4, 26, 17, 34, tzinfo=timezone.utc)


def test_gradescope_s_metadata():
    found = submissions(METADATA)
    assert found["submission_1"] == ([{"name": "Anna Müller", "sid": "0100", "email": "anna@example.edu"}],
                                     datetime(2026, 4, 26, 17, 34, tzinfo=timezone.utc))
    assert found["submission_2"] == ([{"name": "Kim é \"K\" O'Lee", "sid": "200", "email": "kim@example.edu"},
                                      {"name": "Sean O'Brien", "sid": "", "email": "sean@example.edu"}],
                                     datetime(2026, 4, 27, 1, 2, 3, tzinfo=timezone.utc))
    assert found["submission_3"] == ([], None) and list(found) == [f"submission_{i}" for i in (1, 2, 3, 4)]


def test_gradescope_s_groups_and_missing_folders(tmp_path):
    top = "assignment_80_export/"
    (tmp_path / "export.zip").write_bytes(zipped({
        f"{top}submission_metadata.yml": METADATA, f"{top}submission_1/a/{FILE}": right("01.1"),
        f"{top}submission_2/{FILE}": right("01.1", "x"), f"{top}submission_3/{FILE}": right("01.1", "y")}))
    whole = read_class(tmp_path / "export.zip")
    students, notes = whole.students, whole.notes
    found = {student.name: (student.ids, len(student.attempts)) for student in students}
    assert found == {
        "Anna Müller": ({"gradescope": "0100", "email": "anna@example.edu"}, 1),
        "Kim é \"K\" O'Lee": ({"gradescope": "200", "email": "kim@example.edu"}, 1),
        "Sean O'Brien": ({"email": "sean@example.edu"}, 1), "submission_3": ({"gradescope": "submission_3"}, 1),
        "Empty Folder": ({"gradescope": "400"}, 0)}
    assert notes == ["Empty Folder handed in nothing: there is no file"]
    assert students[0].attempts["01.1"][0].submitted.isoformat() == "2026-04-26T17:34:00+00:00"


def git(folder, *arguments, time="2026-10-01T08:00:00+02:00"):
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
                   **{f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in
                      (("NAME", "x"), ("EMAIL", "x@example.edu"), ("DATE", time))}}
    subprocess.run(["git", "-c", "init.defaultBranch=main", *arguments], cwd=folder, env=environment, check=True,
                   capture_output=True)


def clone(folder, files, repository):
    lay(folder, files)
    git(folder, "init", "-q")
    git(folder, "remote", "add", "origin", f"https://example.edu/class/{repository}.git")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "done", time="2026-10-15T23:59:30+02:00")


@needs_git
@pytest.mark.parametrize("layout", ["cli", "assistant"])
def test_github_classroom_s_clones(layout, tmp_path):
    top = tmp_path / ("hw-1-submissions" if layout == "cli" else "class")
    for login in ("anna-b", "anna-c"):
        clone(top / (f"hw-1-{login}" if layout == "cli" else login), {FILE: right("01.1"), "tests.py": "1", "README": "x"},
              f"hw-1-{login}")
    lay(top, {"classroom_roster.csv": '"identifier","github_username","github_id","name"\n'
                                      '"anna.b@example.edu","Anna-B","1","Anna Bauer"\n"s2","","",""\n'})
    whole = read_class(top)
    students, notes = whole.students, whole.notes
    assert [(student.name, student.ids) for student in students] == [
        ("Anna Bauer", {"github": "anna-b", "email": "anna.b@example.edu"}), ("anna-c", {"github": "anna-c"})]
    file = students[1].attempts["01.1"][0]
    assert file.submitted.isoformat() == "2026-10-15T23:59:30+02:00" and "last commit" in file.time_from
    assert notes == [] and students[1].problems == []


@needs_git
def test_a_repository_s_settings_run_nothing(tmp_path):
    """The settings name programs that git would start, among them for `git log`; the objects are read without them."""
    for login in ("kim", "lee"):
        clone(tmp_path / "c" / f"hw-{login}", {FILE: right("01.1")}, f"hw-{login}")
    trap = tmp_path / "trap"
    (tmp_path / "program").write_text(f"#!/bin/sh\ntouch {trap}\n")
    (tmp_path / "program").chmod(0o755)
    with open(tmp_path / "c/hw-kim/.git/config", "a", encoding="utf-8") as config:
        config.write(f"[core]\n\tfsmonitor = {tmp_path}/program\n\tpager = {tmp_path}/program\n\tsshCommand = "
                     f"{tmp_path}/program\n[gpg]\n\tprogram = {tmp_path}/program\n[log]\n\tshowSignature = true\n")
    whole = read_class(tmp_path / "c")
    students = whole.students
    assert [student.attempts["01.1"][0].submitted is not None for student in students] == [True, True]
    assert not trap.exists()


@needs_git
def test_a_student_s_own_repository_is_a_plain_folder(tmp_path):
    clone(tmp_path / "Kim", {FILE: right("01.1")}, "homework")
    lay(tmp_path, {f"Lee/{FILE}": right("01.1")})
    whole = read_class(tmp_path)
    students = whole.students
    assert [(student.name, student.ids) for student in students] == [("Kim", {}), ("Lee", {})]


def test_loose_archives_notebooks_and_links_have_owners(tmp_path):
    files = {"Kim.zip": zipped({"ex/01_1.txt": "x", FILE: right("01.1")}), "Lee.ipynb": notebook(right("01.1")),
             "Ida_ex01_1.pdf": b"%PDF-1.7", "Max.7z": b"7z\xbc\xaf'\x1c", "syllabus.pdf": b"%PDF-1.7", "README.md": "x",
             "notes.py": "x = 1\n", "Ole/x.zip": b"PK\x03\x04 broken"}
    lay(tmp_path, files)
    if hasattr(os, "symlink"):
        (tmp_path / "Uma").symlink_to("Ole")
    whole = read_class(tmp_path)
    students, notes = whole.students, whole.notes
    found = {student.name: (set(student.attempts), [(p.number, p.sentence[:22]) for p in student.problems])
             for student in students}
    assert found["Kim"] == found["Lee"] == ({"01.1"}, [])
    assert found["Ida"] == (set(), [("01.1", "This is a PDF file, wh")])
    assert found["Ole"] == (set(), [("", "This is damaged or not")])
    assert found.get("Uma", found["Ole"])[1][0][0] == "" and "Max.7z belongs to no student's folder" in " ".join(notes)
    assert any("syllabus.pdf" in note for note in notes) and any("notes.py" in note for note in notes)


def test_one_name_in_two_spellings(tmp_path):
    students, notes = read(tmp_path, {f"Zoé/{FILE}": right("01.1"), "Zoe\u0301/ex01_2.py": right("01.2"),
                                      "Zoé_ex05_1.py": right("05.1"), f"kim/{FILE}": right("01.1"),
                                      f"KIM/{FILE}": right("01.1", "2")})
    assert {"01.1", "05.1"} <= set(students["Zoé"].attempts)
    if len(os.listdir(tmp_path)) == 5:
        other = "Zoé (Zoe\\u0301)"
        assert set(students) == {"Zoé", other, "kim", "KIM"} and set(students[other].attempts) == {"01.2"}
        assert any("'KIM' and 'kim' differ only in spelling" in note for note in notes)
        assert any(r"'Zoe\u0301' and 'Zo\xe9' differ only in spelling" in note for note in notes)


def test_a_zip_of_folders_with_one_folder_around_them(tmp_path):
    for top in ("", "class/"):
        (tmp_path / "class.zip").write_bytes(zipped({f"{top}Kim/{FILE}": right("01.1"), f"{top}Lee/{FILE}": right("01.1"),
                                                     f"__MACOSX/{top}Kim/._{FILE}": "x"}))
        students = read_class(tmp_path / "class.zip").students
        assert [(student.name, set(student.attempts)) for student in students] == [("Kim", {"01.1"}), ("Lee", {"01.1"})]


@pytest.mark.parametrize("files, word", [({}, "contains no student"), ({FILE: "x"}, "name the folder above it"),
                                         ({"README.md": "x"}, "contains no student")])
def test_what_is_no_class_is_refused(files, word, tmp_path):
    with pytest.raises(ValueError, match=word):
        read_class(lay(tmp_path, files))
    with pytest.raises(ValueError, match="no folder"):
        read_class(tmp_path / "none")
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(ValueError, match="damaged"):
        read_class(tmp_path / "x.zip")
