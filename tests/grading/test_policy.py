"""Deadlines, deductions for late work, free late days and attempts. Expected points are worked out by hand."""

import argparse
import csv
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from helpers.commands import refused, run
from helpers.gradebook_files import moodle_worksheet
from helpers.pupils import make_class

from numpy_transformer.cli import policy_options
from numpy_transformer.course.exercises import choose
from numpy_transformer.grading.arrival import File, Problem, Student
from numpy_transformer.grading.policy import Policy, choose_attempts, settle
from numpy_transformer.grading.rows import Row

DUE = "2026-11-20T23:59+01:00"
BERLIN = timezone(timedelta(hours=1))


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


def row(points, number="05.1", student="kim", most=4, **more):
    return Row(student, number, f"ex{number.replace('.', '_')}", "pass" if points == most else "fail", points, most, 0.1,
               "", **more)


def file(time=None, late=False, where="ex.py"):
    return File("ex.py", where, b"", "05.1", time and at(time), "Gradescope" if time else "", late)


def one(points, time, most=4, due=DUE, late_mark=False, **options):
    """The settled row of one attempt, submitted at this time."""
    policy = Policy.from_options(due=[due] if due else [], **options)
    settled, = settle([[(file(time, late_mark), row(points, most=most))]], policy)
    return settled


@pytest.mark.parametrize("rate, time, points, days", [
    ("10%/day", "2026-11-20 23:59:30", 4, 0),                           # the minute of the deadline is in time
    ("10%/day", "2026-11-21 00:00", 3.6, 1),                            # 10% of 4
    ("10%/day", "2026-11-21 23:59:59", 3.6, 1),
    ("10%/day", "2026-11-22 00:00", 3.2, 2),                            # a second day has started
    ("10%/day, at most 50%", "2026-12-20 12:00", 2, 30),
    ("10%/day, at least 25%", "2026-12-20 12:00", 1, 30),
    ("10%/day", "2026-12-20 12:00", 0, 30),                             # never less than 0
    ("5%/hour", "2026-11-21 02:30", 3.4, 1),                            # 3 started hours: 15% of 4
    ("2points/day", "2026-11-21 12:00", 2, 1),
    ("1 point per day, at most 3 points", "2026-11-30 12:00", 1, 10),
    ("20%", "2026-11-30 12:00", 3.2, 10),                               # once
    ("100%", "2026-11-21 00:00", 0, 1),                                 # late work is not accepted
    ("10%/day, nothing after 3 days", "2026-11-23 12:00", 2.8, 3),
    ("10%/day, nothing after 3 days", "2026-11-24 12:00", 0, 4),
    ("none", "2026-11-22 12:00", 4, 2)])
def test_a_late_file_loses_points_for_each_started_unit(rate, time, points, days):
    settled = one(4, time, late=rate)
    assert (settled.points, settled.late) == (points, days)
    assert settled.deducted == pytest.approx(4 - points) and type(settled.points) is type(points)
    assert bool(settled.remarks) == bool(days) and settled.submitted.startswith(time[:10])


@pytest.mark.parametrize("time, late, more, sentence", [
    ("2026-11-22 02:59", "10%/day", {}, "submitted 2026-11-22 02:59, 27 hours after the deadline 2026-11-20 23:59 "
     "(2 started days): 0.8 of 4 points deducted"),
    ("2026-11-21 00:00:30", "5%/hour", {}, "submitted 2026-11-21 00:00, 1 minute after the deadline 2026-11-20 23:59 "
     "(1 started hour): 0.2 of 4 points deducted"),
    ("2026-11-24 01:00", "10%/day", {"grace": "2h", "free_late_days": 9}, "submitted 2026-11-24 01:00, 3 days after the "
     "deadline 2026-11-20 23:59 (3 started days after the grace period, 3 free late days used): nothing deducted")])
def test_a_student_reads_when_the_file_came_and_how_much_too_late(time, late, more, sentence):
    assert one(4, time, late=late, **more).remarks == [sentence]


