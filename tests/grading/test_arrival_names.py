"""Which exercise a handed-in file belongs to, and which of several files is the newest."""

import os

import pytest
from helpers.arrivals import notebook, numbers, read, right

from numpy_transformer.course.exercises import choose, exercises
from numpy_transformer.grading.arrival.names import split_marks


def of(folder, files, only=None):
    students, _ = read(folder, {f"kim/{name}": content for name, content in files.items()}, only)
    return students["kim"]


@pytest.mark.parametrize("name", [
    "ex05_2_attention_backward.py", "ex05_2.py", "EX05_2.PY", "ex5.2.py", "exercise_05_2.py", "ex-05-2.py",
    "Exercise 5.2.py", "05.2.py", "5-2.py", "05_2 Kim Lee.py", "attention_backward.py", "Attention Backward.py",
    "exercise05_2.py", "ex05_2 (1).py", "ex05_2 - Copy.py", "Copy of ex05_2.py",
    "Kopie von ex05_2.py", "ex05_2-1.py", "ex05_2_v3_final.py", "ex05_2.py.txt", "ex05_2.txt", "ex05_2",
    "Kim_ex05_2_final(2).py", "hw3-ex05.2.py", "sheet5/ex05_2/solution.py", "attention_backward/main.py"])
def test_the_name_tells_even_if_the_file_cannot_be_run(name, tmp_path):
    assert list(of(tmp_path, {name: "def oops(:\n"}).attempts) == ["05.2"]


@pytest.mark.parametrize("name", ["solution.py", "ex05.py", "sheet5.py", "lesson 05.py", "hw.txt", "x.ipynb",
                                  "2026-11-22.py", "Untitled1.py", "kim97.py", "homework", "kim_lee_5.pyw"])
def test_what_a_file_defines_tells(name, tmp_path):
    source = right("05.2")
    student = of(tmp_path, {name: notebook(source) if name.endswith("ipynb") else source})
    assert list(student.attempts) == ["05.2"] and student.attempts["05.2"][0].name == "ex05_2_attention_backward.py"


def test_a_lesson_s_number_is_settled_by_the_functions(tmp_path):
    bodies = {number: choose(number).text for number in ("01.1", "05.1", "05.2")}
    bodies["01.1"] = bodies["01.1"].replace("np.exp(", "np.exp(0 + ")          # else it is the one given with 05.1
    student = of(tmp_path, {"ex05.py": "import numpy as np\n\n\n" + "\n\n".join(bodies.values())})
    assert list(student.attempts) == ["01.1", "05.1", "05.2"]
    assert [list(student.remarks.get(number, [])) for number in ("01.1", "05.1")] == [
        ["the function was found in ex05.py"], []]
    student = of(tmp_path / "2", {"ex05.py": right("02.1")})
    assert list(student.remarks["02.1"]) == ["the function was found in ex05.py"]
    assert not of(tmp_path / "3", {"ex05.py": "broken("}).attempts
    assert list(of(tmp_path / "4", {"ex05-2.py": right("05.2")}).attempts) == ["05.2"]


def test_functions_that_come_with_the_file_do_not_count(tmp_path):
    """The file of 05.1 imports a softmax, and a copy of it in this file is not an answer to 01.1 either."""
    assert list(of(tmp_path, {"homework.py": choose("05.1").skeleton()}).attempts) == ["05.1"]
    copied = choose("05.1").given_texts["softmax"] + "\n\n" + right("05.1")
    assert list(of(tmp_path / "2", {"ex05_1.py": copied}).attempts) == ["05.1"]
    own = copied.replace("np.exp(", "np.exp(0 + ")
    assert list(of(tmp_path / "3", {"ex05_1.py": own}).attempts) == ["01.1", "05.1"]
    student = of(tmp_path / "4", {"ex05_1.py": own, "ex01_1.py": right("01.1")})
    assert numbers(student) == {"01.1": ["ex01_1.py"], "05.1": ["ex05_1.py"]}


def test_a_file_with_the_number_of_another_exercise(tmp_path):
    student = of(tmp_path, {"ex01_1.py": right("01.2")})
    assert list(student.attempts) == ["01.2"] and "found in ex01_1.py" in student.remarks["01.2"][0]
    misspelled = "import numpy as np\n\ndef softmax(z):\n    return z\n\ndef crossentropy(p, t):\n    return softmax(p)\n"
    assert list(of(tmp_path / "2", {"ex01_3.py": misspelled}).attempts)[-1] == "01.3"


