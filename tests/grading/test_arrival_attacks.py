"""What one student handed in never says who another one is, and never ends, delays or changes the reading of the others."""

import os
import shutil

import pytest
from helpers.arrivals import lay, right, zipped
from helpers.hostile_arrivals import COSTLY, METADATA, QUICK, classes
from helpers.quick import quick

from numpy_transformer.grading.arrival import read_class, reading_process
from numpy_transformer.grading.arrival.class_place import ClassPlace
from numpy_transformer.grading.arrival.items import Unreadable

posix = pytest.mark.skipif(os.name != "posix", reason="other systems have no limits of processor time")
HONEST = {"Anna": {"ex01_1_softmax.py": right("01.1"), "notes.txt": "hello"}, "Zoe": {"b/ex01_2.py": right("01.2")}}


def others(whole):
    return [student for student in whole.students if "eve" not in student.name.lower()]


def check(folder, files, layout):
    """Reads a class with and without Eve's files: the same others, in the same form, and one Eve. Returns her."""
    class_ = {name: zipped(work) for name, work in {**HONEST, "Eve": files}.items()} if layout == "zips" else None
    lay(folder / "with", {f"{name}.zip": content for name, content in class_.items()} if class_ else {
        f"{name}/{path}": content for name, work in {**HONEST, "Eve": files}.items() for path, content in work.items()})
    lay(folder / "without", {f"{name}.zip": class_[name] for name in HONEST} if class_ else {
        f"{name}/{path}": content for name, work in HONEST.items() for path, content in work.items()})
    whole, without = read_class(folder / "with"), read_class(folder / "without")
    assert whole.form == "folders or files of 3 students" and others(whole) == without.students
    eve, = set(student.name for student in whole.students) - {"Anna", "Zoe"}
    assert eve == "Eve" and all(note.isprintable() for note in whole.notes)
    return next(student for student in whole.students if student.name == "Eve")


@pytest.mark.parametrize("layout", quick(1, ["zips", "folders"]))
@pytest.mark.parametrize("name", QUICK)
def test_what_a_student_hands_in_is_the_student_s(name, layout, tmp_path):
    eve = check(tmp_path, QUICK[name], layout)
    texts = [file.where for files in eve.attempts.values() for file in files]
    texts += [text for problem in eve.problems for text in (problem.where, problem.sentence)]
    assert texts or name == "nothing"
    assert all(map(str.isprintable, texts))


@pytest.mark.slow
@posix
@pytest.mark.parametrize("name", COSTLY)
def test_reading_costs_a_student_no_more_than_the_limits(name, tmp_path, monkeypatch):
    monkeypatch.setattr(reading_process, "SECONDS", 2)
    eve = check(tmp_path, COSTLY[name](), "folders")
    assert eve.problems or name == "a notebook of many statements"


@pytest.mark.slow
@posix
def test_no_class_is_changed_by_what_one_student_hands_in(tmp_path, monkeypatch):
    """2,000 classes in all layouts, with work that was changed at random."""
    monkeypatch.setattr(reading_process, "SECONDS", 2)
    known = {}
    for number, layout, honest, own in classes(seed=31, count=2000):
        folder = tmp_path / f"{number}-submissions" if layout == "github" else tmp_path / str(number)
        lay(folder, {**honest, **own})
        whole = read_class(folder)
        where = [(student.name, student.ids, {key: [file.content for file in files] for key, files in student.attempts.items()},
                  student.problems, student.remarks) for student in others(whole)]
        assert known.setdefault(layout, where) == where and len(whole.students) == 3, (number, layout, whole)
        assert all(text.isprintable() for text in (whole.form, *whole.notes)), (number, layout)
        shutil.rmtree(folder)
    assert len(known) == 6 and all(len(where) == 2 for where in known.values())


def test_folders_that_differ_in_spaces_or_case_are_different_students(tmp_path):
    lay(tmp_path, {f"{name}/ex01_1.py": right("01.1", name) for name in ("Kim Lee", "Kim  Lee", "kim lee", "Kim Lee ", "Lee_")})
    students = read_class(tmp_path).students
    assert len({student.name for student in students}) == 5
    assert {student.attempts["01.1"][0].content.decode().rpartition("# ")[2] for student in students} == {
        "Kim Lee\n", "Kim  Lee\n", "kim lee\n", "Kim Lee \n", "Lee_\n"}
    exact = next(student for student in students if student.name == "Kim Lee")
    assert exact.attempts["01.1"][0].content.endswith(b"# Kim Lee\n")


