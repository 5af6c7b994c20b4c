"""From a delivery to the gradebook: every cell of the filled file is the one owed, and no other cell changed."""

import pytest
from helpers import deliveries, gradebook_files
from helpers.commands import run
from helpers.gradebook_cells import canvas_deviations, moodle_deviations, total
from helpers.pupils import HABITS, make_class

WEEK = "Week 2: softmax and attention (770002)"
OTHER = {"Reading Quiz (770001)": 6, "Project (770003)": 100}
CHANGED = {"en": ("Feedback comments",),
           "de": ("Feedback als Kommentar",),
           "fr": ("Feedback par commentaires",)}
GRADE = {"en": "Grade", "de": "Bewertung", "fr": "Note"}


@pytest.fixture
def graded(capsys, tmp_path, monkeypatch):
    """A function that grades a delivery with some options."""
    monkeypatch.setattr("numpy_transformer.views.write", lambda figure, path: path)

    def command(*options):
        code, out, error = run(capsys, "grade", tmp_path / "download.zip", "--out", tmp_path / "scores.csv", "--seed",
                               "3", "--allow-root", *options)
        assert code == 0, error
        return out + error
    return command


def only_file(folder, pattern):
    file, = folder.glob(pattern)
    return file


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [{}, {"bom": True, "separator": ";"}, {"two_names": True, "hidden": True}])
@pytest.mark.parametrize("scale", [1, 2.5])
def test_the_gradebook_of_canvas_gets_the_total_of_the_sheet(dialect, scale, graded, tmp_path):
    pupils, most = make_class(len(HABITS) + 6), 12
    deliveries.canvas(pupils, tmp_path / "download.zip")
    gradebook_files.canvas_gradebook(pupils, tmp_path / "grades.csv", {**OTHER, WEEK: scale * most}, **dialect)
    before = (tmp_path / "grades.csv").read_bytes()
    graded("--canvas", tmp_path / "grades.csv", "--column", WEEK)
    owed = {WEEK: lambda pupil: scale * total(pupil) if pupil.hands_in else None}
    filled = only_file(tmp_path, "grades-*.csv")
    assert canvas_deviations(tmp_path / "grades.csv", filled, pupils, owed) == []
    assert (tmp_path / "grades.csv").read_bytes() == before


@pytest.mark.slow
def test_the_gradebook_of_canvas_has_a_column_for_each_exercise(graded, tmp_path):
    pupils = make_class(12, habits=["plain", "short", "former", "nothing"])
    deliveries.canvas(pupils, tmp_path / "download.zip")
    columns = {"Exercise 01.1 (771)": 2, "ex01_2_softmax_backward (772)": 2, "05.1 Attention (773)": 30, "05.2 (774)": 5}
    gradebook_files.canvas_gradebook(pupils, tmp_path / "grades.csv", {**OTHER, **columns})
    graded("--canvas", tmp_path / "grades.csv")
    scales = dict(zip(columns, (("01.1", 1), ("01.2", 1), ("05.1", 10), ("05.2", 1))))
    owed = {title: lambda pupil, number=number, scale=scale: scale * total(pupil, [number]) if pupil.hands_in else None
            for title, (number, scale) in scales.items()}
    assert canvas_deviations(tmp_path / "grades.csv", only_file(tmp_path, "grades-*.csv"), pupils, owed) == []


@pytest.mark.slow
@pytest.mark.parametrize("language, options", [
    ("en", {}), ("de", {}), ("fr", {"bom": False}), ("de", {"blind": True}), ("en", {"id_number": True})])
def test_the_grading_worksheet_of_moodle_is_filled_in_any_language(language, options, graded, tmp_path):
    pupils = make_class(len(HABITS) + 6)
    deliveries.moodle(pupils, tmp_path / "download.zip", language=language, blind=options.get("blind", False))
    gradebook_files.moodle_worksheet(pupils, tmp_path / "grades.csv", 24, language, **options)
    before = (tmp_path / "grades.csv").read_bytes()
    graded("--moodle", tmp_path / "grades.csv")

    def owed(pupil):
        return 2 * total(pupil) if pupil.hands_in else None
    filled = only_file(tmp_path, "grades-*.csv")
    assert moodle_deviations(tmp_path / "grades.csv", filled, pupils, owed, GRADE[language], CHANGED[language]) == []
    assert (tmp_path / "grades.csv").read_bytes() == before