def test_times_are_shown_in_the_zone_of_the_deadline():
    early_in_utc = File("ex.py", "ex.py", b"", "05.1", datetime.fromisoformat("2026-10-15T22:59+00:00"))
    policy = Policy.from_options(due=["2026-10-14"], late="10%/day", timezone="Europe/Berlin")
    settled, = settle([[(early_in_utc, row(4))]], policy)
    assert settled.submitted == "2026-10-16T00:59:00+02:00"
    assert settled.remarks[0].startswith("submitted 2026-10-16 00:59, 25 hours after the deadline 2026-10-14 23:59 (2 ")
    without, = settle([[(early_in_utc, row(4))]], Policy.from_options(timezone="Europe/Berlin"))
    assert without.submitted == settled.submitted


def test_percentages_are_of_the_points_earned_or_of_those_possible():
    assert one(1, "2026-11-21 12:00", late="10%/day").points == 0.9
    assert one(1, "2026-11-21 12:00", late="10% of max/day").points == 0.6           # Canvas: 1 - 10% of 4
    assert one(1, "2026-11-21 12:00", late="10% of max/day, at most 5% of max").points == 0.8


def test_points_are_rounded_to_two_decimals_halves_up():
    assert one(3, "2026-11-21 12:00", most=3, late="33.5%/day").points == 1.99       # 3 - 1.005 -> 3 - 1.01
    assert one(1, "2026-11-21 12:00", most=1, late="33.3%/day").points == 0.67


def test_grace_and_extensions_move_the_deadline(tmp_path):
    assert one(4, "2026-11-21 00:13", late="10%/day", grace="15min").points == 4
    assert one(4, "2026-11-21 00:16", late="10%/day", grace="15min").points == 3.6
    path = tmp_path / "extensions.csv"
    path.write_text("student,days,exercise\nKIM,2,\nzoe,3,\nkim,2026-12-24,06\n", encoding="utf-8")
    assert one(4, "2026-11-22 12:00", late="10%/day", extensions=path).points == 4
    assert one(4, "2026-11-23 12:00", late="10%/day", extensions=path).points == 3.6
    path.write_text("name;until\n4711;2026-11-30 12:00\n", encoding="utf-8")
    policy = Policy.from_options(due=[DUE], late="10%/day", extensions=path)
    settled, = settle([[(file("2026-11-29 12:00"), row(4, ids={"canvas": "4711"}))]], policy)
    assert (settled.points, settled.late) == (4, 0)


def test_a_deadline_of_a_lesson_or_an_exercise_comes_before_the_general_one():
    policy = Policy.from_options(due=["2026-11-20T12:00Z", "06=2026-11-27T12:00Z", "06.2=2026-12-24T12:00Z"],
                                 late="50%/day")
    graded = [[(file("2026-11-27 20:00"), row(4, number))] for number in ("05.1", "06.1", "06.2")]
    assert [settled.late for settled in settle(graded, policy)] == [8, 1, 0]


def test_a_day_is_a_day_on_the_clock_when_the_clocks_change():
    pytest.importorskip("zoneinfo").ZoneInfo("Europe/Berlin")
    # On October 25, 2026 clocks go back: 12:30 on the 25th is 25.5 hours after 12:00 on the 24th, and one day late ...
    policy = Policy.from_options(due=["2026-10-24 12:00:00"], late="10%/day", timezone="Europe/Berlin")
    times = ["2026-10-25 11:59:59", "2026-10-25 12:00:01"]
    assert [settle([[(file(time), row(4))]], policy)[0].late for time in times] == [1, 2]
    hours = Policy.from_options(due=["2026-10-24 12:00:00"], late="1%/hour", timezone="Europe/Berlin")
    assert settle([[(file("2026-10-25 11:30"), row(4))]], hours)[0].points == 3.0       # ... but 24.5 hours