def test_a_path_in_the_zip_of_a_class_never_loses_its_student(tmp_path):
    """Of a path with more folders than are read, the last 20 names would lead to another student."""
    deep = {f"Eve/{'d/' * count}Anna/ex01_1.py": "x = 1" for count in range(15, 40)}
    (tmp_path / "class.zip").write_bytes(zipped({"Anna/ex01_1.py": right("01.1"), **deep, "Zoe/ex01_1.py": right("01.1")}))
    students = {student.name: student for student in read_class(tmp_path / "class.zip").students}
    assert set(students) == {"Anna", "Eve", "Zoe"}
    assert [file.content.decode() for file in students["Anna"].attempts["01.1"]] == [right("01.1")]


def test_the_layout_can_be_told(tmp_path):
    lay(tmp_path, {"student/submission_metadata.yml": METADATA, "student/submission_1/ex01_1.py": right("01.1"),
                   "student/anna_12_10001_ex01_2.py": right("01.2")})
    student, = read_class(tmp_path, layout="students").students
    assert student.name == "student" and set(student.attempts) == {"01.1", "01.2"} and student.ids == {}


def test_a_system_s_ids_that_cannot_be_printed_are_left_out(tmp_path):
    people = [("Anna", "1"), ("Zoe", '"2\\e[31m"'), ("Ida", '"\\ud800"'), ("Uma", '"a\\nb"')]
    lay(tmp_path, {"submission_metadata.yml": "".join(
        f"submission_{i}:\n  :submitters:\n  - :name: {name}\n    :sid: {sid}\n" for i, (name, sid) in enumerate(people))})
    lay(tmp_path, {f"submission_{i}/ex01_1.py": right("01.1") for i in range(4)})
    whole = read_class(tmp_path)
    assert {student.name: student.ids for student in whole.students}["Anna"] == {"gradescope": "1"}
    assert all(value.isprintable() for student in whole.students for value in student.ids.values())
    assert {note.partition(":")[0] for note in whole.notes if "cannot be printed" in note} >= {"Ida", "Uma"}


@posix
@pytest.mark.parametrize("text", ["0001-01-01 00:00:00 Z", "9999-12-31 23:59:59 -1200", "2026-13-45 99:99:99 Z"])
def test_impossible_times_are_no_times(text, tmp_path):
    lay(tmp_path, {"submission_metadata.yml": f"submission_1:\n  :submitters:\n  - :name: Anna\n  :created_at: {text}\n",
                   "submission_1/ex01_1.py": right("01.1")})
    file, = read_class(tmp_path).students[0].attempts["01.1"]
    assert file.submitted is None and "no possible time" in file.time_from


@posix
def test_a_folder_that_becomes_a_link_while_it_is_read_is_not_followed(tmp_path):
    """The student exchanges the folder, or a file, after it was listed and before it is opened."""
    lay(tmp_path / "secret", {"ex01_2.py": right("01.1")})
    lay(tmp_path / "class", {"Anna/ex01_1.py": right("01.1"), "Eve/work/ex01_2.py": right("01.2"), "Eve/ex05_1.py": "x"})
    with ClassPlace(0, tmp_path / "class") as place:
        folder, inside, file = (place.item(("Eve", *keys)) for keys in (["work"], ["work", "ex01_2.py"], ["ex05_1.py"]))
        assert inside.read().decode() == right("01.2")
        shutil.move(tmp_path / "class/Eve/work", tmp_path / "aside")
        os.symlink(tmp_path / "secret", tmp_path / "class/Eve/work")
        (tmp_path / "class/Eve/ex05_1.py").unlink()
        os.symlink(tmp_path / "secret/ex01_2.py", tmp_path / "class/Eve/ex05_1.py")
        for read in (folder.children, inside.read, file.read):
            with pytest.raises(Unreadable, match="is a link"):
                read()


def test_a_process_that_dies_is_replaced(tmp_path):
    lay(tmp_path, {f"{name}/ex01_1.py": right("01.1") for name in ("Anna", "Zoe")})
    before = read_class(tmp_path)
    reading = reading_process.reading_process()
    reading.process.kill()
    reading.process.wait()
    assert read_class(tmp_path) == before
