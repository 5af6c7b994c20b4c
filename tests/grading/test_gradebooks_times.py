"""Times of submission from Moodle's worksheet, in the languages that it comes in."""

import datetime

import pytest
from helpers.gradebook_files import moodle_worksheet
from helpers.pupils import make_class
from helpers.quick import quick

from numpy_transformer.grading.arrival import File, Problem, Student
from numpy_transformer.grading.gradebooks.times import parse_date, tell_times

BERLIN = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize("text, date", [
    ("Sunday, 22 November 2026, 12:30 PM", (2026, 11, 22, 12, 30)),
    ("Sunday, November 22, 2026, 12:05 AM", (2026, 11, 22, 0, 5)),
    ("Mittwoch, 13. März 2024, 10:15", (2024, 3, 13, 10, 15)),
    ("mardi 4 août 2026, 23:59", (2026, 8, 4, 23, 59)), ("mercredi 1 juillet 2026, 09:05", (2026, 7, 1, 9, 5)),
    ("lundi 1 juin 2026, 09:05", (2026, 6, 1, 9, 5)), ("martes, 2 de febrero de 2027, 08:00", (2027, 2, 2, 8, 0)),
    ("martedì, 5 maggio 2026, 18:40", (2026, 5, 5, 18, 40)), ("maandag 3 mei 2027, 14:00", (2027, 5, 3, 14, 0)),
    ("-", None), ("", None), ("Sunday, 31 February 2026, 12:30", None), ("22 Foo 2026, 12:30", None)])
def test_dates_as_moodle_writes_them(text, date):
    assert parse_date(text) == (date and datetime.datetime(*date))


@pytest.mark.parametrize("language", quick(1, ["fr", "en", "de"]))
def test_files_get_the_time_of_their_students_submission(tmp_path, language):
    path = tmp_path / "worksheet.csv"
    pupils = [pupil for pupil in make_class(40, seed=6) if pupil.hands_in]
    moodle_worksheet(pupils, path, 10, language)
    class_ = [Student(f"{pupil.name} ({pupil.ids['moodle']})", {"moodle": str(pupil.ids["moodle"])},
                      {"01.1": [File("a.py", "a.py", b"", "01.1")]}) for pupil in pupils]
    known = datetime.datetime(2026, 1, 1, tzinfo=BERLIN)
    class_[3].attempts["01.1"][0].submitted = known
    class_[4].problems.append(Problem("a.pdf", "01.2", "PDF"))
    assert tell_times(class_, path, "Europe/Berlin") == []
    assert class_[4].problems[0].submitted == class_[4].attempts["01.1"][0].submitted is not None
    for i, (student, pupil) in enumerate(zip(class_, pupils)):
        file, = student.attempts["01.1"]
        owed = known if i == 3 else pupil.submitted.replace(second=0, microsecond=0)
        assert file.submitted == owed
        assert file.time_from == ("" if i == 3 else "Moodle's worksheet")


def test_a_worksheet_without_times_is_told(tmp_path):
    path = tmp_path / "worksheet.csv"
    path.write_text("Identifier,Full name,Status,Grade,Maximum Grade,Grade can be changed,Last modified (grade)\n"
                    "Participant 1,Kim,s,,10.00,Yes,-\n", encoding="utf-8")
    assert "no times of submission" in tell_times([Student("Kim")], path)[0]
