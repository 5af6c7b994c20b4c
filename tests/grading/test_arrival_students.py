"""What a student's files may import from each other, and a class as a whole."""

import shutil

import pytest
from helpers.arrivals import notebook, read, right, zipped

from numpy_transformer.course.exercises import choose
from numpy_transformer.grading.arrival import Problem, read_class


def of(folder, files):
    return read(folder, {f"kim/{name}": content for name, content in files.items()})[0]["kim"]


@pytest.mark.parametrize("statement, key", [
    ("from ex01_1_softmax import softmax", "ex01_1_softmax.py"), ("import ex01_1", "ex01_1.py"),
    ("from softmax import *", "softmax.py"), ("import numpy as np, ex01_1 as one", "ex01_1.py"),
    ("from solution import softmax", "solution.py"),
    ("try:\n    from exercise01_1 import softmax\nexcept ImportError:\n    pass", "exercise01_1.py"),
    ("from .ex01_1 import softmax", "ex01_1.py")])
def test_another_exercise_is_there_under_the_name_that_is_imported(statement, key, tmp_path):
    student = of(tmp_path, {"a/solution.py": right("01.1"), "b/ex01_2.py": f"{statement}\n{right('01.2')}"})
    assert student.files[key] == right("01.1").encode()
    assert set(student.files) == {key, "ex01_1_softmax.py", "ex01_2_softmax_backward.py"}


def test_helpers_of_their_own_and_packages(tmp_path):
    student = of(tmp_path, {"helper.py": "x = 1", "utils/tools.py": "y = 1", "utils/__init__.py": "z = 1", "ex01_1.py": (
        "from helper import x\nfrom utils.tools import y\nimport utils\n" + right("01.1"))})
    assert {name: student.files[name] for name in ("helper.py", "utils/tools.py", "utils/__init__.py")} == {
        "helper.py": b"x = 1", "utils/tools.py": b"y = 1", "utils/__init__.py": b"z = 1"}


def test_the_newest_file_is_imported_and_nothing_hides_numpy_or_the_standard_library(tmp_path):
    files = {"ex01_1.py": right("01.1", "old"), "ex01_1 (1).py": right("01.1", "new"), "numpy.py": "x = 1", "random.py": "x = 1",
             "math.py": "x", "ex01_2.py": "import ex01_1, random, numpy\n" + right("01.2")}
    student = of(tmp_path, files)
    assert student.files["ex01_1.py"].endswith(b"# new\n") and student.files["ex01_1_softmax.py"].endswith(b"# new\n")
    assert not {"numpy.py", "random.py", "math.py"} & set(student.files)


def test_the_number_of_an_upload_is_no_part_of_a_module_s_name(tmp_path):
    student = of(tmp_path, {"helper-1.py": "x = 1", "ex01_1_softmax-1.py": "from helper import x\n" + right("01.1"),
                            "tools.py": "old", "tools (2).py": "new"})
    assert (student.files["helper.py"], student.files["tools.py"]) == (b"x = 1", b"new")


def test_a_file_of_tests_is_no_answer(tmp_path):
    tests = "from ex01_1_softmax import softmax\n\n\ndef test_softmax():\n    assert 1\n"
    student = of(tmp_path, {"test_softmax.py": tests, "ex01_2_test.py": tests, "ex01_2.py": right("01.2")})
    assert list(student.attempts) == ["01.2"] and student.problems == []


def test_a_notebook_s_functions_can_be_imported(tmp_path):
    student = of(tmp_path, {"hw.ipynb": notebook(right("01.1")), "ex01_2.py": "import softmax\n" + right("01.2")})
    assert b"def softmax" in student.files["softmax.py"]


def test_a_class_is_always_read_in_the_same_order(tmp_path):
    files = {f"{name}/{exercise}.py": right(number) for name in ("b", "A", "ä", "a") for exercise, number in
             (("ex01_2", "01.2"), ("ex01_1", "01.1"))}
    read(tmp_path, dict(reversed(files.items())))
    first, second = read_class(tmp_path).students, read_class(tmp_path).students
    assert first == second and [student.name for student in first] == ["A", "a", "b", "ä"]
    assert [list(student.attempts) for student in first] == [["01.1", "01.2"]] * 4


def test_names_are_unique_whatever_folders_are_called(tmp_path):
    students, _ = read(tmp_path, {f"{name}/ex01_1.py": right("01.1") for name in (
        "Kim_1_assignsubmission_file", "Kim_2_assignsubmission_file", "Lee_3_assignsubmission_file",
        "Ann_4_assignsubmission_file", "Kim", "Kim (1)", "Lee")})
    assert {name: student.ids for name, student in students.items()} == {
        "Ann": {"moodle": "4"}, "Kim (1)": {"moodle": "1"}, "Kim (2)": {"moodle": "2"}, "Lee": {"moodle": "3"},
        "Kim": {}, "Kim (1) (Kim (1))": {}, "Lee (Lee)": {}}