def test_words_in_strings_and_comments_define_nothing(tmp_path):
    text = '"""\ndef softmax(z):\n    pass\n"""\n# def softmax(z): pass\nx = "def softmax(z):"\n'
    student = of(tmp_path, {"plan.py": text})
    assert not student.attempts and "plan.py" in student.problems[0].where


def test_every_exercise_s_file_is_found_by_its_name_and_by_its_content(tmp_path):
    files = {f"{number}/{'x.py' if i % 2 else exercise.file}": exercise.edited()
             for i, (number, exercise) in enumerate(exercises().items())}
    students, _ = read(tmp_path, {f"kim {path}": content for path, content in files.items()})
    assert {name.removeprefix("kim "): list(student.attempts) for name, student in students.items()} == {
        number: [number] for number in exercises()}


@pytest.mark.parametrize("names", [
    ["ex01_1_old.py", "ex01_1 - Copy.py", "ex01_1.py", "ex01_1 (1).py", "ex01_1 (2).py", "ex01_1_final.py"],
    ["Copy of ex01_1.py", "ex01_1.py", "ex01_1-1.py", "ex01_1-2.py", "ex01_1-10.py"],
    ["ex01_1_v1.py", "ex01_1_v2.py", "ex01_1_new.py", "ex01_1_final2.py"]])
def test_the_newest_of_several_files_by_their_names(names, tmp_path):
    student = of(tmp_path, {name: right("01.1", name) for name in reversed(names)})
    assert numbers(student) == {"01.1": names}
    remark = student.remarks["01.1"][0]
    assert remark.startswith(f"{len(names)} files; the newest counts: {names[-1]} (not ") and remark.endswith(", by its name")
    assert student.files["ex01_1_softmax.py"] == student.attempts["01.1"][-1].content


def test_the_newest_of_several_files_by_time_and_content(tmp_path):
    names = ["ex01_1_softmax.py", "softmax.py", "solution.py"]
    for folder, order in (("a", names), ("b", names[::-1])):
        files = {name: right("01.1", name) for name in order}
        of(tmp_path / folder, files)
        for i, name in enumerate(order):
            os.utime(tmp_path / folder / "kim" / name, (10 ** 9 + 600 * i,) * 2)
        student = of(tmp_path / folder, {"readme": "x"})
        assert numbers(student)["01.1"] == order and "by the time of the file" in student.remarks["01.1"][0]
    student = of(tmp_path / "c", {"ex01_1_softmax.py": choose("01.1").skeleton(), "ex01_1_old.py": right("01.1")})
    assert numbers(student)["01.1"] == ["ex01_1_softmax.py", "ex01_1_old.py"]      # an untouched skeleton is never newer
    assert "because it was filled in" in student.remarks["01.1"][0]
    students, _ = read(tmp_path / "canvas", {"kim_12_10002_a_ex01_1.py": right("01.1"),
                                             "kim_12_10001_b_ex01_1.py": right("01.1", "2")})
    assert students["kim"].remarks["01.1"][0].endswith(", by the order of uploads")
    student = of(tmp_path / "d", {"ex01_1.py": right("01.1"), "sub/ex01_1 (1).py": right("01.1")})
    assert len(student.attempts["01.1"]) == 1 and not student.remarks               # equal files are one attempt


@pytest.mark.parametrize("stem, plain", [("ex5-2", "ex5-2"), ("ex05-2", "ex05"), ("5-2", "5-2"), ("x (3)", "x"), ("05", "05"),
                                         ("a-1", "a"), ("final", "final"), ("Copy of Copy of x", "Copy of x")])
def test_marks_are_not_taken_for_numbers(stem, plain):
    assert split_marks(stem)[0] == plain


def test_with_one_exercise_any_only_file_is_taken_for_it(tmp_path):
    assert list(of(tmp_path, {"main.py": "def my_function(z): pass"}, ["01.1"]).attempts) == ["01.1"]
    assert not of(tmp_path / "2", {"main.py": "def my_function(z): pass"}, ["01.1", "01.2"]).attempts
    students, _ = read(tmp_path / "3", {"kim.py": "broken(", "lee.py": right("01.1")}, ["01.1"])
    assert {name: list(student.attempts) for name, student in students.items()} == {"kim": ["01.1"], "lee": ["01.1"]}


def test_a_number_that_is_no_exercise_s_is_said(tmp_path):
    student = of(tmp_path, {"ex97_1_else.py": "x = 1"})
    assert "exercise 97.1, which does not exist" in student.problems[0].sentence and not student.problems[0].number
