"""Every lesson runs without a terminal, keeps its claims, draws its figures; a planted mistake makes a claim fail."""

import re
from pathlib import Path

import pytest
from helpers import ROOT, pseudo_language
from helpers.lessons import planted_mistakes, run
from helpers.pictures import count_colors
from helpers.pseudo_language import in_plain_letters, plain_words
from helpers.results import HELD, PLAIN, results_in_lesson

from numpy_transformer.course.lessons.answers import closing_answers
from numpy_transformer.course.lessons.cells import cells, lines_of_code, reading_minutes, words_of_prose
from numpy_transformer.course.lessons.files import lesson_number, lessons_in

LESSONS = list(lessons_in(ROOT / "lessons").values())
QUICK = "02"                                # the lesson of the default run; the slow run has them all
WIDE = re.compile("[Ａ-Ｚａ-ｚ]")
every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
MISTAKES = planted_mistakes()


def test_there_are_lessons():
    assert {lesson_number(path) for path in LESSONS} == set(MISTAKES)
    assert all(len(planted) >= 2 for planted in MISTAKES.values())


def check_claims_and_figures(path, lesson_run):
    assert lesson_run.returncode == 0, lesson_run.stderr
    held = {*HELD.get(lesson_number(path), ()), *PLAIN.findall(lesson_run.stdout)}
    assert results_in_lesson(path.read_text(encoding="utf-8")) <= held          # helpers/results.py says what this means
    assert lesson_run.stdout.count("✓") >= 5
    assert {file.name for file in lesson_run.folder.iterdir()} == {"lessons", "my-figures"}
    figures = re.findall(r"figure: (.*)", lesson_run.stdout)
    drawn = [f"my-figures/{file.name}" for file in (lesson_run.folder / "my-figures").iterdir()]
    dark = [name for name in drawn if name.endswith("_dark.png")]
    assert dark and {name.replace("_dark", "") for name in dark} <= set(figures)
    assert sorted(figures + dark) == sorted(drawn)
    for name in figures:
        assert Path(name).name.startswith(f"{lesson_number(path)}_")
        assert count_colors(lesson_run.folder / name)[2] > 20                  # not blank


PLANTED = [pytest.param(path, planted, id=f"{path.stem}-{n}") for path in LESSONS
           for n, planted in enumerate(MISTAKES.get(lesson_number(path), []))]


@pytest.mark.slow
@pytest.mark.parametrize("path, planted", PLANTED)
def test_a_planted_mistake_makes_a_claim_fail(path, planted, lesson_run):
    assert lesson_run.returncode == 1 and "AssertionError: claim does not hold" in lesson_run.stderr, lesson_run.stderr


@pytest.mark.parametrize("path", [path for path in LESSONS if lesson_number(path) == QUICK], ids=lambda path: path.stem)
def test_a_lesson_keeps_its_claims_and_draws_its_figures(path, lesson_run):
    check_claims_and_figures(path, lesson_run)


@pytest.mark.slow
@every_lesson
def test_two_runs_print_and_draw_the_same_in_two_languages(path, lesson_run, tmp_path):
    """The second run speaks a language made of English in wide letters, so that lines break at other places."""
    check_claims_and_figures(path, lesson_run)
    pseudo_language.write(tmp_path / "xx", ["lessons"])
    again = run(tmp_path / "again", path, language=tmp_path / "xx")
    said = [line for line in re.split(r"[\r\n]+", again.stderr) if line]
    assert not [line for line in said if not line.startswith("train: ")]        # nothing but the progress of training
    assert in_plain_letters(again.stdout).split() == lesson_run.stdout.split()
    lines = [line for line in again.stdout.splitlines() if re.match(r"  [✓?] |#+ ", line)]
    assert lines and not [line for line in lines if plain_words(line) and not WIDE.search(line)]       # names may be computed
    for file in (lesson_run.folder / "my-figures").iterdir():
        assert file.read_bytes() == (again.folder / "my-figures" / file.name).read_bytes(), file.name


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in LESSONS if lesson_number(path) == "05"], ids=lambda path: path.stem)
def test_the_numbers_in_the_text_are_those_that_the_lesson_prints(path, lesson_run):
    text, = re.findall(r"^# In words: (.*?)^#$", path.read_text(encoding="utf-8"), re.M | re.S)
    numbers = set(re.findall(r"\d\.\d{3}", text))
    assert len(numbers) == 6 and numbers <= set(re.findall(r"\d\.\d{3}", lesson_run.stdout))


@pytest.mark.slow
def test_measured_memory_does_not_depend_on_what_the_stepper_remembers(tmp_path):
    path, = [path for path in LESSONS if lesson_number(path) == "17"]
    result = run(tmp_path / "run", path, "from numpy_transformer.course.lessons.explore import LatestCalls\n"
                                         "LatestCalls().__enter__()")
    assert result.returncode == 0, result.stderr


@every_lesson
def test_cells_are_marked_for_editors(path):
    text = path.read_text(encoding="utf-8")
    titles = [cell.title for cell in cells(text)]
    assert text.startswith(f"# %% [markdown]\n# # {lesson_number(path)} ") and titles.count("[markdown]") >= 4
    assert len(titles) - titles.count("[markdown]") >= 4 and all(titles)
    assert max(map(len, text.splitlines())) <= 120
    assert "\n# ## Exercises\n" in text


@every_lesson
def test_a_lesson_is_short_and_has_a_drawing(path):
    found = cells(path.read_text(encoding="utf-8"))
    assert words_of_prose(found) <= 1200 and lines_of_code(found) <= 200
    assert any(re.search(r"^drawing\(", cell.text, re.M) for cell in found)


@every_lesson
def test_the_answers_on_the_page_fit_the_questions_of_the_lesson(path):
    questions = re.findall(r"^# (\d+)\. ", path.read_text(encoding="utf-8").split("# ## Exercises")[1], re.M)
    assert list(closing_answers(path)) == [int(number) for number in questions]


def test_jupytext_makes_the_same_cells_of_each_lesson():
    jupytext = pytest.importorskip("jupytext")
    for path in LESSONS:
        text = path.read_text(encoding="utf-8")
        notebook = jupytext.reads(text, fmt="py:percent")
        assert [(cell.cell_type == "markdown", cell.source) for cell in notebook.cells] == [
            (cell.prose is not None, cell.prose or cell.text) for cell in cells(text)], path.name
        assert jupytext.writes(notebook, fmt="ipynb")


@every_lesson
def test_the_syllabus_has_a_row_for_it(path):
    text, folder = path.read_text(encoding="utf-8"), path.parent
    syllabus = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    row, = [line for line in syllabus if f"]({path.name})" in line]
    lesson, minutes, afterwards, figure, exercises, paper = [cell.strip() for cell in row.strip("|").split(" | ")]
    assert lesson == f"[{re.search(r'^# # (.*)', text, re.M)[1]}]({path.name})"
    assert int(minutes) == reading_minutes(cells(text))
    assert (folder / re.search(r"\((.*)\)", figure)[1]).exists() and afterwards and paper
    assert int(exercises.split(":")[0]) == len(re.findall(r"^# \d\. ", text.split("# ## Exercises")[1], re.M))
