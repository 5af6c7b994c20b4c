"""What lessons are made of: cells, the functions that they call, their numbers, and text that is wrapped."""

import re

import numpy as np
import pytest
from helpers import ROOT

from numpy_transformer.course import claim, predict, show, show_source
from numpy_transformer.course.lessons import helpers
from numpy_transformer.course.lessons.cells import cells, reading_minutes
from numpy_transformer.course.lessons.files import (
    LESSONS, full_number, lesson_number, lessons_in, part_of, prepared_by, what_is_next)
from numpy_transformer.course.lessons.wrapping import reflow
from numpy_transformer.course.stages.table import STAGES
from numpy_transformer.texts import ENGLISH


def test_cells_know_their_lines():
    source = "before\n# %% [markdown]\n# Prose\n#\n# more\n# %% Code\na = 1\n\n# %%\nb = 2\n"
    found = cells(source)
    assert [(cell.title, cell.line, cell.text) for cell in found] == [
        ("", 0, "before"), ("[markdown]", 2, "# Prose\n#\n# more"), ("Code", 6, "a = 1"), ("", 9, "b = 2")]
    assert found[1].prose == "Prose\n\nmore" and found[2].prose is None
    assert [cell.line for cell in cells(source[7:])] == [1, 5, 8]


def test_a_claim_prints_what_holds_and_raises_with_the_numbers(capsys):
    claim("two is two", 2 == 2, "2")
    assert "✓ two is two   (2)" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="claim does not hold: all are. 1 of 2"):
        claim("all are", [True, False], "1 of 2")


def test_show_prints_shape_range_and_values(capsys):
    show(ones=[[1.0, 1.0, 4.0]], p=np.array([[0.25, 0.75], [1, 0]]))
    out = capsys.readouterr().out
    assert "ones (1, 3) float64  min 1  mean 2  max 4\n" in out
    assert "p (2, 2) float64  min 0  mean 0.5  max 1  rows sum to 1\n" in out


def test_predict_without_a_terminal_prints_question_and_answer(capsys):
    predict("how many?", 3, "Each has one.")
    assert capsys.readouterr().out == "  ? how many?  3\n"


@pytest.mark.parametrize("guess, printed", [("", "    the answer: 3\n    Each has one.\n"), ("3", "    correct: 3\n    Each has one.\n")])
def test_who_has_answered_gets_why(guess, printed, capsys, monkeypatch):
    monkeypatch.setattr(helpers, "ask", lambda question: guess)
    predict("how many?", 3, "Each has one.")
    assert capsys.readouterr().out == printed


def test_the_source_of_a_question_is_shown_without_its_answer():
    source = ('x = 1\npredict("hów?", 3)\npredict("a" "b",\n        (1,\n         2), why="Both (of them).")\n'
              'for n in 1, 2:\n    predict(f"({n}, {x})", answer=n, why="so"); y = 2\nx = 4')
    cell, = cells(f"# %% Title\n{source}\n")
    assert cell.numbered_source == (
        '   2  x = 1\n   3  predict("hów?", ...)\n   4  predict("a" "b",\n   5          ...)\n'
        '   7  for n in 1, 2:\n   8      predict(f"({n}, {x})", ...); y = 2\n   9  x = 4')
    broken, = cells('# %% Title\nx = = 1\npredict("how?", 3)')
    assert broken.numbered_source == '   2  x = = 1\n   3  predict("how?", 3)'


class Documented:
    """A class with a docstring."""

    def method(self):
        """A docstring.

        It has two paragraphs.
        """

        return 'a text, "not a docstring"'


def test_source_is_shown_without_docstrings_below_its_name(capsys):
    show_source(Documented, Documented.method)
    method = "def method(self):\n{0}    return 'a text, \"not a docstring\"'\n"
    assert capsys.readouterr().out == ("  Documented\n      class Documented:\n\n          " + method.format("          ")
                                       + "\n  Documented.method\n      " + method.format("      ") + "\n")


@pytest.mark.parametrize("name, part, following", [
    ("00_a", None, "00b"), ("00b_b", 1, "02c"), ("02c_c", 2, "11"), ("11_d", 3, "21"), ("21_e", 4, "22"),
    ("22_f", 5, None)])
def test_each_part_ends_with_its_test(tmp_path, name, part, following):
    for file in ("00_a", "00b_b", "02c_c", "11_d", "21_e", "22_f"):
        (tmp_path / f"{file}.py").touch()
    _, *test, last = what_is_next(tmp_path / f"{name}.py").splitlines()
    assert [line.endswith(f"exercise start my-exercises test{part}") for line in test] == [True] * (part is not None)
    assert last == ("That was the last lesson." if following is None else f"next: numpy-transformer lesson {following} --step")


@pytest.mark.parametrize("number, said", [
    ("05", "prepares stage 5 of a Transformer of your own: numpy-transformer build start mine, then "
           "numpy-transformer build check 5"),
    ("03", "prepares stages 2 and 8 of a Transformer of your own: numpy-transformer build start mine, then "
           "numpy-transformer build check 2 8"),
    ("21", "goes beyond the 12 stages of a Transformer of your own, which this command shows: "
           "numpy-transformer build status")])
def test_a_lesson_ends_with_the_stages_that_it_prepares(tmp_path, number, said):
    assert what_is_next(tmp_path / f"{number}_a.py").splitlines()[0] == f"This lesson {said}"


