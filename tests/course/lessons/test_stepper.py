"""Moving between the cells of a lesson with --step: back, to a cell, again; and the variables that are found there."""

import itertools
import os
import re
import shutil
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from helpers import ROOT

from numpy_transformer.course.lessons import helpers
from numpy_transformer.course.lessons.cells import cells
from numpy_transformer.course.lessons.files import lessons_in
from numpy_transformer.course.lessons.run import run_lesson
from numpy_transformer.course.lessons.wrapping import fold, reflow, terminal_width

LESSON = '''# %% [markdown]
# # 07 Counting

# %% A start
import numpy as np
from numpy_transformer.course import predict

rng = np.random.default_rng(1)
count, drawn = 0, []

# %% [markdown]
# Each cell below counts once and draws a number.

# %% One
count += 1
drawn.append(rng.random())
print("count is", count)

# %% Two
count += 1
drawn.append(rng.random())
predict("which cell is this?", "two", "Because it follows the first.")
print("count is", count)

# %% [markdown]
# ## The end
'''
FIRST, SECOND = np.random.default_rng(1).random(2)


@pytest.fixture
def steps(tmp_path, monkeypatch, capsys):
    """Returns a function that steps through a lesson with these lines at its prompts, and returns what it prints."""
    (tmp_path / "lessons").mkdir()
    path = tmp_path / "lessons" / "07_counting.py"

    def run(*lines, source=LESSON, code=0, width=80):
        path.write_text(source, encoding="utf-8")
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
        answers = iter(lines)

        def answer(question):
            print(question, end="")
            try:
                line = next(answers)
            except StopIteration:
                raise EOFError from None
            if isinstance(line, BaseException):
                raise line
            print(f"{line}<")
            return line
        monkeypatch.setattr("builtins.input", answer)
        assert run_lesson(path, True) == code
        assert list(answers) == [] and helpers.ask is None and not helpers.silent
        return capsys.readouterr()
    return run


def said(text, *parts):
    """Asserts that the parts occur in this order. Wrapped sentences are joined first."""
    text, position = text.replace("\n    ", " "), 0
    for part in parts:
        assert part in text[position:], f"{part!r} is not in {text[position:]}"
        position = text.index(part, position) + len(part)


def test_back_to_a_cell_of_code_runs_it_with_the_variables_of_that_point(steps):
    out = steps("", "", "", "", "two", "p drawn", "b", "p drawn", "p count", "").out
    said(out, "count is 2", f"[{FIRST}, {SECOND}]", "b<", "cells 1 to 3 are run again, without output",
         "variables are those before cell 4", "count is 1", f"[{FIRST}]", "p count", "  1\n", "cell 5 of 6: Two", "? which")
    assert out.count("count is 1") == 2         # the first time, and after b; never while cells are run again


def test_back_to_text_runs_nothing_until_a_variable_is_asked_for(steps):
    out = steps("", "", "", "", "two", "b", "b", "l", "p count", "p count").out
    after = out[out.index("l<"):]
    said(after, ">   3  Each cell below", "cells 1 to 2 are run again", "  0\n", "p count<\n  0\n")
    assert after.count("are run") == 1
    out = steps("", "", "", "", "two", "g 3", "", "").out.split("Each cell below")[2]
    said(out, "cell 4 of 6: One", "are run again", "count is 1", "cell 5 of 6: Two")


def test_a_look_back_at_the_text_runs_nothing_and_g_starts_the_cell_again(steps):
    out = steps("", "", "", "p count", "b", "", "p count", "r", "b", "", "g 4", "p drawn").out
    said(out, "count is 1", "b<", "Each cell below", "cell 4 of 6: One", "this cell has been run, and the variables are as it left",
         "  1\n", "r<", "count is 2", "this cell has been run", "g 4<", "cells 1 to 3 are run again", "count is 1", f"[{FIRST}]")
    assert out.count("\ncount is") == 3
    assert steps("", "", "", "b", "c").out.count("\ncount is") == 2              # One, and then Two