def test_free_late_days_are_spent_in_the_order_of_submission_and_once_for_a_deadline():
    policy = Policy.from_options(due=["05=2026-11-20T23:59+01:00", "06=2026-11-27T23:59+01:00"], late="10%/day",
                                 free_late_days=3)
    graded = [[(file("2026-11-29 12:00"), row(4, "06.1"))],                     # two days late, the last to come
              [(file("2026-11-21 12:00"), row(4, "05.1"))],                     # one day late
              [(file("2026-11-22 12:00"), row(4, "05.2"))],                     # two days: only one more to pay
              [(file("2026-11-25 12:00"), row(0, "05.3"))]]                     # nothing to lose: spends none
    settled = {item.number: item for item in settle(graded, policy)}
    assert {number: item.points for number, item in settled.items()} == {"05.1": 4, "05.2": 4, "05.3": 0, "06.1": 3.6}
    assert "1 free late day used" in settled["06.1"].remarks[0] and settled["06.1"].late == 2
    other = settle([[(file("2026-11-23 12:00"), row(4, "05.1", "zoe"))]], policy)[0]
    assert other.points == 4 and "3 free late days used" in other.remarks[0]


def test_without_a_time_nothing_is_invented(tmp_path):
    marked = one(4, None, late="10%/day", late_mark=True)
    assert (marked.points, marked.deducted) == (4, 0) and "nothing was deducted" in marked.note
    policy = Policy.from_options(due=[DUE], late="10%/day")
    sentences = " ".join(policy.sentences([[(file(late=True), row(4))], [(file(), row(4))]]))
    assert "marked late without a time: 1 file" in sentences and "--submitted" in sentences
    assert "on time: 1 file without a time" in sentences
    once = one(4, None, late="20%", late_mark=True, due=None)
    assert (once.points, once.late) == (3.2, 1)
    assert one(4, None, late="10%/day").points == 4
    path = tmp_path / "times.csv"
    path.write_text("student,time\nkim,2026-11-22T12:00+01:00\n", encoding="utf-8")
    assert one(4, None, late="10%/day", late_mark=True, submitted=path).points == 3.2


def test_the_sentences_say_where_times_come_from_and_who_is_unknown(tmp_path):
    path = tmp_path / "extensions.csv"
    path.write_text("Kim,2\nkmi,2\n", encoding="utf-8")
    policy = Policy.from_options(due=[DUE], late="10%/day", extensions=path)
    sentences = " ".join(policy.sentences([[(file("2026-11-20 12:00"), row(4))]]))
    assert "Gradescope (1 file)" in sentences and "kmi" in sentences and "Kim" not in sentences
    assert Policy().sentences([[(file("2026-11-20 12:00"), row(4))]]) == []


def test_an_extension_is_no_other_student_s(tmp_path):
    path = tmp_path / "extensions.csv"
    path.write_text("Kim Lee,2\nida park,2\n", encoding="utf-8")
    policy = Policy.from_options(due=[DUE], late="10%/day", extensions=path)
    names = ("Kim Lee", "kim  lee", "KIM LEE", "Ida Park")
    rows = settle([[(file("2026-11-22 12:00"), row(4, student=name))] for name in names], policy)
    assert {row.student: row.points for row in rows} == {"Kim Lee": 4, "kim  lee": 3.2, "KIM LEE": 3.2, "Ida Park": 4}


def test_the_last_attempt_counts_or_the_best_after_deductions():
    files = [file("2026-11-20 12:00", where="a.py"), file("2026-11-21 12:00", where="b.py"),
             file("2026-11-24 12:00", where="c.py")]
    student = Student("kim", attempts={"05.1": files})
    best = Policy.from_options(due=[DUE], late="10%/day", attempts="best")
    assert choose_attempts(student, "05.1", Policy()) == files[-1:] and choose_attempts(student, "05.1", best) == files
    assert choose_attempts(student, "05.2", best) == []
    graded = [list(zip(files, [row(2), row(4), row(4)]))]
    settled, = settle(graded, best)
    assert settled.points == 3.6 and "the best of 3 attempts counts: number 2, b.py" in settled.remarks[-1]
    wrong, = settle([list(zip(files, [row(0), row(0), row(0)]))], best)
    assert "number 3" in wrong.remarks[-1]                                      # of equals the newest


