"""A gradebook of Canvas is filled without changing anything else."""

import csv
import io
import random

import pytest
from helpers.gradebook_cells import canvas_deviations, total
from helpers.gradebook_files import canvas_gradebook
from helpers.graded_rows import handed_in, people_of, row
from helpers.pupils import SHEET, make_class

from numpy_transformer.course.exercises import choose
from numpy_transformer.grading.gradebooks.canvas import CanvasGradebook
from numpy_transformer.grading.gradebooks.people import Person, people
from numpy_transformer.grading.gradebooks.sheet import Sheet

CHOSEN = [choose(number) for number in SHEET]
ASSIGNMENTS = {"Quiz 1 (7001)": 6, "Lesson 5 (7002)": 16, "01.2 Softmax, backward (7003)": 2,
               "Essay; part 2, long (7004)": 10}
HEADER = "Student,ID,SIS User ID,SIS Login ID,Section,Quiz (1),{}\n    Points Possible,,,,,10.00,{}\n"


@pytest.fixture(scope="module")
def pupils():
    return make_class(40, seed=3)


def book(tmp_path, text, *wanted, chosen=CHOSEN, encoding="utf-8"):
    path = tmp_path / "grades.csv"
    path.write_bytes(text.encode(encoding))
    return CanvasGradebook(path, chosen, wanted)


def filled(gradebook, students, **options):
    filling = gradebook.fill(students, **options)
    return gradebook.sheet.content().decode(gradebook.sheet.encoding), filling.summary()


@pytest.mark.parametrize("known", [("canvas",), ("login",)])
@pytest.mark.parametrize("dialect", [{}, {"bom": True, "hidden": True}, {"separator": ";"}, {"two_names": True}])
def test_only_the_cells_owed_change(pupils, tmp_path, dialect, known):
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    canvas_gradebook(pupils, before, ASSIGNMENTS, **dialect)
    gradebook = CanvasGradebook(before, CHOSEN)
    gradebook.fill(people_of(pupils, known))
    after.write_bytes(gradebook.sheet.content())

    def lesson(pupil):
        return round(total(pupil, ("05.1", "05.2")) * 16 / 8, 2) if handed_in(pupil, "05.1", "05.2") else None

    def exercise(pupil):
        return pupil.truth["01.2"].points if handed_in(pupil, "01.2") else None

    owed = {"Lesson 5 (7002)": lesson, "01.2 Softmax, backward (7003)": exercise}
    assert canvas_deviations(before, after, pupils, owed) == []
    assert sum(lesson(pupil) is not None for pupil in pupils) > 20


def test_names_find_their_rows_and_twins_are_left_to_the_teacher(pupils, tmp_path):
    path = tmp_path / "grades.csv"
    canvas_gradebook(pupils, path, ASSIGNMENTS)
    gradebook = CanvasGradebook(path, CHOSEN)
    found = gradebook.fill(people_of(pupils))
    names = [pupil.name for pupil in pupils]
    twins = {name for name in names if names.count(name) > 1}
    assert "Kim Lee" in twins
    assert {name for name in names if any(name in sentence for sentence in found.sentences)} == twins
    assert found.entered


def test_everything_else_stays_as_it_is_byte_for_byte(tmp_path):
    text = ('"Student",ID,"SIS User ID",SIS Login ID,Section,"Lesson 5 (12)",Current Score\r\n'
            '    Points Possible,,,,,8,(read only)\r\n\r\n'
            '"Lee, ""K"" Kim",7,,kim,"A; ""B""\n2","",=1+1\r\n'
            "Anna,8,,anna,A,1.00,\r\n")
    new, _ = filled(book(tmp_path, text), people([row("someone", "05.2", points=2.5, ids={"canvas": "7"})]))
    assert new == text.replace('"A; ""B""\n2",""', '"A; ""B""\n2","4"')


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252", "utf-16"])
def test_encodings_come_back(tmp_path, encoding):
    text = HEADER.format("Lesson 5 (12)", "5") + 'Müller,7,,,,,\n'
    gradebook = book(tmp_path, text, encoding=encoding)
    gradebook.fill(people([row("x", "05.2", ids={"canvas": "7"})]))
    assert gradebook.sheet.content() == text.replace("Müller,7,,,,,", "Müller,7,,,,,5").encode(encoding)


