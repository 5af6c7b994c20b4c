"""A class as four systems deliver it, with everything that students do to their files: every row is the one owed."""

import dataclasses
import datetime
import json
import math
import re
import zipfile

import pytest
from helpers import deliveries
from helpers.commands import run
from helpers.deliveries import unpack
from helpers.gradebook_files import moodle_worksheet
from helpers.habits import HABITS
from helpers.pupil import DUE
from helpers.pupils import SHEET, make_class

DAY = datetime.timedelta(days=1)

# The id by which a system's pupils are told apart, and how its delivery is written to tmp_path.
WAYS = {
    "canvas": ("canvas", lambda pupils, path: deliveries.canvas(pupils, path / "submissions.zip")),
    "canvas, unpacked": ("canvas", lambda pupils, path: unpack(zip_of(deliveries.canvas, pupils, path))),
    "canvas, flagged names": ("canvas", lambda pupils, path: deliveries.canvas(pupils, path / "c.zip", flagged=True)),
    "canvas, anonymous": ("anonymous", lambda pupils, path: deliveries.canvas(pupils, path / "c.zip", anonymous=True)),
    "moodle": ("moodle", lambda pupils, path: deliveries.moodle(pupils, path / "sheet.zip")),
    "moodle, unpacked": ("moodle", lambda pupils, path: unpack(zip_of(deliveries.moodle, pupils, path))),
    "moodle, old": ("moodle", lambda pupils, path: deliveries.moodle(pupils, path / "sheet.zip", old=True)),
    "moodle, flat": ("moodle", lambda pupils, path: deliveries.moodle(pupils, path / "sheet.zip", folders=False)),
    "moodle, blind": ("moodle", lambda pupils, path: deliveries.moodle(pupils, path / "s.zip", blind=True,
                                                                       language="de")),
    "gradescope": ("gradescope", lambda pupils, path: deliveries.gradescope(pupils, path / "submissions.zip")),
    "gradescope, unpacked": ("gradescope", lambda pupils, path: unpack(zip_of(deliveries.gradescope, pupils, path))),
    "github": ("github", lambda pupils, path: deliveries.github(pupils, path)),
    "github, starter code": ("github", lambda pupils, path: deliveries.github(pupils, path, starter=SHEET)),
    "a zip for each exercise": ("canvas", lambda pupils, path: deliveries.canvas_by_exercise(pupils, path)),
    "folders": ("login", lambda pupils, path: deliveries.folders(pupils, path)),
    "loose files": ("login", lambda pupils, path: deliveries.loose(pupils, path)),
    "notebooks": ("login", lambda pupils, path: deliveries.notebooks(pupils, path)),
}
FEW = {"notebooks": ["one notebook"], "loose files": ["plain", "short"], "a zip for each exercise": ["plain", "short"]}


def zip_of(write, pupils, path):
    write(pupils, path / "download.zip")
    return path / "download.zip"


def deliver(way, pupils, path):
    """Writes the delivery. Returns the folder or zip that a teacher names, and the system."""
    system, write = WAYS[way]
    path.mkdir()
    place = write(pupils, path)
    return place or next(path.iterdir()), system


def deviations(pupils, document, system):
    """Returns a sentence for every row that is not the one owed, and for every student who is missing or too many."""
    found, known = [], {}
    for student in document["students"]:
        key = student["student"] if system in ("login", "anonymous") else str(student["ids"].get(system))
        known.setdefault(key, []).append(student)
    for pupil in pupils:
        here = known.pop(next((key for key in known if matches(pupil, key, known[key], system)), None), [])
        if len(here) > 1:
            found.append(f"{pupil.habit}: {pupil.name} is there {len(here)} times")
        elif not here and pupil.hands_in:
            found.append(f"{pupil.habit}: {pupil.name} is dropped")
        for student in here:
            tests = {test["name"][2:6].replace("_", "."): test for test in student["tests"]}
            found += [f"{pupil.habit}: {pupil.name}, {number}: {wrong}" for number, truth in pupil.truth.items()
                      for wrong in differences(truth, tests.get(number))]
    return found + [f"nobody's: {key} {[student['student'] for student in students]}" for key, students in known.items()]