@pytest.mark.parametrize("number, attempts, where, remark", [
    ("05.1", "best", [f"{i}.py" for i in range(374, 384)], "the best of the last 10 of 384 attempts counts: number 377, 376.py"),
    ("05.1", "best:3", ["381.py", "382.py", "383.py"], "the best of the last 3 of 384 attempts counts: number 384, 383.py"),
    ("05.3", "best", ["0.py"], "the first of 384 attempts counts, because its answer can be guessed: 0.py"),
    ("05.3", "last", ["383.py"], "")])
def test_guesses_do_not_count(number, attempts, where, remark):
    files = [file("2026-11-20 12:00", where=f"{i}.py") for i in range(384)]
    policy = Policy.from_options(attempts=attempts)
    chosen = choose_attempts(Student("kim", attempts={number: files}), number, policy)
    assert [one.where for one in chosen] == where
    rows = [replace(row(4 * (one.where == "376.py")), number=number, remarks=["384 files; the newest counts: x"])
            for one in chosen]
    settled, = settle([list(zip(chosen, rows))], policy, {("kim", number): 384})
    assert settled.remarks == ([remark] if remark else rows[0].remarks)


@pytest.mark.parametrize("text", ["first", "best:0", "best:x", "last:3", "best:99999"])
def test_attempts_that_are_not_understood(text):
    with pytest.raises(ValueError, match="write last, best or best:25"):
        Policy.from_options(attempts=text)


def test_free_late_days_are_not_spent_for_a_late_attempt_that_is_no_better():
    policy = Policy.from_options(due=[DUE], late="10%/day", attempts="best", free_late_days=2)
    settled, = settle([[(file("2026-11-20 12:00"), row(4)), (file("2026-11-22 12:00"), row(4))]], policy)
    assert (settled.points, settled.late) == (4, 0) and "number 1" in settled.remarks[-1]


@pytest.mark.parametrize("problem, options, owed", [
    (Problem("ex.pdf", "05.1", "PDF", at("2026-11-22 12:00")), {"due": [DUE], "late": "10%/day"}, ("2026-11-22T12:00:00+01:00", 2)),
    (Problem("ex.pdf", "", "PDF", None, "Canvas does not tell", True), {"late": "20%"}, ("", 1))])
def test_what_came_late_and_cannot_be_read_is_shown_as_late(problem, options, owed):
    settled, = settle([[(problem, replace(row(0), status="error"))]], Policy.from_options(**options))
    assert (settled.submitted, settled.late) == owed and (settled.points, settled.deducted) == (0, 0)
    assert settled.remarks[0].endswith("nothing deducted")


def test_without_options_rows_stay_as_they_are():
    rows = [row(4), row(2, "05.2"), row(0, student="zoe")]
    assert settle([[(file("2026-11-20 12:00"), rows[0])], [(None, rows[1])], [(file(late=True), rows[2])]], Policy()) == [
        replace(rows[0], submitted="2026-11-20T12:00:00+01:00"), rows[1], rows[2]]


@pytest.mark.parametrize("options, words", [
    ({"due": ["tomorrow"]}, "2026-11-20 23:59"), ({"due": [DUE], "late": "10%/week"}, "10%/day"),
    ({"due": [DUE], "late": "10%/day, at most"}, "at most 50%"), ({"due": [DUE], "grace": "soon"}, "15min"),
    ({"due": ["99=2026-11-20"]}, "exercise"), ({"late": "10%/day"}, "--due"), ({"free_late_days": 3}, "--due"),
    ({"due": ["2026-11-20"], "timezone": "Mars/Olympus"}, "Europe/Berlin"),
    ({"due": [DUE], "extensions": "no such file.csv"}, "no such file.csv")])
