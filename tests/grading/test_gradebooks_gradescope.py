"""What Gradescope gets: results.json as its specification says, and an autograder that runs from its zip."""

import configparser
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers.commands import refused, run
from helpers.graded_rows import row

import numpy_transformer
from numpy_transformer.course.exercises import choose
from numpy_transformer.course.sandbox import best_layer
from numpy_transformer.grading.gradebooks import autograder, gradescope, harness
from numpy_transformer.grading.gradebooks.people import people

# {name: types} of the specification
TOP = {"score": (int, float), "execution_time": (int, float), "output": str, "output_format": str, "visibility": str,
       "stdout_visibility": str, "extra_data": dict, "tests": list, "leaderboard": list, "test_output_format": str,
       "test_name_format": str}
TEST = {"score": (int, float), "max_score": (int, float), "status": str, "name": str, "name_format": str, "number": str,
        "output": str, "output_format": str, "tags": list, "visibility": str, "extra_data": dict}


def test_results_follow_the_specification():
    person, = people([row("kim", "05.1"), row("kim", "05.2", "fail", 2.5, said=("dq is wrong",), mistakes=[["ATB-1a"]],
                                              note="for the teacher")], {"kim": ["b.docx cannot be read"]})
    document = json.loads(json.dumps(gradescope.results(person)))
    assert all(isinstance(value, TOP[name]) for name, value in document.items())
    assert all(isinstance(value, TEST[name]) for test in document["tests"] for name, value in test.items())
    assert document["score"] == 5.5 == sum(test["score"] for test in document["tests"])
    assert document["output"] == "1 of 2 exercises passed.\nb.docx cannot be read"
    first, second = document["tests"]
    assert (first["status"], first["max_score"], first["number"], first["name"]) == ("passed", 3, "05.1", "Attention")
    assert (second["status"], second["tags"]) == ("failed", ["fail", "ATB-1a"])
    assert "dq is wrong" in second["output"] and "for the teacher" not in json.dumps(document)


def make_zip(tmp_path, capsys, *options):
    path = tmp_path / "autograder.zip"
    code, text, error = run(capsys, "exercise", "gradescope-zip", path, "05.1", "05.2", *options)
    assert (code, error) == (0, "") and "8 points" in " ".join(text.split())
    return zipfile.ZipFile(path)


def test_the_zip_holds_scripts_at_its_root_and_the_whole_package(tmp_path, capsys):
    archive = make_zip(tmp_path, capsys, "--seed", "7")
    names = set(archive.namelist())
    root = Path(numpy_transformer.__file__).parent
    package = {str(path.relative_to(root.parent).as_posix()) for path in root.rglob("*.py")}
    assert package | {"setup.sh", "run_autograder", "README.md"} <= names
    assert any(name.startswith("numpy_transformer/explorer/page/") for name in names)
    assert not any("__pycache__" in name for name in names)
    for name in ("setup.sh", "run_autograder"):
        assert archive.getinfo(name).external_attr >> 16 & 0o111 == 0o111
        assert archive.read(name).startswith(b"#!/usr/bin/env bash\n")
    assert json.loads(archive.read("settings.json")) == {"exercises": ["05.1", "05.2"], "seed": 7, "seconds": 10.0,
                                                         "trust_students": False, "late": None}
    assert b"nothing is graded" in archive.read("README.md")


def test_trust_and_lateness_are_written_into_the_zip(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(autograder, "package_files", lambda: [])        # for speed
    archive = make_zip(tmp_path, capsys, "--trust-students", "--late", "10%/day")
    settings = json.loads(archive.read("settings.json"))
    assert settings["trust_students"] is True and settings["late"] == "10%/day"
    assert b"This zip was made with --trust-students" in archive.read("README.md")
    assert "--late" in refused(capsys, "exercise", "gradescope-zip", tmp_path / "a.zip", "05", "--late", "a lot")


def test_the_image_installs_what_the_package_needs():
    setup = Path(numpy_transformer.__file__).parents[1] / "setup.cfg"
    if not setup.exists():
        pytest.skip("installed without its sources")
    config = configparser.ConfigParser()
    config.read(setup)
    assert set(config["options"]["install_requires"].split()) == set(autograder.REQUIREMENTS)


def test_unknown_exercises_and_places_are_refused(tmp_path, capsys):
    assert "there is no exercise '99.9'" in refused(capsys, "exercise", "gradescope-zip", tmp_path / "a.zip", "99.9")
    assert "cannot write" in refused(capsys, "exercise", "gradescope-zip", tmp_path / "none" / "a.zip", "05")


METADATA = {"id": 1, "created_at": "2018-08-02T01:22:32.365935-07:00", "users": [{"name": "Kim", "id": 7}],
            "assignment": {"due_date": "2018-07-31T23:00:00.000000-07:00", "late_due_date": None}}


@pytest.mark.parametrize("change, due", [({}, "2018-07-31T23:00:00-07:00"), ({"assignment": {"due_date": None}}, None), (
    {"users": [{"name": "Kim", "assignment": {"due_date": "2018-08-01T23:00:00.000000-07:00"}}]},
    "2018-08-01T23:00:00-07:00")])
def test_lateness_comes_from_the_metadata(tmp_path, change, due):
    (tmp_path / "metadata.json").write_text(json.dumps(METADATA | change), encoding="utf-8")
    path = tmp_path / "submitted.csv"
    options = harness.lateness(tmp_path / "metadata.json", "10%/day", path)
    assert options == ([] if due is None else ["--due", due, "--late", "10%/day", "--submitted", path])
    if due:
        assert path.read_text(encoding="utf-8") == "student,time\nsubmission,2018-08-02T01:22:32-07:00\n"


@pytest.mark.slow
@pytest.mark.skipif(best_layer() is None, reason="no sandbox on this machine")
@pytest.mark.parametrize("edits, score", [(None, 8), ("mistake", 1)])
def test_the_autograder_runs_from_its_zip(tmp_path, capsys, edits, score):
    place = tmp_path / "autograder"
    make_zip(tmp_path, capsys, *(["--late", "1point/day"] if edits else [])).extractall(place / "source")
    (place / "submission_metadata.json").write_text(json.dumps(METADATA), encoding="utf-8")
    (place / "submission").mkdir()
    for exercise in (choose("05.1"), choose("05.2")):
        wrong = edits and exercise.number == "05.2"
        source = exercise.edited(exercise.mistakes[0].edits) if wrong else exercise.edited()
        (place / "submission" / exercise.file).write_text(source, encoding="utf-8")
    if edits:                                   # a student who tries to be somebody else, who is not late
        (place / "submission" / "submission_metadata.yml").write_text(
            "submission_1:\n  :submitters:\n  - :name: early\n    :sid: '1'\n", encoding="utf-8")
        (place / "submission" / "submission_1").mkdir()
        shutil.copy(place / "submission" / choose("05.1").file, place / "submission" / "submission_1")
    ran = subprocess.run([sys.executable, "-m", "numpy_transformer.grading.gradebooks.harness", place], cwd=place,
                         env={**os.environ, "PYTHONPATH": str(place / "source")}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    document = json.loads((place / "results" / "results.json").read_text(encoding="utf-8"))
    assert document["score"] == score and "sandbox: " in ran.stderr
