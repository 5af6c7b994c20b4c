"""From a delivery to the gradebook: every cell of the filled file is the one owed, and no other cell changed."""

import functools

import pytest
from helpers import deliveries, gradebook_files
from helpers.commands import run
from helpers.gradebook_cells import canvas_deviations, moodle_deviations, total
from helpers.habits import HABITS
from helpers.pupils import make_class

from numpy_transformer.cli import main
from numpy_transformer.course.exercises import choose

WEEK = "Week 2: softmax and attention (770002)"
OTHER = {"Reading Quiz (770001)": 6, "Project (770003)": 100}
CHANGED = {"en": ("Feedback comments",),
           "de": ("Feedback als Kommentar",),
           "fr": ("Feedback par commentaires",)}
GRADE = {"en": "Grade", "de": "Bewertung", "fr": "Note"}


PUPILS = make_class(len(HABITS) + 6)


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A function that grades a delivery once, and returns the folder with its table scores.csv."""
    @functools.cache
    def folder(write, **options):
        path = tmp_path_factory.mktemp("class")
        write(PUPILS, path / "download.zip", **options)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("numpy_transformer.views.write_figure", lambda figure, path: path)
            assert main(["grade", str(path / "download.zip"), "--out", str(path / "scores.csv"), "--seed", "3"]) == 0
        return path
    return folder


def fill(capsys, monkeypatch, folder, *options):
    """Fills a gradebook from the table of a class that has been graded. Returns what was printed."""
    monkeypatch.setattr("numpy_transformer.views.write_figure", lambda figure, path: path)
    code, out, error = run(capsys, "grade", "merge", folder / "scores.csv", "--out", folder / "merged.csv", *options)
    assert code == 0, error
    return out + error


def owed(pupil, scale=1, numbers=None):
    """The points of a pupil, or None if the gradebook stays as it is because they handed in nothing."""
    nothing = all("missing" in truth.status.split("|") for number, truth in pupil.truth.items()
                  if numbers is None or number in numbers)
    return None if nothing else scale * total(pupil, numbers)


def only_file(folder, pattern):
    file, = folder.glob(pattern)
    return file


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [{}, {"bom": True, "separator": ";"}, {"two_names": True, "hidden": True}])
@pytest.mark.parametrize("scale", [1, 2.5])
def test_the_gradebook_of_canvas_gets_the_total_of_the_sheet(dialect, scale, graded, tmp_path, capsys, monkeypatch):
    file = tmp_path / "grades.csv"
    gradebook_files.canvas_gradebook(PUPILS, file, {**OTHER, WEEK: scale * 12}, **dialect)
    before = file.read_bytes()
    fill(capsys, monkeypatch, graded(deliveries.canvas), "--canvas", file, "--column", WEEK)
    filled = only_file(tmp_path, "grades-*.csv")
    assert canvas_deviations(file, filled, PUPILS, {WEEK: lambda pupil: owed(pupil, scale)}) == []
    assert file.read_bytes() == before


@pytest.mark.slow
def test_the_gradebook_of_canvas_has_a_column_for_each_exercise(graded, tmp_path, capsys, monkeypatch):
    columns = {"Exercise 01.1 (771)": ("01.1", 1), "ex01_2_softmax_backward (772)": ("01.2", 1),
               "05.1 Attention (773)": ("05.1", 10), "05.2 (774)": ("05.2", 1)}
    most = {title: scale * choose(number).points for title, (number, scale) in columns.items()}
    gradebook_files.canvas_gradebook(PUPILS, tmp_path / "grades.csv", {**OTHER, **most})
    fill(capsys, monkeypatch, graded(deliveries.canvas), "--canvas", tmp_path / "grades.csv")
    wanted = {title: lambda pupil, number=number, scale=scale: owed(pupil, scale, [number])
              for title, (number, scale) in columns.items()}
    assert canvas_deviations(tmp_path / "grades.csv", only_file(tmp_path, "grades-*.csv"), PUPILS, wanted) == []


@pytest.mark.slow
@pytest.mark.parametrize("language, options", [
    ("en", {}), ("de", {}), ("fr", {"bom": False}), ("de", {"blind": True}), ("en", {"id_number": True})])
def test_the_grading_worksheet_of_moodle_is_filled_in_any_language(language, options, graded, tmp_path, capsys,
                                                                   monkeypatch):
    file = tmp_path / "grades.csv"
    delivery = {"language": language, "blind": True} if options.get("blind") else {}
    gradebook_files.moodle_worksheet(PUPILS, file, 24, language, **options)
    before = file.read_bytes()
    fill(capsys, monkeypatch, graded(deliveries.moodle, **delivery), "--moodle", file)
    filled = only_file(tmp_path, "grades-*.csv")
    assert moodle_deviations(file, filled, PUPILS, lambda pupil: owed(pupil, 2), GRADE[language],
                             CHANGED[language]) == []
    assert file.read_bytes() == before