def test_nothing_that_is_there_is_called_missing(tmp_path):
    """Each file alone makes a student with an attempt or a problem; only an empty folder has neither."""
    files = ["x.py", "x.txt", "x", "x.ipynb", "x.zip", "x.pdf", "x.docx", "x.png", "x.rar", "x.csv", "README", "a/b/c.md", "x.html",
             "x.tar.gz", "x.java", "ex01_1.py", "ex01_1.pdf", "x.pyc", "x.PY"]
    students, _ = read(tmp_path, {f"{i:02}/{name}": "hello (" for i, name in enumerate(files)} | {"zz": None})
    for i, name in enumerate(files):
        student = students[f"{i:02}"]
        assert bool(student.attempts) != bool(student.problems), (name, student)
        assert all(isinstance(problem, Problem) and problem.where and problem.sentence for problem in student.problems)
    assert students["zz"].problems == [] and len(students) == len(files) + 1


def test_skeletons_are_attempts(tmp_path):
    student = of(tmp_path, {choose(number).file: choose(number).skeleton() for number in ("01.1", "05.2")})
    assert list(student.attempts) == ["01.1", "05.2"] and student.remarks == {}


def downloads():
    """What the systems deliver of a class of two, in a folder for each system."""
    two = (("kim", 12), ("lee", 13))
    people = "".join(f"submission_{n}:\n  :submitters:\n  - :name: {name}\n    :sid: '{n}'\n" for name, n in two)
    return {"canvas/submissions.zip": zipped({f"{name}_{n}_1000{n}_ex01_1.py": right("01.1") for name, n in two}),
            "moodle/sheet 1/submissions.zip": zipped({f"{name}_{n}_assignsubmission_file/ex01_1.py": right("01.1")
                                                      for name, n in two}),
            "gradescope/assignment_8_export.zip": zipped({
                "assignment_8_export/submission_metadata.yml": people,
                **{f"assignment_8_export/submission_{n}/ex01_1.py": right("01.1") for _, n in two}})}


def test_a_folder_of_downloads_is_no_class(tmp_path):
    with pytest.raises(ValueError, match="downloaded for a whole class.*grade one download") as error:
        read(tmp_path, downloads())
    for path in downloads():
        assert path in str(error.value)
    for path in downloads():
        for place in (tmp_path / path, (tmp_path / path).parent):
            assert [student.name for student in read_class(place).students] == ["kim", "lee"], place
    students, notes = read(tmp_path / "zips", {path.replace("/", ""): content for path, content in downloads().items()})
    assert len(students) == 6 and "holds downloads from Canvas and Gradescope and Moodle" in " ".join(notes)
    shutil.rmtree(tmp_path / "zips")
    students, notes = read(tmp_path, {f"{name}/ex01_1.py": right("01.1") for name in "abcd"})
    assert "canvas" in students and "canvas/submissions.zip looks like the download of a whole class" in " ".join(notes)


def test_a_student_s_files_may_have_names_that_canvas_gave(tmp_path):
    name = "kim_12_10001_ex01_1.py"
    students, notes = read(tmp_path, {"Kim/homework.zip": zipped({name: right("01.1")}), "Lee/ex01_1.py": right("01.1")})
    assert sorted(students) == ["Kim", "Lee"] and notes == [] and list(students["Kim"].attempts) == ["01.1"]


def test_what_the_command_wrote_is_no_student(tmp_path):
    files = {name: "x" for name in ("scores.csv", "scores.csv.bak", "scores.json", "scores.png", "scores.csv.part",
                                    "grades-graded.csv", "lecture.html", "lecture.png")}
    students, notes = read(tmp_path, {**files, "Kim/ex01_1.py": right("01.1"), "Lee/Kim.txt": "Kim\n2 of 2 points\n"})
    assert sorted(students) == ["Kim", "Lee"] and notes == []


def test_many_problems_are_counted(tmp_path):
    student = of(tmp_path, {**{f"m{i:03}.zip": b"PK" for i in range(300)}, "ex05_1.pdf": b"%PDF-1.7", "ex01_1.zip": b"PK"})
    assert len(student.problems) == 21 and student.problems[0].number == "01.1"
    assert (student.problems[-1].where, student.problems[-1].sentence) == ("282 more files", "These are not graded either.")
