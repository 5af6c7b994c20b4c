"""nt.exercise: the function or class of a cell is checked as `numpy-transformer exercise check` checks a file."""

import builtins
import linecache
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.commands import python
from helpers.parsed_html import Page

import numpy_transformer as nt
from numpy_transformer.course.checker.feedback import feedback, most_useful_first
from numpy_transformer.course.checker.messages import mistake_names
from numpy_transformer.course.exercises import exercises
from numpy_transformer.course.workbook import Workbook
from numpy_transformer.texts import render


def defined(number, *edits):
    """The solution of an exercise with texts of it replaced, as a function or class, and its file."""
    exercise = exercises()[number]
    text = exercise.header + exercise.text
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    names = {}
    lines = text.splitlines(keepends=True)
    linecache.cache[exercise.file] = (len(text), None, lines, exercise.file)        # as IPython does
    exec(compile(text, exercise.file, "exec"), names)
    return names[exercise.name], text


WRONG = {
    "right": ("05.2", ()),
    "a known mistake": ("08.1", (("x.var(-1, keepdims=True)", "x.var(-1, keepdims=True, ddof=1)"),)),
    "a wrong shape": ("01.2", (("(p * dp).sum(-1, keepdims=True)", "(p * dp).sum(-1)"),)),
    "not written": ("03.1", (("    dtable = ", "    raise NotImplementedError\n    dtable = "),)),
    "a class": ("02.2", (("+ self.bias.data", "+ 3 * self.bias.data"),)),
    "changes an argument": ("01.1", (("p = np.exp(z - z.max(-1, keepdims=True))",
                                      "z -= z.max(-1, keepdims=True); p = np.exp(z)"),)),
}


@pytest.mark.parametrize("name", [
    name if name == "a known mistake" else pytest.param(name, marks=pytest.mark.slow) for name in WRONG])
def test_the_text_is_that_of_the_checker_of_files(name, tmp_path):
    number, edits = WRONG[name]
    answer, text = defined(number, *edits)
    found = nt.exercise.check(number, answer)
    exercise = exercises()[number]
    (tmp_path / exercise.file).write_text(text, encoding="utf-8")
    verdict, run, _ = Workbook(tmp_path).check(exercise)
    lines = list(feedback(exercise, verdict, run.printed, hints='nt.exercise.hint("{}")'))
    assert str(found).splitlines()[:len(lines)] == lines
    assert repr(found) == str(found) and found.passed == (verdict.status == "pass") == (name == "right")


@pytest.mark.parametrize("number, name", [("02", "linear_backward"), ("05", "attention"), ("01.1", "softmax")])
def test_the_name_of_the_answer_says_which_exercise_of_a_lesson_is_meant(number, name):
    solution = next(exercise.solution for exercise in exercises().values() if exercise.name == name)
    found = nt.exercise.check(number, solution)
    assert found.passed and name in str(found)


def test_a_script_prints_each_result_and_a_prompt_does_not_print_it_twice(capsys, monkeypatch):
    found = nt.exercise.check("01.1", lambda: 0)
    shown = capsys.readouterr().out
    assert shown == f"{found}\n" and "ERROR" in shown and 'hints: nt.exercise.hint("01.1")' in shown
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)          # as at a Python prompt
    nt.exercise.check("01.1", lambda: 0)
    assert capsys.readouterr().out == ""


def test_a_notebook_shows_each_result_of_a_cell_once(monkeypatch):
    shown, shell = [], SimpleNamespace(execution_count=7)
    monkeypatch.setattr("numpy_transformer.course.checker.notebook_result.publish", shown.append)
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    first, second = (nt.exercise.check("01.1", lambda: 0) for _ in range(2))
    second._ipython_display_()                  # the last value of the cell
    assert shown == [first, second]
    shell.execution_count = 8
    second._ipython_display_()
    assert shown == [first, second, second]


def test_a_number_that_leaves_the_choice_open_is_refused():
    with pytest.raises(ValueError, match="01.1, 01.2.*name one of them"):
        nt.exercise.check("01", lambda z: z)


