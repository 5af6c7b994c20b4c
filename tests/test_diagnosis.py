"""What is said of a wrong answer that no catalogue knows, and the order of the stages."""

import numpy as np
import pytest
from test_exercises import play

from numpy_transformer.classroom.diagnosis import Library
from numpy_transformer.classroom.exercise import Exercise, Mistake
from numpy_transformer.classroom.isolation import Came, Run
from numpy_transformer.classroom.verdict import judge


def products(x, w, dy):
    dx = dy @ w.T
    dw = x.T @ dy
    return dx, dw


EXERCISE = Exercise(
    "90", "Products", "02", minutes=5, lines=3, hints=("a.", "b.", "c."), outputs=("dx", "dw"),
    solution=products, reference=lambda x, w, dy: (dy @ w.T, x.T @ dy),
    inputs=lambda rng, n: tuple(rng.standard_normal(shape) for shape in ((n.T, n.D), (n.D, n.F), (n.T, n.F))),
    invariants=(("dx must sum to what dy w gives", lambda inputs, outputs: outputs[0].sum() - (inputs[2] @ inputs[1].T).sum()),),
    mistakes=(Mistake("ONE-1", {"dy @ w.T": "2 * dy @ w.T + 1"}, "Twice, and one more."),
              Mistake("ONE-2", {"x.T @ dy": "x.T @ dy / len(x) + 1"}, "Divided, and one more."),
              Mistake("ONE-3", {"return dx, dw": "return dx + dx[0], dw"}, "The first row is added.")))
SHELF = Library(EXERCISE, 3)


def said(wrong, old="return dx, dw"):
    """The verdict on the solution with this text instead of the old one."""
    source = EXERCISE.edited()
    assert source.count(old) == 1
    return judge(SHELF, play(SHELF, source.replace(old, wrong)))


@pytest.mark.parametrize("wrong, sentence", [
    ("return -dx, dw", "dx is the right one times -1,"),
    ("return dx * math.sqrt(x.shape[1]), dw", "dx is the right one times sqrt(D),"),
    ("return dx / len(x), dw", "dx is the right one times 1/T,"),
    ("return dx, dw * dy.size / 2", "dw is the right one times 1/2 T F,"),
    ("return dx, dw / np.log(2)", "dw is the right one times 1.4427,"),
    ("return dx, dw / dy[0, 0]", "dw is the right one times a number that depends on the case"),
    ("return dx, dw.T", "dw is the right one, transposed,"),
    ("return dx, dw.ravel()[::-1].reshape(dw.shape)", "dw is made of the right numbers, in another order,"),
    ("return dx, np.zeros_like(dw)", "dw is zero everywhere,"),
    ("return dx * np.nan, dw", "dx is NaN everywhere,"),
    ("return np.where(dx > 0, np.nan, dx), dw", "dx is NaN in some entries, and right in the others,"),
    ("return np.vstack([dx[:1], dx[1:] + x[1:]]), dw", "dx is right in the first row of its first axis only,"),
    ("return np.vstack([dx[:-1] + x[1:], dx[-1:]]), dw", "dx is right in the last row of its first axis only,"),
    ("return dx, x[:, :, None] * dy[:, None]", "dw is right after .sum(0)"),
    ("return dx, dw.sum(0)", "dw is the right one after .sum(-2)"),
    ("return dw, dx", "dx is the right dw,"),
    ("return x, dw", "dx is the argument x,"),
    ("return -dx, dw.T", "dx is the right one times -1,"),
])
def test_relations(wrong, sentence):
    verdict = said(wrong)
    assert verdict.status == "fail" and not verdict.mistakes and not verdict.right
    assert any(line.startswith(f"DIAGNOSIS {sentence}") for line in verdict.lines), verdict.lines


def test_no_relation_is_made_up():
    lines = said("return dx + 0.1 * x ** 2, dw").lines
    assert not any(line.startswith("DIAGNOSIS") for line in lines)
    assert any("worst entry" in line and "relative error" in line and "cosine" in line for line in lines)
    assert any(line.startswith("dx must sum") for line in lines)


