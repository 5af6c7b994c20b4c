"""A known mistake is named only on evidence: wrong answers that look like one from afar, and those that are one."""

import functools

import numpy as np
import pytest
from helpers.small_exercises import diagnoses
from helpers.students import judged, play

from numpy_transformer.course.checker.diagnosis import AnswerKey, are_complete
from numpy_transformer.course.checker.messages import NO_NAME
from numpy_transformer.course.checker.relations import relations
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose, exercises
from numpy_transformer.course.exercises.definition import MOST_STEPS
from numpy_transformer.course.exercises.observation import Observation
from numpy_transformer.texts import render


@functools.cache
def key(number):
    return AnswerKey(choose(number), 0)


def verdict_on(number, body):
    return judged(key(number), body)


def edited(number, old, new):
    return judge(key(number), play(key(number), key(number).exercise.edited({old: new})))


def test_nan_everywhere_is_not_attributed_to_a_mistake():
    verdict = verdict_on("11.3", """
    p = 1 / (1 - np.exp(-logits))
    return -(targets * np.log(p) + (1 - targets) * np.log(1 - p)).mean()
""")
    assert verdict.status == "fail" and verdict.mistakes == () and NO_NAME in verdict.lines
    assert diagnoses(verdict) == ["loss is NaN everywhere in every case."]


@pytest.mark.parametrize("number, outputs", [
    ("03.3", "np.ones((1, 4, 3)), np.array([[3, 3, 5, 5]])"), ("06.5", "np.array([[4, 5], [4, 0]]), np.ones((2, 2, 2))"),
    ("01.7", "np.array([[1.0, 2.0]], dtype=complex)")])
def test_arrays_that_do_not_fit_show_no_mistake(number, outputs):
    exercise = choose(number)
    verdict = judge(AnswerKey(exercise, 0), play(AnswerKey(exercise, 0), (
        f"{exercise.header}def {exercise.name}():\n    return {outputs}\n")))
    assert verdict.status == "fail" and verdict.mistakes == ()


def test_an_explanation_that_two_names_share_is_printed_once():
    verdict = verdict_on("03.1", """
    dtable = np.zeros((vocab_size, dy.shape[-1]), dy.dtype)
    dtable[ids] += dy
    if pad_id is not None:
        dtable[pad_id] = 0
    return dtable
""")
    assert verdict.mistakes == (("EMB-1a", "EMB-3a"), ("EMB-1b", "EMB-3a"))
    said = " ".join(verdict.sentences)
    assert "matches these known mistakes together" in said and said.count("If a token occurs several times") == 1
    assert "DIAGNOSIS [EMB-1a and EMB-3a] " in said and "EMB-1a: If a token" in said


def test_nan_in_one_case_is_evidence_if_the_others_are_right():
    naive = "p = 1 / (1 + np.exp(-logits))\n    return -(targets * np.log(p) + (1 - targets) * np.log(1 - p)).mean()\n"
    assert verdict_on("11.3", f"    {naive}").mistakes == (("BCE-3",),)
    assert verdict_on("01.1", "    e = np.exp(z)\n    return e / e.sum(-1, keepdims=True)\n").mistakes == (("SMF-1",),)


@pytest.mark.parametrize("number, body", [
    ("02.1", """
    rows, drows = x.reshape(-1, x.shape[1]), dy.reshape(-1, dy.shape[-1])
    return dy @ weight.T, rows.T @ drows, drows.sum(0)
"""), ("07.3", """
    dq, dk, dv = (merge_heads(heads).reshape(-1, x.shape[-1]) for heads in (dq, dk, dv))
    rows = x.reshape(-1, x.shape[1])
    dx = (dq @ w_q.T + dk @ w_k.T + dv @ w_v.T).reshape(x.shape)
    return dx, rows.T @ dq, rows.T @ dk, rows.T @ dv
""")])
def test_errors_in_some_cases_are_compared_by_their_text(number, body):
    """x.T raises an error of the same type in the same cases."""
    verdict = verdict_on(number, body)
    assert verdict.status == "error" and verdict.mistakes == ()
    assert any("Elsewhere your result is correct" in line and "rows without a batch" in line for line in verdict.sentences)


def test_x_transposed_keeps_its_name():
    verdict = verdict_on("02.1", """
    return dy @ weight.T, x.T @ dy, dy.reshape(-1, dy.shape[-1]).sum(0)
""")
    assert ("LIN-3c",) in verdict.mistakes


def test_a_sequence_without_its_last_token_is_not_called_two_mistakes():
    assert edited("12.1", "ids[1:]", "ids[1:-1]").mistakes == ()


def test_a_mask_that_lets_everything_pass_is_told_as_such():
    """It cannot be told from a missing mask, so the explanation must be true of both."""
    verdict = verdict_on("09.6", """
    u = rows(x) @ W1 + b1
    h = np.maximum(0, u)
    du = (rows(dy) @ W2.T) * (h >= 0)
    return (du @ W1.T).reshape(x.shape), rows(x).T @ du, du.sum(0), h.T @ rows(dy), rows(dy).sum(0)
""")
    assert verdict.mistakes == (("ACT-2a",),) and any("lets everything pass" in line for line in verdict.sentences)