@pytest.mark.slow
@pytest.mark.parametrize("number", exercises())
def test_every_solution_passes_and_the_first_known_mistake_is_named(number):
    exercise = exercises()[number]
    assert nt.exercise.check(number, exercise.solution).verdict.status == "pass"
    for mistake in exercise.mistakes[:1]:
        answer = exercise.target(exercise.edited(mistake.edits))
        names = mistake_names(nt.exercise.check(number, answer).verdict.mistakes)
        assert mistake.name in names or mistake.twin and mistake.twin in names


def test_the_page_shows_the_first_wrong_array_beside_the_expected_one():
    def half(z):
        p = np.exp(z - z.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        p[..., 0] *= 1.5                                    # the first column is wrong
        return p

    found = nt.exercise.check("01.1", half)
    page = Page(found._repr_html_())
    assert all(" ".join(render(line).split()) in " ".join(page.words.split()) for line in most_useful_first(found.verdict))
    yours, expected = page.tables
    assert [len(row) for row in yours] == [len(row) for row in expected] == [9] * len(yours)
    wanted = [1.5 * float(row[1]) for row in expected[1:]]
    assert [float(row[1]) for row in yours[1:]] == pytest.approx(wanted, rel=1e-3)
    assert [row[2:] for row in yours[1:]] == [row[2:] for row in expected[1:]]
    assert page.marked == [row[1] for row in yours[1:]]
    case = exercises()["01.1"].cases(0)[0].inputs[0]
    count = case[..., 0].size
    assert f"{count} of {case.size} entries of p are wrong" in page.words


def test_arrays_of_any_number_of_axes_are_shown_around_the_worst_entry():
    from numpy_transformer.course.checker.notebook_result import array_table

    for shape in [(), (3,), (30,), (20, 30), (2, 3, 20, 30), (0, 3)]:
        array = np.arange(np.prod(shape, dtype=int)).reshape(shape) * 1.0
        at = tuple(n // 2 for n in shape)
        page = Page(array_table("y", array, at if array.size else None, np.ones(shape, bool)))
        cells = [cell for row in page.tables[0][bool(shape):] for cell in row[1:]]
        assert len(cells) == np.prod([min(n, 8) for n in shape[-2:]], dtype=int)
        if array.size:
            assert f"{array[at]:.4g}" in cells


def test_answers_to_questions_and_strange_texts_do_not_show():
    exercise = exercises()["01.6"]
    found = nt.exercise.check("01.6", lambda N, V: (0.0,) * len(exercise.outputs))
    assert found.verdict.status == "fail" and Page(found._repr_html_()).tables == []

    def strange(z):
        print("<script>alert(1)</script> & more")
        raise KeyError("<b>bold</b>")

    page = Page(nt.exercise.check("01.1", strange)._repr_html_())
    assert "<script>alert(1)</script> & more" in page.words and "<b>bold</b>" in page.words


def test_functions_without_text_and_from_elsewhere_are_checked_and_errors_name_their_line():
    factor = 2.0
    assert nt.exercise.check("13.2", lambda x, u, p, training, dy: factor * dy).verdict.status == "fail"
    assert nt.exercise.check("01.1", np.tanh).verdict.status == "fail"
    made, _ = defined("05.2")
    assert nt.exercise.check("05_2", made).passed and nt.exercise.check("5.2", made).passed

    def broken(z):
        return z + undefined                                # noqa: F821

    assert "return z + undefined" in str(nt.exercise.check("01.1", broken))


def test_arguments_are_copies_and_the_warnings_of_the_answer_are_part_of_the_text(recwarn):
    def overflowing(z):
        return np.exp(z) / np.exp(z).sum(-1, keepdims=True)

    for _ in range(2):                                      # warnings are not swallowed at the second check
        assert "RuntimeWarning: overflow" in str(nt.exercise.check("01.1", overflowing))
    assert not recwarn.list


CELLS = {"cell 1": """from math import sqrt
import numpy as np
import numpy_transformer as nt
scale, table = 3, np.ones(3)

def total(x):
    return x.sum(-1, keepdims=True)
""", "cell 2": """def mine(p: np.ndarray, dp):
    inner = dp - total(p * dp)
    return scale * p * inner
""", "cell 3": """# a comment

class Own:
    def __init__(self, weight, bias):
        self.w, self.b = nt.Parameter(weight), table
""", "cell 4": """def looks_up(z):
    return z * table
"""}


@pytest.fixture
def cells():
    """What is defined after these cells of a notebook have run."""
    names = {"__name__": "__main__"}
    for name, text in CELLS.items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)     # as IPython does
        exec(compile(text, name, "exec"), names)
    yield names
    for name in CELLS:
        del linecache.cache[name]


def test_the_text_of_a_cell_becomes_a_file_that_runs_by_itself(cells):
    from numpy_transformer.course.checker.cell_source import NotStandalone, as_file

    text, shift = as_file(cells["mine"], exercises()["01.2"], "cell 2")
    assert text.splitlines()[1 - shift] == CELLS["cell 2"].splitlines()[1]
    names = {}
    exec(text, names)
    p, dp = np.random.default_rng(0).random((2, 3, 4))
    assert np.array_equal(names["softmax_backward"](p, dp), cells["mine"](p, dp))
    for answer, file in [(lambda z: z, "cell 2"), (cells["looks_up"], "cell 4"), (np.tanh, None)]:
        with pytest.raises(NotStandalone):                    # no definition, an array, no text
            as_file(answer, exercises()["01.1"], file)


@pytest.mark.slow
def test_the_line_of_a_mistake_without_a_name_is_that_of_the_cell(cells):
    found = nt.exercise.check("01.2", cells["mine"])
    assert "DIAGNOSIS Line 3, `scale * p`" in str(found) and "No known mistake" not in str(found)


def test_bad_input_gets_one_sentence():
    for arguments, error, words in [
            (("05", len), ValueError, "lesson 05 has the exercises 05.1, 05.2, 05.3; name one of them"),
            (("99", len), ValueError, "there is no exercise '99'"), (("05.2", 3), TypeError, "but got an int"),
            ((len, "05.2"), ValueError, "there is no exercise"),
            (("08.3", len), TypeError, "exercise 08.3 asks for a class"),
            (("05.2", np.zeros(3)), TypeError, 'the function itself, as in check("05.2", attention_backward)')]:
        with pytest.raises(error) as raised:
            nt.exercise.check(*arguments)
        assert words in str(raised.value) and "\n" not in str(raised.value)


def test_other_arguments_are_told_without_speaking_of_files():
    found = nt.exercise.check("01.2", lambda p: p)
    text = " ".join(str(found).split())
    assert found.verdict.stage == "arguments" and "too many positional arguments" in text
    assert 'nt.exercise.sheet("01.2")' in text and "reset" not in text and 'nt.exercise.sheet("01.2")' in Page(
        found._repr_html_()).words


def test_hints_come_one_by_one_and_the_sheet_is_the_file(capsys):
    from numpy_transformer.course import exercise as notebook

    notebook.shown_hints.clear()
    exercise = exercises()["04.1"]
    for count in (1, 2, 3, 3):
        nt.exercise.hint("04.1")
        printed = capsys.readouterr().out
        assert max(map(len, printed.splitlines())) <= 80
        shown = " ".join(printed.split())
        assert [hint in shown for hint in exercise.hints] == [i < count for i in range(3)]
    nt.exercise.sheet("4.1")
    assert capsys.readouterr().out.rstrip("\n") == exercise.skeleton().rstrip("\n")


@pytest.mark.slow
def test_nothing_is_imported_before_it_is_used():
    code = ("import sys, numpy_transformer as nt; print('numpy_transformer.course' in sys.modules, "
            "'numpy_transformer.markup' in sys.modules); nt.exercise.check")
    run = python("-c", code)
    assert run.stdout.split() == ["False", "False"], run.stderr
