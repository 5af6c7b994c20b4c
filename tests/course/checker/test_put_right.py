"""A place is named only if it is confirmed: an edit that undoes a student's mistake, or a value that is put right."""

import ast
import re
from types import SimpleNamespace

import numpy as np
import pytest

from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.localize import EDITS, WrongAnswer
from numpy_transformer.course.checker.put_right import confirmed, first_wrong_value
from numpy_transformer.course.exercises import choose
from numpy_transformer.course.exercises.observation import Observation
from numpy_transformer.course.sandbox import ProgramTask, run_task
from numpy_transformer.course.sandbox.inside.edits import edits
from numpy_transformer.texts import render


def wrong_answer(number, code, seconds=60):
    """A WrongAnswer of a file with this code, and the file's text."""
    exercise = choose(number)
    key, source = AnswerKey(exercise, 3), f"{exercise.header}{code}"
    run = run_task(source.encode(), ProgramTask(exercise, key.cases, exercise.file))
    return WrongAnswer(key, key.answers(run), exercise.file, lambda task: run_task(source.encode(), task), seconds), source


def lines_named(messages):
    return {int(line) for line in re.findall(r"[Ll]ine (\d+)", render(messages))}


def line_of(source, part):
    return next(i for i, line in enumerate(source.splitlines(), 1) if part in line)


OTHER_FORM = '''def softmax_backward(p, dp):
    doubled = 2 * p
    odd = doubled * dp + p
    total = odd.sum(-1, keepdims=True) / 2 - 0.5
    return p * dp - p * p * total
'''


@pytest.mark.slow
def test_a_right_step_in_a_form_of_its_own_is_not_blamed():
    """`doubled` and `odd` occur in no solution, and are right: with a value of a solution there, all would be wrong."""
    wrong, source = wrong_answer("01.2", OTHER_FORM, seconds=0)
    said = first_wrong_value(wrong)
    assert not lines_named(said) & {line_of(source, "doubled ="), line_of(source, "odd =")}


@pytest.mark.slow
def test_a_value_that_is_put_right_makes_the_rest_right():
    wrong, source = wrong_answer("01.2", OTHER_FORM.replace("/ 2 - 0.5", "/ 2").replace("p * p", "p"), seconds=0)
    said = first_wrong_value(wrong)
    assert lines_named(said) == {line_of(source, "total =")}
    assert "the rest of your code gives the correct dz" in render(said)


@pytest.mark.parametrize("right, found", [([True, True], [(7, False, ["dx"])]), ([False, True], [])])
def test_a_value_that_spoils_a_right_output_is_not_what_is_wrong(right, found):
    """In a program whose calls a driver makes, it is not known which outputs a value feeds."""
    exercise = SimpleNamespace(outputs=("y", "dx"), driver="makes several calls")
    fresh = SimpleNamespace(main_cases=[None], expected=[Observation((np.ones(2), np.array([2.0, 3])))])
    wrong = SimpleNamespace(answer_key=SimpleNamespace(exercise=exercise), fresh=fresh, traced=(None, [], []),
                            wrong_outputs=lambda: [1], rerun=lambda cases, replaced: {}, right_outputs=lambda *_: right)
    assert list(confirmed(wrong, [(7, [[np.array([5.0, 6])]], False)])) == found


@pytest.mark.slow
def test_values_are_put_right_in_fresh_cases_only():
    """What is correct in the graded cases never reaches the student's process."""
    wrong, _ = wrong_answer("01.2", OTHER_FORM.replace("/ 2 - 0.5", "/ 2").replace("p * p", "p"), seconds=0)
    execute, tasks = wrong.execute, []
    wrong.execute = lambda task: tasks.append(task) or execute(task)
    first_wrong_value(wrong)
    sent, = [task for task in tasks if "replaced" in task.rerun]
    assert sent.cases == wrong.fresh.main_cases != wrong.answer_key.main_cases


MERGED_WRONGLY = '''def multi_head_backward(x, w_q, w_k, w_v, dq, dk, dv):
    rows = x.reshape(-1, x.shape[-1])
    gq = dq.reshape(x.shape)
    gk, gv = merge_heads(dk), merge_heads(dv)
    dw_q = rows.T @ gq.reshape(rows.shape)
    dw_k = rows.T @ gk.reshape(rows.shape)
    dw_v = rows.T @ gv.reshape(rows.shape)
    return gq @ w_q.T + gk @ w_k.T - gv @ w_v.T, dw_q, dw_k, dw_v
'''


@pytest.mark.slow
def test_the_entries_of_an_argument_in_another_order_are_put_right():
    """The entries of gq alone say nothing: dq may be reshaped on a right way, too."""
    wrong, source = wrong_answer("07.3", MERGED_WRONGLY, seconds=0)
    said = first_wrong_value(wrong)
    assert lines_named(said) == {line_of(source, "gq =")} and "the rest of your code gives the correct dw_q" in render(said)


@pytest.mark.parametrize("statement, kinds", [
    ("B, T = x.shape", {"unpacking"}), ("if x.shape[0] == 3:\n        x = -x", {"shape test"}),
    ("y = x if x.ndim > 1 else -x", {"shape test"})])
def test_edits_that_no_student_s_mistake_undoes_are_of_kinds_that_explain_nothing(statement, kinds):
    source = f"def f(x):\n    {statement}\n    return x\n"
    found = {edit.kind for edit in edits(ast.parse(source), "f", insertions=True)
             if edit.line == 2 and edit.kind in ("unpacking", "shape test", "comparison", "condition", "order")}
    assert found == kinds and not kinds & set(EDITS)