def test_going_to_a_later_cell_runs_those_between_without_their_questions(steps):
    out = steps("g 6", "p count, drawn", "g 6", "").out
    said(out, "cell 6 of 6", "The end", "cells 1 to 5 are run first, without output", f"(2, [{FIRST}, {SECOND}])", "cell 6 of 6")
    assert "which cell" not in out and "count is" not in out


def test_changes_of_the_reader_stay_going_forward_and_end_going_back(steps, monkeypatch):
    def python(banner, local, exitmsg):
        local["count"] = 40

    monkeypatch.setattr("code.interact", python)
    out = steps("", "", "i", "g 5", "two", "p count", "g 4", "p count").out
    said(out, "cells 3 to 4 are run first, without output", "correct: two", "count is 42", "  42\n",
         "changes of your own are gone", "count is 1", "  1\n")


def test_again_draws_the_same_numbers_and_keeps_the_variables(steps):
    out = steps("", "", "", "r", "p drawn[0] == drawn[1], count", "b", "r").out
    said(out, "count is 1", "r<", "count is 2", "(True, 2)", "this cell is text")


def test_a_lesson_begins_with_its_minutes_and_says_how_to_come_back(steps):
    said(steps("q").out, "About 5 minutes of reading, in 6 cells, and the questions.", "g N goes to cell N.", "cell 1 of 6")


def test_a_wrong_guess_may_be_tried_again_and_enter_gets_the_answer_and_why(steps):
    out = steps("g 5", "one", "three", "", "r", "one", "Two").out
    said(out, "one< No, that is not it. Try again, or press Enter for the answer:  three< No, that", "the answer: two",
         "Because it follows the first.", "r<", "one< No, that is not it", "Two< correct: two")


def test_the_source_behind_a_question_is_shown_once_it_has_been_answered(steps):
    source = LESSON.replace('print("count is", count)\n\n# %% [markdown]\n# ## The end', 'assert "two" == "t" + "wo"\npredict("and then?", 3)\n'
                            'x = 0\n\n# %% [markdown]\n# ## The end')
    out = steps("g 5", "", "3", "r", "two", "3", "b", "", "two", "3", source=source).out
    said(out, "cell 5 of 6: Two", '  22  predict("which cell is this?", ...)\n', "(Enter alone shows", "the answer: two",
         '\n\n  23  assert "two"', '  24  predict("and then?", ...)\n\n  ? and then?', "correct: 3\n\n  25  x = 0", "r<\n  ? which cell")
    assert out.count("  23  ") == 2 and out.count("(Enter alone") == 1
    out = steps("g 5", "one", "two", "3", "g 4", "", "two", "3", "b", "b", "", "", source=source, width=100).out
    assert out.count("  23  ") == 2             # again when the cell is run from the start


def test_at_a_question_variables_and_expressions_are_no_guesses(steps):
    source = LESSON.replace('"two", "Because it follows the first."', '"no", "It is the second."').replace("which cell is this", "is this the first")
    out = steps("g 5", "v", "p count + 5", "maybe", "hm", "N", "r", "", "r", "y", "", source=source).out
    said(out, "v<\n", "  count            int 2\n", "p count + 5<\n  7 Your answer:", "maybe< yes or no?  hm< yes or no?  N< correct: no",
         "this the first?  < the answer: no", "y< No, that is not it.", "the answer: no It is the second.")


def test_where_a_number_is_wanted_words_are_asked_again(steps):
    source = LESSON.replace('"two", "Because', '2.5, "Because')
    said(steps("g 5", "many", "3", "2.4999", "", source=source).out,
         "many< Please answer with a number:  3< No, that is not it", "2.4999< correct: 2.5 Because it")


