"""Moodle's grading worksheet is filled as its importer needs it, in any language."""

import html
import re

import pytest
from helpers.gradebook_cells import moodle_deviations, read, total
from helpers.gradebook_files import WORKSHEET, moodle_worksheet
from helpers.graded_rows import handed_in, people_of, row
from helpers.pupils import SHEET, make_class

from numpy_transformer.grading.gradebooks.moodle import LONGEST, MoodleWorksheet
from numpy_transformer.grading.gradebooks.people import people

NAMES = "Identifier,Full name,Status,Grade,Maximum Grade,Grade can be changed,Last modified (submission)"


@pytest.fixture(scope="module")
def pupils():
    return make_class(40, seed=4)


def write(tmp_path, text):
    path = tmp_path / "worksheet.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("known", [("moodle",), ("email",)])
@pytest.mark.parametrize("dialect", [{}, {"language": "de", "id_number": True}, {"language": "fr", "bom": False},
                                     {"blind": True}])
def test_only_the_cells_owed_change(pupils, tmp_path, dialect, known):
    if "blind" in dialect and "moodle" not in known:
        pytest.skip("without names, only the number identifies a student")
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    moodle_worksheet(pupils, before, 100, **dialect)
    worksheet, students = MoodleWorksheet(before), people_of(pupils, known)
    for person in students:
        person.name = "Participant" if "blind" in dialect else person.name
    worksheet.fill(students)
    after.write_bytes(worksheet.sheet.content())

    def grade(pupil):
        return round(total(pupil) * 100 / students[0].max, 2) if handed_in(pupil, *SHEET) else None

    header = WORKSHEET[dialect.get("language", "en")]
    assert moodle_deviations(before, after, pupils, grade, header[4], header[9:]) == []
    assert sum(grade(pupil) is not None for pupil in pupils) > 20


def test_columns_are_found_without_knowing_the_language(pupils, tmp_path):
    path = tmp_path / "worksheet.csv"
    moodle_worksheet(pupils, path, 24, "de")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"Bestwertung", b"Maximum pont").replace(b"Feedback als Kommentar", b"Szoveg"))
    assert content != path.read_bytes()
    worksheet = MoodleWorksheet(path)
    header = read(path)[0][0]
    found = worksheet.identifier, worksheet.grade, worksheet.maximum, worksheet.comments
    assert [header[i] for i in found] == ["ID", "Bewertung", "Maximum pont", "Szoveg"]


def test_names_find_their_rows_in_either_order(tmp_path):
    path = write(tmp_path, f"{NAMES},Last modified (grade)\n"
                           "Participant 1,Kim van der Lee,s,,10.00,Yes,-,-\nParticipant 2,Zoë Groß,s,,10.00,Yes,-,-\n")
    worksheet = MoodleWorksheet(path)
    worksheet.fill(people([row("van der Lee Kim", "01.2"), row("zoe_gross", "01.2", "fail")]))
    text = worksheet.sheet.content().decode()
    assert "Kim van der Lee,s,10,10.00" in text and "Zoë Groß,s,0,10.00" in text


def test_names_without_spaces_as_canvas_writes_them_find_their_rows(tmp_path):
    path = write(tmp_path, f"{NAMES},Last modified (grade)\nParticipant 1,Zoë de la Cruz-Smith,s,,10.00,Yes,-,-\n")
    worksheet = MoodleWorksheet(path)
    assert worksheet.fill(people([row("delacruzsmithzoë", "01.2", ids={"canvas": "40"})])).entered == {1}


def test_of_two_with_one_name_the_login_decides(tmp_path):
    path = write(tmp_path, f"{NAMES.replace('Status', 'Email address,Status')},Last modified (grade)\n"
                           "Participant 1,Kim Lee,klee1@example.edu,s,,10.00,Yes,-,-\n"
                           "Participant 2,Kim Lee,klee2@example.edu,s,,10.00,Yes,-,-\n")
    worksheet = MoodleWorksheet(path)
    students = people([row("Kim Lee (S7)", "01.2", ids={"gradescope": "S7", "login": "klee2"}), row("Kim Lee", "01.2")])
    filling = worksheet.fill(students)
    assert filling.entered == {2}
    assert filling.sentences[0] == ("Not entered, because Kim Lee may be Kim Lee (Participant 1, row 2) or "
                                    "Kim Lee (Participant 2, row 3)")