def test_only_six_lessons_before_part_5_prepare_no_stage_and_those_that_prepare_one_exist():
    numbers = set(lessons_in(ROOT / "lessons"))
    beyond = {number for number in numbers if not prepared_by(number)}
    assert {number for number in beyond if part_of(number) < 5} == {"16", "17", "18", "20", "20b", "21"}
    assert {number for number in numbers if part_of(number) == 5} <= beyond
    assert numbers >= {lesson for lessons in LESSONS.values() for lesson in lessons} and list(LESSONS) == list(STAGES)


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_the_lessons_that_a_page_names_prepare_its_stage(stage):
    line = (ENGLISH / "stages" / stage.page).read_text(encoding="utf-8").splitlines()[2]
    sentences, command = re.search(r"(Lessons? .*?): `numpy-transformer lesson (\w+) --step`", line).groups()
    named = re.findall(r"\b\d\d[a-z]?\b", sentences)
    assert named and command in named and set(named) <= set(stage.lessons)


@pytest.mark.parametrize("name, number", [
    ("05_attention.py", "05"), ("lessons/00b_scalars.py", "00b"), ("00_why.py", "00"), ("5_a.py", None),
    ("00bb_a.py", None), ("00B_a.py", None), ("05_a.txt", None), ("", None), (None, None)])
def test_a_lesson_is_known_by_the_name_of_its_file(name, number):
    assert lesson_number(name) == number


@pytest.mark.parametrize("text, number", [("5", "05"), ("05", "05"), ("0b", "00b"), ("00B", "00b"), ("", None), ("b", None),
                                          ("005", None), ("05.2", None)])
def test_numbers_of_lessons_are_typed_with_and_without_zeros(text, number):
    assert full_number(text) == number


def test_lessons_stand_in_the_order_of_their_numbers(tmp_path):
    for name in ("01_b.py", "00b_a.py", "00_z.py", "setup.py", "README.md"):
        (tmp_path / name).touch()
    assert list(lessons_in(tmp_path)) == ["00", "00b", "01"]


def test_prose_and_headings_wrap_to_the_terminal_and_wide_formulas_are_marked(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    formula = "    y = softmax(q kᵀ / sqrt(d)) v     a short remark"
    heading = "## A heading that is a little longer than sixty columns, all on one line"
    wide = "    dP = " + "dy vᵀ + " * 8 + "0"
    prose = (f"{heading}\n\n{wide}\n\n"
             "Each token collects from other tokens what it needs, and this sentence\ngoes on for a while.\n\n"
             f"{formula}\n\n1. The first item is long enough to be wrapped to a second line.\n2. The second one is not.")
    assert reflow(prose) == (
        "A heading that is a little longer than sixty columns, all on\none line\n\n"
        f"{wide[:59]}\n      ↳ vᵀ + dy vᵀ + 0\n\n"
        "Each token collects from other tokens what it needs, and\nthis sentence goes on for a while.\n\n"
        f"{formula}\n\n1. The first item is long enough to be wrapped to a second\n   line.\n2. The second one is not.")


def test_minutes_count_words_and_lines_of_code():
    prose = "# %% [markdown]\n" + "# word word word\n" * 400                     # 8 minutes
    code = "# %% Code\n" + "x = 1\n\n    # a comment\n" * 150                   # 12.5 minutes
    assert [reading_minutes(cells(source)) for source in ("", prose, code, prose + code)] == [5, 10, 10, 20]


@pytest.mark.parametrize("guess, answer, right", [
    ("3", 3, True), ("4", 3, False), ("3.0", 3, True), ("(2, 1, 8)", (2, 1, 8), True), ("2 1 8", (2, 1, 8), True),
    ("2, 18", (2, 1, 8), False), ("1,024", 1024, True), ("[.25]", [0.25], True), ("7, 28", "7 and 28", True),
    ("", 3, False), ("two", 2, True), ("minus one", -1, True), ("one third each", 0.33, True), ("a half", 0.25, False),
    ("0.33, 0.33, 0.33", 0.33, True), ("0.33 0.34", 0.33, False), ("two rows, 8 columns", (2, 8), True),
    ("the third of three, so 3", 3, True), ("2**10", 1024, True), ("2^10", 1024, True), ("1.2.3 million", 3, False),
    ("9" * 60 + " ** 99", 3, False), ("999999999 ** 99", 0.5, False), ("1/0", 0.5, False), ("2.5 ** 2", 6.25, False),
    ("2.5 billion", 2_500_000_000, True), ("2.5 million", 2_500_000_000, False), ("1.18", 1.2, True), ("1.26", 1.2, False),
    ("1.2", 1, False), ("0.3333", 0.33, True),
    ("154 digits", 154, True), ("token 4", 4, True), ("0 to 4", 4, False), ("digits", 154, False), ("yes 3", "yes", True),
    ("y", "yes", True), ("n", "yes", False), ("No.", "no", True), ("", "no", False),
    ("1/3", 0.33, True), ("2 / 3", 0.33, False), ("50 %", 0.5, True), ("half", 0.5, True), ("1/2", 0.5, True),
    ("Yes!", "yes", True), ("-1", 1, False), ("exp(-3)", "exp(-3)", True), ("2/3", "2/3", True)])
def test_an_answer_counts_by_its_words_and_numbers(guess, answer, right, capsys, monkeypatch):
    guesses = iter([guess, ""])
    monkeypatch.setattr(helpers, "ask", lambda question: next(guesses))
    predict("how many?", answer)
    assert capsys.readouterr().out == f"    {'correct' if right else 'the answer'}: {answer}\n"