def test_what_cannot_be_understood_is_refused_in_a_sentence(options, words):
    with pytest.raises(ValueError, match=words) as error:
        Policy.from_options(**options)
    assert "\n" not in str(error.value)


def test_a_line_that_cannot_be_understood_is_named(tmp_path):
    path = tmp_path / "extensions.csv"
    path.write_text("student,days\nkim,2\nzoe,2O\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 3"):
        Policy.from_options(due=[DUE], extensions=path)


def test_the_command_refuses_before_it_grades(tmp_path, capsys):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "kim_ex01_1.py").write_text(choose("01.1").edited(), encoding="utf-8")
    text = refused(capsys, "grade", tmp_path / "class", "--late", "10%/day", "--trust-students", "--allow-root",
                   "--out", tmp_path / "scores.csv")
    assert "--due" in text


@pytest.mark.slow
def test_the_command_grades_all_attempts_and_deducts(tmp_path, capsys):
    """Canvas: the first attempt is right, the second is not; another student is late, by the mark alone."""
    exercise = choose("01.1")
    (tmp_path / "class").mkdir()
    for name, mistakes in (("kim_101_9001_ex01_1_softmax.py", ()),
                           ("kim_101_9002_ex01_1_softmax-1.py", exercise.mistakes[:1]),
                           ("zoe_LATE_102_9003_ex01_1_softmax.py", ())):
        source = exercise.edited(*(mistake.edits for mistake in mistakes))
        (tmp_path / "class" / name).write_text(source, encoding="utf-8")
    options = ["grade", tmp_path / "class", "--trust-students", "--allow-root", "--out", tmp_path / "scores.csv",
               "--feedback", tmp_path / "feedback"]
    found = []
    for more in (["--late", "25%"], ["--attempts", "best"], ["--late", "none", "--attempts", "last"]):
        code, text, error = run(capsys, *options, *more)
        assert code == 0, error
        assert ("--late 25%; to drop the deductions" in error) == (more[0] == "--attempts")     # the table's rule stays
        with open(tmp_path / "scores.csv", encoding="utf-8", newline="") as file:
            found.append(list(csv.DictReader(file)))
    last, best, plain = found
    assert [row["points"] for row in last] == ["0", "1.5"] and [row["points"] for row in best] == ["2", "1.5"]
    assert [row["points"] for row in plain] == ["0", "2"] and plain[1]["deducted"] == "0" and list(best[0])[-1] == "deducted"
    assert (best[1]["late"], best[1]["deducted"]) == ("1", "0.5") and "the newest counts" not in best[0]["note"]
    assert "the best of 2 attempts counts: number 1" in best[0]["note"]


def test_the_rules_of_the_table_hold_where_the_command_line_names_no_others():
    arguments = argparse.Namespace(**dict.fromkeys(policy_options.TEXTS))
    arguments.late = "none"
    old = {"due": ["05=2026-11-20"], "late": "10%/day", "grace": None, "attempts": "best", "free_late_days": 2,
           "timezone": None}
    said, = policy_options.take_over(arguments, old)
    assert said.startswith("as in the existing table: --due 05=2026-11-20 --attempts best --free-late-days 2; name ")
    assert policy_options.texts(arguments) == {**old, "late": "none"}
    nothing = argparse.Namespace(**dict.fromkeys(policy_options.TEXTS))
    assert policy_options.take_over(nothing, policy_options.TEXTS) == []
    assert policy_options.texts(nothing) == policy_options.TEXTS


@pytest.mark.parametrize("options, words", [
    (["--due", "next friday"], "next friday"), (["--due", "2026-11-20", "--late", "lots"], "lots"),
    (["--moodle", "none.csv"], "there is no file 'none.csv'"), (["--roster", "none.csv"], "there is no file 'none.csv'"),
    (["--summary", "none/summary.csv"], "cannot write")])