def test_another_change_of_an_argument_is_not_the_known_one():
    verdict = verdict_on("11.4", """
    np.clip(logits, -500, 500, out=logits)
    return (1 / (1 + np.exp(-logits)) - targets) / logits.size
""")
    assert verdict.stage == "arguments changed" and verdict.mistakes == () and "logits was changed" in render(verdict.note)
    assert NO_NAME not in verdict.lines
    verdict = edited("11.4", "p = (1 + np.tanh(logits / 2)) / 2", "logits /= 2\n    p = (1 + np.tanh(logits)) / 2")
    assert verdict.mistakes == (("BCB-16",),)


def test_values_that_are_never_removed_are_not_called_a_single_set():
    verdict = edited("07.6", "self.saved.pop()", "self.saved[-1]")
    assert verdict.mistakes == (("HD-10",),)
    assert "room for one set only, or backward never removes it" in " ".join(verdict.sentences)


@pytest.mark.slow
@pytest.mark.parametrize("condition, names", [("length >= beam", ("BEAM-10g",)), ("len(finished) > beam", ("BEAM-10e",))])
def test_a_count_of_steps_is_not_called_an_endless_search(condition, names):
    """That would be BEAM-10b."""
    assert edited("13.3", "if len(finished) >= beam:", f"if {condition}:").mistakes == (names,)


def test_one_wrong_operator_is_one_accusation():
    verdict = edited("05.2", "ds = ds / math.sqrt(q.shape[-1])", "ds = ds * math.sqrt(q.shape[-1])")
    assert verdict.mistakes == () and diagnoses(verdict) == [
        "dq and dk are each the correct result times d in every case."]


@pytest.mark.parametrize("wrong", ["np.zeros_like(p)", "np.ones_like(p)", "np.full_like(p, np.nan)", "0.3 + 0 * p"])
def test_a_constant_has_no_name(wrong):
    verdict = verdict_on("01.2", f"    return {wrong}\n")
    assert verdict.mistakes == () and NO_NAME in verdict.lines and len(diagnoses(verdict)) == 1


def test_what_off_by_a_little_returned_as_float32_is_told():
    verdict = verdict_on("01.2", "    return (p * (dp - (p * dp).sum(-1, keepdims=True)) * 1.00005).astype(np.float32)\n")
    assert verdict.status == "fail" and verdict.mistakes == ()
    assert any("float32, although the arguments are float64" in line for line in verdict.sentences)
    verdict = verdict_on("01.2", "    return (p * (dp - (p * dp).sum(-1, keepdims=True))).astype(np.float32)\n")
    assert verdict.status == "pass" and "Keep the dtype of the arguments" in verdict.sentences[0]
    assert verdict_on("01.2", "    return p * (dp - (p * dp).sum(-1, keepdims=True))\n").lines == ()


@pytest.mark.parametrize("number", [
    "01.2", "06.1", "08.1",
    *(pytest.param(n, marks=pytest.mark.slow) for n in ("01.3", "03.2", "05.2", "09.5", "12.1", "19.1", "14.4"))])
def test_random_answers_have_no_name_and_no_relation(number):
    rng = np.random.default_rng(7)
    answers = [Observation(tuple(random_like(y, rng) for y in expected.outputs)) for expected in key(number).expected]
    assert key(number).identify(answers) == [] and relation_sentences(number, answers) == []
    answers = [Observation(tuple(np.where(rng.random(y.shape) < 0.25, random_like(y, rng), y).astype(y.dtype)
                                 for y in expected.outputs)) for expected in key(number).expected]
    assert key(number).identify(answers) == [] and relation_sentences(number, answers) == []


def random_like(y, rng):
    if y.dtype.kind == "b":
        return rng.random(y.shape) < 0.5
    return rng.integers(0, 12, y.shape) if y.dtype.kind == "i" else rng.standard_normal(y.shape)


def relation_sentences(number, answers):
    return relations(key(number), answers)[0]


def test_loops_of_combined_mistakes_end():
    exercise = choose("12.1")
    text = exercise.edited_code({"len(ids) <= max_len and ids[-1] != eos": "True"}, {"model(ids)": "model(ids[-1:])"})
    exercise.steps.left = MOST_STEPS
    case = key("12.1").main_cases[0]
    with pytest.raises(RuntimeError, match="more than"):
        exercise.target(text, bounded=True)(*case.inputs)


def test_mistakes_that_cannot_give_an_answer_together():
    assert are_complete([("same", "none"), ("none", "same")]) and are_complete([("other", "right"), ("other", "right")])
    assert not are_complete([("other", "none"), ("none", "same")]) and not are_complete([("same", "none"), None])
    assert not are_complete([("same", "none"), ("same", "none")])


@pytest.mark.slow
@pytest.mark.parametrize("number", [number for number, exercise in exercises().items() if exercise.judge is None])
def test_no_pair_of_mistakes_runs_for_long(number):
    """The steps of all loops are bounded, so this ends; without a bound, pairs in decoding never do."""
    answer_key = AnswerKey(choose(number), 0)
    mistakes = answer_key.exercise.mistakes
    for i, first in enumerate(mistakes):
        for second in mistakes[i + 1:]:
            answer_key.fingerprint((first, second))
            assert answer_key.exercise.steps.left > -MOST_STEPS