def test_random_tables_come_back_as_they_are_and_read_like_pythons_csv():
    rng = random.Random(0)
    for _ in range(300):
        delimiter = rng.choice(",;\t")
        rows = [["".join(rng.choices('ab "\',;\t\né', k=rng.randrange(5))) for _ in range(4)] for _ in range(4)]
        rows[0] = list("abcd")                  # the delimiter is told from the first line
        file = io.StringIO()
        csv.writer(file, delimiter=delimiter, lineterminator=rng.choice(["\n", "\r\n"]),
                   quoting=rng.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])).writerows(rows)
        sheet = Sheet(file.getvalue().encode(), "x")
        assert (sheet.rows, sheet.content().decode()) == (rows, file.getvalue())
        at, text = (rng.randrange(4), rng.randrange(4)), rng.choice(["7", 'a "b"', "x;y,z", " \n"])
        sheet.fill(*at, text)
        rows[at[0]][at[1]] = text
        assert list(csv.reader(io.StringIO(sheet.content().decode(), newline=""), delimiter=sheet.delimiter)) == rows


def test_excused_unassigned_and_missing_students_keep_their_cells(tmp_path):
    text = HEADER.format("Lesson 5 (12)", "8") + "A,1,,,,,EX\nB,2,,,,,N/A\nC,3,,,,,3\nD,4,,,,,\n"
    students = people([row(name, "05.2", status, ids={"canvas": i})
                       for name, i, status in (("a", "1", "pass"), ("b", "2", "pass"), ("c", "3", "missing"))])
    new, sentences = filled(book(tmp_path, text), students)
    assert new == text
    kept = {"Left as they were (excused), 1: A", "Left as they were (nothing handed in for lesson 05), 2: C; D"}
    assert kept <= set(sentences)
    new, sentences = filled(book(tmp_path, text), students, zeros=True)
    assert new == text.replace("C,3,,,,,3\nD,4,,,,,", "C,3,,,,,0\nD,4,,,,,0")
    assert "0 entered (nothing handed in for lesson 05), 2: C; D" in sentences


def test_students_outside_of_the_table_and_the_test_student_get_no_zero(tmp_path):
    text = HEADER.format("Lesson 5 (12)", "8") + 'Kim,1,,,,,\nZoe,2,,,,,3\nMia,3,,,,,\n"Student, Test",9,,f00,,,\n'
    students = [*people([row("kim", "05.2", ids={"canvas": "1"})]), Person("zoe", {"canvas": "2"}, [])]
    new, sentences = filled(book(tmp_path, text), students, zeros=True)
    assert new == text.replace("Kim,1,,,,,", "Kim,1,,,,,8").replace("Mia,3,,,,,", "Mia,3,,,,,0")
    assert "Left as they were (not in this table): 1 student" in sentences
    new, sentences = filled(book(tmp_path, text), [*students, Person("ada", {}, [])], zeros=True)
    assert "Mia,3,,,,,\n" in new               # the row may be Ada's
    assert not any("enter by hand" in sentence for sentence in sentences)


def test_all_names_are_told_and_twins_with_their_ids(tmp_path):
    names = [f"N{i}" for i in range(30)] + ["Lee", "Lee"]
    text = HEADER.format("Lesson 5 (12)", "8") + "".join(f"{name},{i},,,,,\n" for i, name in enumerate(names))
    _, sentences = filled(book(tmp_path, text), people([row("x", "05.2", ids={"canvas": "0"})]))
    assert sentences[-1].endswith("; ".join(["31: N1", *names[2:30], "Lee (30)", "Lee (31)"]))


def test_exercises_that_are_entered_nowhere_are_told(tmp_path):
    text = HEADER.format("Lesson 5 (12)", "8") + "Kim,1,,,,,\n"
    students = people([row("kim", number) for number in SHEET])
    _, sentences = filled(book(tmp_path, text), students)
    assert any(sentence.startswith("Not entered anywhere: 01.1, 01.2; name a column") for sentence in sentences)
    _, sentences = filled(book(tmp_path, text, "Lesson 5"), students)
    assert not any("anywhere" in sentence for sentence in sentences)