def test_wrong_options_are_refused_before_the_class_is_read(options, words, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("numpy_transformer.cli.grade.read_class", lambda *_: pytest.fail("read"))
    monkeypatch.chdir(tmp_path)
    assert words in refused(capsys, "grade", tmp_path, "--trust-students", "--allow-root", *options)


@pytest.mark.slow
def test_regrading_a_late_student_reads_the_times_of_moodles_worksheet(tmp_path, capsys):
    pupils = [pupil for pupil in make_class(40, seed=6) if pupil.hands_in][:2]
    moodle_worksheet(pupils, tmp_path / "worksheet.csv", 10)
    for pupil in pupils:
        folder = tmp_path / "class" / f"{pupil.name}_{pupil.ids['moodle']}_assignsubmission_file"
        folder.mkdir(parents=True)
        (folder / "ex01_1_softmax.py").write_text(choose("01.1").edited(), encoding="utf-8")
    options = ["grade", tmp_path / "class", "--trust-students", "--allow-root", "--out", tmp_path / "scores.csv",
               "--moodle", tmp_path / "worksheet.csv"]
    found = []
    for more in (["--due", "2020-01-01", "--late", "50%"], ["--students", str(pupils[0].ids["moodle"])], []):
        code, _, error = run(capsys, *options, *more)
        assert code == 0, error
        with open(tmp_path / "scores.csv", encoding="utf-8", newline="") as file:
            found.append([(row["points"], row["deducted"]) for row in csv.DictReader(file)])
    assert found == [[("1", "1")] * 2] * 3


@pytest.mark.slow
def test_grading_one_student_again_keeps_the_rules_of_the_table(tmp_path, capsys):
    for name in ("kim", "zoe"):
        (tmp_path / "class" / name).mkdir(parents=True)
        (tmp_path / "class" / name / "ex01_1_softmax.py").write_text(choose("01.1").edited(), encoding="utf-8")
    (tmp_path / "times.csv").write_text("student,time\nkim,2026-11-21T12:00Z\nzoe,2026-11-21T12:00Z\n", encoding="utf-8")
    (tmp_path / "extensions.csv").write_text("kim,3\n", encoding="utf-8")
    options = ["grade", tmp_path / "class", "--trust-students", "--allow-root", "--out", tmp_path / "scores.csv",
               "--submitted", tmp_path / "times.csv"]
    found = []
    for more in (["--due", "2026-11-20T12:00Z", "--late", "50%/day"], ["--students", "zoe"],
                 ["--students", "kim", "--extensions", tmp_path / "extensions.csv"]):
        code, text, error = run(capsys, *options, *more)
        assert code == 0, error
        with open(tmp_path / "scores.csv", encoding="utf-8", newline="") as file:
            found.append([(row["points"], row["late"]) for row in csv.DictReader(file)])
    assert found == [[("1", "1"), ("1", "1")], [("1", "1"), ("1", "1")], [("2", "0"), ("1", "1")]]
    text = refused(capsys, "grade", "merge", tmp_path / "scores.csv", "--out", tmp_path / "all.csv", "--late", "10%")
    assert "when you grade" in text


@pytest.mark.parametrize("options, sentence", [
    ({"due": ["9999-12-31"]}, "is in the year 9999; give a time from 1970 to 2999"),
    ({"due": ["01.2=0001-01-01T00:00+23:59"]}, "the year 1;"),
    ({"due": ["2026-11-20"], "grace": "9" * 400 + " days"}, "is longer than 3650 days"),
    ({"due": ["2026-11-20"], "grace": "999999999999 h"}, "is longer than 3650 days")])
def test_times_beyond_the_calendar_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Policy.from_options(**options)


def test_a_file_of_extensions_with_a_cell_of_any_length_or_year_is_refused(tmp_path):
    path = tmp_path / "extensions.csv"
    for cell, sentence in (("x" * 200_000, "cannot read .*field larger than field limit"),
                           ("9999-12-31", "line 2: .*the year 9999"), ("x" * 1000, "line 2: .{,400}$")):
        path.write_text(f"student,time\nkim,{cell}\n")
        with pytest.raises(ValueError, match=sentence):
            Policy.from_options(due=["2026-11-20"], extensions=path)