def test_a_relation_must_hold_in_every_case():
    assert any("depends on the case: -1, -1, 1, -1, -1," in line
               for line in said("return dx if len(x) == 6 else -dx, dw").lines)
    assert not any("times" in line for line in said("return (-dx if len(x) == 6 else dx + x * x), dw").lines)


@pytest.mark.parametrize("edits, names", [
    ((0,), ("ONE-1",)), ((0, 1), ("ONE-1 and ONE-2",)), ((0, 1, 2), ("ONE-1 and ONE-2 and ONE-3",))])
def test_combinations(edits, names):
    mistakes = [EXERCISE.mistakes[i] for i in edits]
    verdict = judge(SHELF, play(SHELF, EXERCISE.edited(*(mistake.edits for mistake in mistakes))))
    assert verdict.mistakes == names
    for mistake in mistakes:
        assert mistake.say in verdict.lines


def test_a_name_needs_every_case():
    """Right names for three cases of five are no name."""
    verdict = said("return (2 * dx + 1 if len(x) == 5 else dx), dw")
    assert verdict.status == "fail" and not verdict.mistakes


def test_float32_answers_are_named_too():
    source = EXERCISE.edited(EXERCISE.mistakes[0].edits)
    verdict = judge(SHELF, play(SHELF, source, lambda y: y.astype(np.float32)))
    assert verdict.mistakes == ("ONE-1",)


@pytest.mark.parametrize("old, new, stage, words", [
    ("return dx, dw", "return dx", "type", "2 values, (dx, dw)"),
    ("return dx, dw", "dx, dw", "type", "None"),
    ("return dx, dw", "return dx, dw[:-1]", "shape", "wrong along axis 0"),
    ("return dx, dw", "return dx[..., None], dw", "shape", "axes of size 1"),
    ("return dx, dw", "return dx / 0, dw", "finite", "inf"),
    ("return dx, dw", "raise ValueError('so')", "error", "so"),
    ("return dx, dw", "x += 1; return dx, dw", "arguments changed", "changed in place"),
    ("return dx, dw", "return dx, dw * np.float64(1)", "float32", "float64"),
    ("return dx, dw", "return dx, dw + (dw.dtype == np.float32)", "float32", "wrong in float32"),
])
def test_the_first_stage_that_fails(old, new, stage, words):
    verdict = said(new, old)
    assert (verdict.stage, verdict.status) == (stage, "error" if stage == "error" else "fail")
    assert words in " ".join((verdict.note, *verdict.lines))
    assert verdict.points(4) == (2 if stage in ("arguments changed", "float32") else 0)


def test_another_answer_the_second_time():
    run = play(SHELF, EXERCISE.edited())
    again = next(i for i, case in enumerate(SHELF.cases) if case.role == "again")
    run.cases[again].outputs[0] = run.cases[again].outputs[0] + 1e-12
    verdict = judge(SHELF, run)
    assert verdict.stage == "repeated" and verdict.points(5) == 2 and verdict.points(4) == 2


@pytest.mark.parametrize("said, status, words", [
    ({"stage": "import", "error": "SyntaxError: invalid syntax"}, "error", "SyntaxError"),
    ({"stage": "import", "error": "NotImplementedError: "}, "todo", ""),
    ({"stage": "name", "names": ["product"]}, "error", "did you mean product?"),
    ({"stage": "name", "names": []}, "error", "defines nothing"),
    ({"stage": "arguments", "error": "missing a required argument: 'b'"}, "error", "missing a required argument"),
])
def test_what_cannot_be_called(said, status, words):
    verdict = judge(SHELF, Run("", 0, 0.1, "", said, []))
    assert verdict.status == status and words in verdict.note and verdict.points(4) == 0


@pytest.mark.parametrize("ended, status", [("timeout", "timeout"), ("memory", "memory")])
def test_how_it_ended(ended, status):
    right = play(SHELF, EXERCISE.edited())
    assert judge(SHELF, Run(ended, -9, 10.0, "", {}, right.cases)).status == status


def test_an_early_end_without_a_word():
    cases = [Came([None, None], [], {}) for _ in SHELF.cases]
    verdict = judge(SHELF, Run("killed", 3, 0.1, "", {}, cases))
    assert verdict.status == "error" and "exit code 3" in verdict.note