def test_no_zeros_for_strangers_while_a_submission_has_no_row(tmp_path):
    text = HEADER.format("Lesson 5 (12)", "8") + "D,4,,,,,\n"
    new, sentences = filled(book(tmp_path, text), people([row("kim", "05.2")]), zeros=True)
    assert new == text and any("Zeros were entered only" in sentence for sentence in sentences)
    assert "Not found in the gradebook, enter by hand: kim" in sentences


def test_two_submissions_for_one_row_are_not_entered(tmp_path):
    text = HEADER.format("Lesson 5 (12)", "8") + '"Lee, Kim",4,,,,,\n'
    new, sentences = filled(book(tmp_path, text), people([row("Kim Lee", "05.2"), row("Lee Kim", "05.2", "fail")]))
    assert "Left as they were (not certain whose they are, see above), 1: Lee, Kim" in sentences
    assert new == text and "Not entered, because Kim Lee and Lee Kim may all be Lee, Kim (row 3)" in sentences


@pytest.mark.parametrize("title, numbers", [
    ("05.2", ["05.2"]), ("ex05_2", ["05.2"]), ("Homework: 5.2 attention", ["05.2"]), ("attention_backward", ["05.2"]),
    ("Attention, backward", ["05.2"]), ("Lesson 05", ["05.1", "05.2"]),
    ("lesson #1: softmax", ["01.1", "01.2"])])
def test_columns_are_found_by_name(tmp_path, title, numbers):
    gradebook = book(tmp_path, HEADER.format(f'"{title} (123456)"', "10"))
    assert [target.numbers for target in gradebook.targets] == [numbers]


@pytest.mark.parametrize("title", ["Quiz 5", "05.4", "5", "Attention quiz", "Lesson 7", "Lesson 15", "Sheet 5",
                                   "Version 1.05.2"])
def test_other_columns_are_not_taken(tmp_path, title):
    with pytest.raises(ValueError, match=f"no column of grades.csv .*{title}.*--column"):
        book(tmp_path, HEADER.format(f"{title} (123456)", "10"))


def test_columns_are_named_by_option(tmp_path):
    text = HEADER.format("Midterm = hard (5),A (6),A (7)", "10,5,5")
    found = {target.what: (target.header, target.numbers, target.possible) for target in
             book(tmp_path, text, "Midterm = hard", "05.2=6", "1=A (7)").targets}
    assert found == {"total": ("Midterm = hard (5)", list(SHEET), 10.0), "05.2": ("A (6)", ["05.2"], 5.0),
                     "lesson 01": ("A (7)", ["01.1", "01.2"], 5.0)}
    for wanted in ("midterm", "Midterm hard", "Midterm = hard (5)", "5"):
        assert [target.column for target in book(tmp_path, text, wanted).targets] == [6]
    for wanted, complaint in (("Mid", "no assignment column named 'Mid'"), ("A", "several columns named 'A'.*'A .6.', 'A .7.'"),
                              ("B", "no assignment column named 'B'"), ("07.1=6", "07.1 is not graded")):
        with pytest.raises(ValueError, match=complaint):
            book(tmp_path, text, wanted)


def test_ambiguous_columns_are_listed(tmp_path):
    complaint = r"several columns for lesson 05: 'Lesson 05 \(6\)', 'Lesson 5 \(7\)'.*--column 05=NAME"
    with pytest.raises(ValueError, match=complaint):
        book(tmp_path, HEADER.format("Lesson 05 (6),Lesson 5 (7)", "5,5"))


def test_read_only_columns_are_not_filled(tmp_path):
    with pytest.raises(ValueError, match="no column"):
        book(tmp_path, HEADER.format("Lesson 5 (6)", "(read only)"))


@pytest.mark.parametrize("text, complaint", [
    (HEADER.format("Lesson 5 (6)", "8") + "Kim,1,\n", "row 3 has 3 cells, and the header has 7"), ("", "is empty"),
    ("a,b\n1,2\n", "not a gradebook of Canvas"), ("Student,ID\nKim,1\n", "no row Points Possible"),
    ('Student,ID,"x\n', "grades.csv is not a CSV file: .* line 1 is never closed")])
def test_other_files_are_refused_in_one_sentence(tmp_path, text, complaint):
    with pytest.raises(ValueError, match=complaint):
        book(tmp_path, text)