def matches(pupil, key, students, system):
    """Returns True if this id, or in the absence of ids the name, is the pupil's."""
    if system == "anonymous":
        return key == f"anon_{pupil.ids['anonymous']}"
    if system != "login":
        return key == str(pupil.ids[system])
    return any(pupil.ids["login"] in re.split(r"[^\w-]|_", student["student"]) for student in students)


def differences(truth, test):
    """Yields what is wrong with one entry of the JSON file."""
    if test is None:
        yield f"no row, owed {truth}"
        return
    what = f"got {test['status']} {test['points']} {test['misconceptions']} {test['note']!r}"
    if test["status"] not in truth.status.split("|") or test["points"] != truth.points:
        yield f"{what}, owed {truth}"
    named = {name for entry in test["misconceptions"] for name in entry}
    if truth.mistakes and not named & set(truth.mistakes):
        yield f"{what}, owed one of {truth.mistakes}"
    told = "; ".join([test["note"], *test["remarks"]])
    if truth.note and not any(part in told for part in truth.note.split("|")):
        yield f"{what}, the note should contain {truth.note!r}"


def grade(capsys, place, path, *options):
    """The JSON file of a grading of the place, and what was printed."""
    code, out, error = run(capsys, "grade", place, "--out", path / "scores.csv", "--json", path / "scores.json",
                           "--allow-root", "--seed", "3", *options)
    assert code == 0, error
    return json.loads((path / "scores.json").read_text(encoding="utf-8")), out + error


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_every_row_of_every_delivery_is_the_one_owed(way, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("numpy_transformer.views.write_figure", lambda figure, path: path)
    pupils = make_class(len(HABITS) + 4, habits=FEW.get(way))
    place, system = deliver(way, pupils, tmp_path / "delivery")
    document, _ = grade(capsys, place, tmp_path)
    assert deviations(pupils, document, system) == []


@pytest.mark.slow
@pytest.mark.parametrize("way", ["gradescope", "github", "moodle", "canvas"])
def test_late_work_loses_what_the_times_of_each_system_say(way, tmp_path, capsys, monkeypatch):
    """Canvas only says that work is late, which is enough for a single deduction."""
    monkeypatch.setattr("numpy_transformer.views.write_figure", lambda figure, path: path)
    pupils = make_class(30, seed=6, habits=["plain", "zip", "one notebook"])
    place, system = deliver(way, pupils, tmp_path / "delivery")
    moodle_worksheet(pupils, tmp_path / "worksheet.csv", 12, "de")
    options = ["--moodle", tmp_path / "worksheet.csv"] if way == "moodle" else []
    rate = "10%" if way == "canvas" else "10%/day"
    document, _ = grade(capsys, place, tmp_path, "--due", DUE.strftime("%Y-%m-%d %H:%M"), "--timezone",
                        "Europe/Berlin", "--late", rate, *options)
    assert {math.ceil((pupil.submitted - DUE) / DAY) for pupil in pupils if pupil.late} == {1, 2}
    for pupil in [pupil for pupil in pupils if pupil.late]:
        days = 1 if way == "canvas" else math.ceil((pupil.submitted - DUE) / DAY)
        pupil.truth = {number: dataclasses.replace(truth, points=round(truth.points * (1 - days / 10), 2))
                       for number, truth in pupil.truth.items()}
    assert deviations(pupils, document, system) == []


@pytest.mark.slow
def test_the_class_is_always_the_same_and_has_every_habit(tmp_path):
    pupils = make_class(len(HABITS))
    assert [pupil.habit for pupil in pupils] == list(HABITS) and len({pupil.name for pupil in pupils}) < len(pupils)
    assert {status for pupil in pupils for truth in pupil.truth.values() for status in truth.status.split("|")} >= {
        "pass", "fail", "todo", "error", "missing"}
    for i in range(2):
        deliveries.canvas(make_class(len(HABITS)), tmp_path / f"{i}.zip")
    assert (tmp_path / "0.zip").read_bytes() == (tmp_path / "1.zip").read_bytes()
    names = zipfile.ZipFile(tmp_path / "0.zip").namelist()
    assert any("_LATE_" in name for name in names) and not any(name.isascii() for name in names if "40000" in name)