def test_the_time_at_a_question_is_no_time_of_the_cell(steps, monkeypatch):
    calls = itertools.count(0, 100)             # each look at the clock is 100 seconds after the one before
    monkeypatch.setattr(time, "perf_counter", lambda: next(calls))
    out = steps("g 5", "one", "two", "g 4", "g 6", "p count", "").out
    said(out, "two< correct", "p count<", "cell 5 is run first, without output (about 300 s)")       # 200 of 500 s were at the question


def test_at_a_question_one_may_ask_what_can_be_typed_and_quit(steps):
    out = steps("g 5", "?", "b", "q").out
    assert out.count("v, p EXPR and q work at a question") == 3 and "No, that is not it" not in out
    said(out, "?<", "Your answer:  q<", "stopped at cell 5 of 6")


def test_keys_are_explained_and_what_is_not_there_is_said(steps):
    out = steps("v", "?", "h", "g 2", "Q").out
    said(out, "v<\n  there are no variables yet", "?<\n  Enter      goes on", "p q @ k.T  prints", "h<\n  Enter", "stopped at cell 2")


def test_changes_are_said_to_be_gone_only_if_there_may_be_some(steps, monkeypatch):
    monkeypatch.setattr("code.interact", lambda banner, local, exitmsg: None)
    out = steps("", "", "", "g 4", "i", "g 4", "g 4").out.split("g 4<")
    assert ["changes of your own are gone" in part.replace("\n    ", " ") for part in out] == [False, False, True, False]


def test_a_page_that_no_browser_shows_is_named_once(steps, monkeypatch, tmp_path):
    monkeypatch.setattr("numpy_transformer.explorer.explorer.open_in_browser", lambda address: False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    out = steps("", "e", source=LESSON.replace("count, drawn = 0, []", "count, drawn = np.zeros(2), []")).out
    assert out.count("page.html") == 1 and "No browser was found here." in out


def test_the_first_cell_has_nothing_before_it_and_others_are_refused(steps):
    out = steps("b", "g 7", "g 0", "g two", "g", "o", "b 2", "g 2", "g 1", "g 2", "p count").out
    said(out, "this is the first cell", "no cell '7'; choose 1 to 6", "no cell '0'", "no cell 'two'", "'g' is not one of",
         "no figure has been drawn", "'b 2' is not one of these keys", "the variables are those at the start", "  0\n")


def test_the_list_fits_the_terminal_and_marks_the_cell(steps):
    source = LESSON.replace("Each cell below", "Each of the cells that stand below this one")
    out = steps("", "l", source=source, width=60).out
    listed = out.split("l<\n")[1].splitlines()[:6]
    assert listed == ["    1  07 Counting", ">   2    A start", "    3  Each of the cells that stand below this one counts...",
                      "    4    One", "    5    Two", "    6  The end"]


def test_an_error_on_the_way_makes_its_cell_the_current_one(steps):
    source = LESSON.replace("count += 1\n", "count += step\n", 1)
    printed = steps("g 5", "p count", "r", "", "two", "g 1", "q", source=source, code=1)
    said(printed.out, "cell 4 raised an error, so the lesson stops there", "  0\n", "cell 5 of 6: Two", "count is 1", "cell 1 of 6")
    assert printed.err.count("NameError: name 'step' is not defined") == 2
    assert not any(name in printed.err for name in ("steps.py", "stepper.py", "revisiting.py"))


def test_a_cell_that_is_mended_does_not_count_as_failed(steps, monkeypatch):
    monkeypatch.setattr("code.interact", lambda banner, local, exitmsg: local.update(step=1))
    source = LESSON.replace("count += 1\n", "count += step\n", 1)
    assert "count is 1" in steps("", "", "", "i", "r", "", "two", "", "", source=source).out


def test_ctrl_c_while_cells_are_run_again_stops_at_that_cell(steps):
    source = LESSON.replace("count += 1\n", "count += 1\nif stop:\n    stop.pop()\n    raise KeyboardInterrupt\n", 1)
    source = source.replace("count, drawn = 0, []", "count, drawn = 0, []\nstop = [1]")
    out = steps("", "", "g 5", "r", "g 3", "p count", source=source).out
    said(out, "cell 4 was interrupted", "r<", "cells 1 to 3 are run again", "interrupted; r runs the cell again",
         "Each cell below", "are run again", "  0\n")


@pytest.mark.parametrize("stop, code", [(KeyboardInterrupt(), 130), (EOFError(), 0)])
def test_stopping_after_going_back_names_the_cell(steps, stop, code):
    assert steps("g 5", "two", "b", stop, code=code).out.endswith("stopped at cell 4 of 6; next time, g 4 goes there\n")


def test_to_the_end_from_a_cell_that_was_gone_back_to(steps):
    out = steps("g 5", "two", "g 3", "c").out
    after = out.split("g 3<")[1]
    said(after, "are run again", "\nOne\ncount is 1\n", "\nTwo\n  ? which cell is this?  two\ncount is 2\n")
    assert "The end" not in after               # nothing is printed below it


@pytest.mark.parametrize("width", [30, 60, 80, 100])
def test_everything_that_is_shown_fits_the_terminal(steps, monkeypatch, width):
    long = "a long claim that says something about all of the values, " * 2
    source = LESSON.replace("import predict", "import claim, predict, show").replace(
        "which cell is this?", "which of the many cells of this lesson is the cell that asks this question now?").replace(
        "Because it", "Because the cell in which this question is asked, " * 2).replace(
        'print("count is", count)', f'claim("{long}", True)\nshow(some_probabilities=np.full((2, 15), 1 / 15))')
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    out = steps("", "", "", "", "one", "two", "v", "l", "unknown", "b", "a", "q", source=source, width=width).out
    lines = [line for line in out.splitlines() if "<" not in line]
    assert max(map(len, lines)) <= width, max(lines, key=len)


@pytest.mark.parametrize("columns, width", [(0, 100), (20, 30), (60, 60), (200, 200)])
def test_the_width_is_that_of_the_terminal_within_limits(monkeypatch, columns, width):
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback: os.terminal_size((columns, 0)))
    assert terminal_width() == width