def test_comments_are_html_that_php_and_spreadsheets_read(tmp_path):
    path = write(tmp_path, f"{NAMES},Last modified (grade),Feedback comments\n"
                           "Participant 1,Kim,s,,10.00,Yes,-,-,\n")
    worksheet = MoodleWorksheet(path)
    nasty = '=HYPERLINK("http://example.org") <script>alert(1)</script> C:\\'
    worksheet.fill(people([row("Kim", "01.2", "fail", said=(nasty,), printed=nasty, note="for the teacher")]))
    cell = read_cell(tmp_path, worksheet)
    assert cell.startswith("<p>numpy-transformer: 0 of 2 points</p>")
    assert "\\" not in cell and '"' not in cell and "<script>" not in cell and "for the teacher" not in cell
    assert set(re.findall(r"</?(\w+)", cell)) == {"p", "pre"}
    assert nasty in " ".join(html.unescape(cell).split())


def test_names_that_do_not_fit_the_number_are_told(tmp_path):
    path = write(tmp_path, f"{NAMES},Last modified (grade)\nParticipant 1,Kim Lee,s,,10.00,Yes,-,-\n"
                           "Participant 2,Zoe Adams,s,,10.00,Yes,-,-\n")
    worksheet = MoodleWorksheet(path)
    filling = worksheet.fill(people([row("Zoe Adams", "01.2", ids={"moodle": "1"})]))
    assert not filling.entered and "another assignment" in filling.sentences[0]


def read_cell(tmp_path, worksheet):
    path = tmp_path / "after.csv"
    path.write_bytes(worksheet.sheet.content())
    return read(path)[0][1][-1]


def test_comments_of_teachers_stay_and_ours_are_replaced(tmp_path):
    path = write(tmp_path, f"{NAMES},Last modified (grade),Feedback comments\n"
                           "Participant 1,Kim,s,3.00,10.00,Yes,-,\"Dienstag, 13. März 2024, 10:15\",well done\n"
                           "Participant 2,Zoe,s,3.00,10.00,Yes,-,\"Sunday, 22 November 2026, 12:30 PM\","
                           "<p>numpy-transformer: 1 of 2 points</p>\n")
    worksheet = MoodleWorksheet(path)
    filling = worksheet.fill(people([row("Kim", "01.2"), row("Zoe", "01.2")]))
    text = worksheet.sheet.content().decode()
    assert "well done" in text and "1 of 2 points" not in text and "2 of 2 points" in text
    assert text.count("10,10.00") == 2 and '"Dienstag, 13. März 2024, 10:15"' in text
    told = "\n".join(filling.summary())
    assert "because they are not ours, 1: Kim" in told and "more recently, 1: Kim" in told


def test_long_comments_say_what_is_left_out(tmp_path):
    path = write(tmp_path, f"{NAMES},Last modified (grade),Feedback comments\nParticipant 1,Kim,s,,10.00,Yes,-,-,\n")
    worksheet = MoodleWorksheet(path)
    worksheet.fill(people([row("Kim", number, "fail", said=("<" * 3800,)) for number in SHEET]))
    cell = read_cell(tmp_path, worksheet)
    assert len(cell) < LONGEST + 200 and "3 more exercises" in cell


def test_worksheets_without_comments_are_filled_and_told(tmp_path):
    path = write(tmp_path, f"{NAMES},Online text,Last modified (grade)\nParticipant 1,Kim,s,,10.00,Yes,-,hello,-\n"
                           "Participant 2,Zoe,s,,10.00,Yes,-,,-\n")
    worksheet = MoodleWorksheet(path)
    filling = worksheet.fill(people([row("Kim", "01.2")]), zeros=True)
    assert worksheet.sheet.content().decode().endswith(
        "Participant 1,Kim,s,10,10.00,Yes,-,hello,-\nParticipant 2,Zoe,s,0,10.00,Yes,-,,-\n")
    assert any("no column for them" in sentence for sentence in filling.sentences)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", f"{NAMES}\n", "Identifier,Full name,Status,Grade,Scale\n"
                                  "Participant 1,Kim,s,,\"good\nbad\"\n"])
def test_other_files_are_refused_in_one_sentence(tmp_path, text):
    with pytest.raises(ValueError, match="is not a grading worksheet of Moodle"):
        MoodleWorksheet(write(tmp_path, text))