def test_a_wide_line_of_source_is_continued_with_a_mark(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert fold("    x = first_array + second_array_of_them", "  12  ") == (
        "  12      x = first_array +\n            ↳ second_array_of_them")
    assert fold("first = [second_array_of_it, another_array]", "  12  ") == (
        "  12  first = [second_array_of_it,\n        ↳ another_array]")
    assert fold("short = 1", "  12  ") == "  12  short = 1"
    assert reflow("1. In code:\n```python\nx = 1\n\nif x:\n    y = 2\n```\nSo y is 2.") == (
        "1. In code:\n\n    x = 1\n\n    if x:\n        y = 2\n\nSo y is 2.")
    assert reflow("| a | table |\n|---|---|\n| longer | x |") == "a       table\n──────  ─────\nlonger  x"


@pytest.mark.slow
@pytest.mark.parametrize("number", ["02", "06", "08"])
def test_the_cells_of_a_real_lesson_print_the_same_after_going_back(number, tmp_path, monkeypatch, capsys):
    path = shutil.copy(lessons_in(ROOT / "lessons")[number], tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    every = cells(Path(path).read_text(encoding="utf-8"))
    middle, last = [n for n, cell in enumerate(every, 1) if cell.prose is None][-4::3]
    keys = iter([""] * (len(every) - 1) + [f"g {middle}", f"g {last}", "q"])
    monkeypatch.setattr("builtins.input", lambda question: "" if question.startswith("  ?") else next(keys))
    assert run_lesson(Path(path), True) == 0
    shown = {middle: [], last: []}
    for part in capsys.readouterr().out.split("\nstopped at")[0].split("\n--- cell ")[1:]:
        shown.get(int(part.split()[0]), []).append(part)
    for first, again in shown.values():
        source, _, printed = first.partition("\n\n  ")
        assert again.startswith(source) and again.endswith(printed) and "without output" in again and "✓" in printed


@pytest.mark.parametrize("source, headings", [
    ("# %% [markdown]\n# # T\n# ## 1\n# %% Empty\nx = 1\n# %% [markdown]\n# ## 2\n# %% Full\nprint('a')\n# %% Also\n", "# T|## 2|Full|a"),
    ("# %% [markdown]\n# ## 1\n# %% Full\nprint('a')\n# %% [markdown]\n# ## 2\n# ### 2.1\n# %% Other\nprint()\n", "## 1|Full|a|## 2|### 2.1|Other"),
    ("# %% [markdown]\n# # T\n", "")])
def test_a_straight_run_prints_no_empty_headings(tmp_path, monkeypatch, capsys, source, headings):
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    path = tmp_path / "07_headings.py"
    path.write_text(source, encoding="utf-8")
    assert run_lesson(path, False) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert lines[:-2] == [line for line in headings.split("|") if line]
    assert lines[-2].startswith("This lesson prepares stage 6") and lines[-1] == "That was the last lesson."


def test_the_heading_of_a_cell_that_fails_is_printed_before_the_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    path = tmp_path / "07_headings.py"
    path.write_text("# %% One\nx = 1\n# %% Two\nx = y\n# %% Three\nprint(3)\n", encoding="utf-8")
    assert run_lesson(path, False) == 1
    printed = capsys.readouterr()
    assert printed.out == "\nTwo\n" and "line 4, in <module>" in printed.err


@pytest.fixture
def colors(monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("WT_SESSION", "1")       # on Windows, a terminal with colors


def test_a_terminal_with_colors_shows_styles_that_take_no_columns(colors, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    text = "A **bold** `word` of *ours*, and [a link](README.md) that 2 * 3 * 4 x."
    shown = reflow(f"## Title\n\n{text}\n\n* item\n\n    a * b ** c `d`")
    assert re.sub(r"\x1b\[\d*m", "", shown) == (
        "Title\n\nA bold word of ours, and a\nlink that 2 * 3 * 4 x.\n\n- item\n\n    a * b ** c `d`")
    assert "\x1b[1mTitle\x1b[0m" in shown and "A \x1b[1mbold\x1b[0m \x1b[36mword\x1b[0m of \x1b[1mours\x1b[0m," in shown
    monkeypatch.setenv("COLUMNS", "80")
    cell, = cells("# %% Title\nfor x in 'ab':      # both\n    print(x)\n")
    assert cell.numbered_source == ("   2  \x1b[1mfor\x1b[0m x \x1b[1min\x1b[0m \x1b[36m'ab'\x1b[0m:      \x1b[2m# both\x1b[0m\n"
                                    "   3      print(x)")


@pytest.mark.parametrize("name, value", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_without_colors_shows_neither_styles_nor_marks(colors, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert reflow("# A\n\nA **bold** `word`.") == "A\n\nA bold word."
    cell, = cells("# %% Title\nif x:\n    y")
    assert cell.numbered_source == "   2  if x:\n   3      y"


def test_a_lesson_ends_with_the_command_of_the_next(steps, tmp_path):
    (tmp_path / "lessons" / "07b_after.py").touch()
    (tmp_path / "lessons" / "10_later.py").touch()
    stage = ("\n\nThis lesson prepares stage 6 of a Transformer of your own: numpy-transformer build start mine, then "
             "numpy-transformer build check 6\n")
    assert steps("c").out.endswith(f"{stage}next: numpy-transformer lesson 07b --step\n")
    (tmp_path / "lessons" / "10_later.py").unlink()
    (tmp_path / "lessons" / "07b_after.py").rename(tmp_path / "lessons" / "11_after.py")
    test = "You have reached the end of part 2. Its test: numpy-transformer exercise start my-exercises test2\n"
    assert steps("c").out.endswith(f"{stage}{test}next: numpy-transformer lesson 11 --step\n")
    assert "next:" not in steps("c", "q", source=LESSON.replace("import numpy", "import nimpy"), code=1).out
