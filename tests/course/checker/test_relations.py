"""The sentences about a wrong answer that no known mistake explains: they say what is wrong, and nothing false."""

import dataclasses

import numpy as np
import pytest
from helpers.small_exercises import EXERCISE, SCALED_KEY, diagnoses, said
from helpers.students import play

from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.messages import NO_NAME
from numpy_transformer.course.checker.relations import places
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose
from numpy_transformer.texts import render


@pytest.mark.parametrize("wrong, sentence", [
    ("return -dx, dw", "dx is the correct result times -1 in every case."),
    ("return dx * math.sqrt(x.shape[1]), dw", "dx is the correct result times sqrt(D) in every case."),
    ("return dx / len(x), dw", "dx is the correct result times 1/T in every case."),
    ("return dx, dw * dy.size / 2", "dw is the correct result times 1/2 T F in every case."),
    ("return dx, dw / np.log(2)", "dw is the correct result times 1.4427 in every case."),
    ("return dx, dw / dy[0, 0]", "dw is the correct result times a number that depends on the case"),
    ("return dx, dw.T", "dw is the correct result transposed in every case."),
    ("return dx, dw.ravel()[::-1].reshape(dw.shape)", "dw has the correct numbers in the wrong order in every case."),
    ("return dx, np.zeros_like(dw)", "dw is zero everywhere in every case."),
    ("return dx * np.nan, dw", "dx is NaN everywhere in every case."),
    ("return np.where(dx > 0, np.nan, dx), dw", "dx is correct wherever it is not NaN or infinite in every case."),
    ("return np.vstack([dx[:1], dx[1:] + x[1:]]), dw", "dx is correct only in the first row in every case."),
    ("return np.vstack([dx[:-1] + x[1:], dx[-1:]]), dw", "dx is correct only in the last row in every case."),
    ("return dx, x[:, :, None] * dy[:, None]", "dw is correct after .sum(0), so this axis still has to be summed, in every case."),
    ("return dx, dw.sum(0)", "dw is the correct result after .sum(-2), but this axis must not be summed, in every case."),
    ("return dx, (x[:, :, None] * dy[:, None]).sum(1)", "dw has the correct total, but summed over the wrong axes, in every case."),
    ("return dx, dw[None]", "dw has the correct numbers in the correct order, but the wrong shape, in every case."),
    ("return dx, dw.reshape(dw.shape[::-1])",
     "dw has the correct numbers in the correct order, but the wrong shape, wherever it is wrong."),
    ("return (-2 * dx).astype(np.float32), dw", "dx is the correct result times -2 in every case."),
    ("return (dx / len(x)).astype(np.float32), dw", "dx is the correct result times 1/T in every case."),
    ("return dx, dw.T.astype(np.float32)", "dw is the correct result transposed in every case."),
    ("return np.where(dx > 0, np.nan, dx).astype(np.float32), dw", "dx is correct wherever it is not NaN"),
    ("return dw, dx", "dx is the correct dw in every case."),
    ("return x, dw", "dx is the argument x in every case."),
    ("return -dx, dw.T", "dx is the correct result times -1 in every case."),
    ("return dx, -dw[None]", "dw is the correct result times -1 (once its axes of size 1 are put right) in every case."),
    ("return (dx.T if len(x) > 5 else np.sin(dx)), dw", "dx is the correct result transposed in cases"),
    ("return np.where(abs(x) > 1.2, np.sin(dx) + x, dx), dw", "dx is wrong only where |x| is larger than about 1.2"),
    ("return np.where(x < -1.2, 0 * dx, dx), dw", "dx is wrong only where x is smaller than about -1.2: the wrong entries are 0"),
])
def test_relations(wrong, sentence):
    verdict = said(wrong)
    assert verdict.status == "fail" and not verdict.mistakes and not verdict.right
    assert any(line.startswith(f"DIAGNOSIS {sentence}") for line in verdict.sentences), verdict.sentences


UNUSED = "Your answer stayed the same when only p was changed. The correct answer did not."


@pytest.mark.parametrize("wrong, sentence", [
    ("return loss, y / (1 - p)", "y is the correct result times 1/(1 - p) in every case."),
    ("return loss * p, y", "loss is the correct result times p in every case."),
    ("return loss, -y / math.prod(x.shape[:-1])",
     "y is the correct result times -1/N, where N is the number of rows, in every case."),
    ("return loss * x[..., 0].size, y",
     "loss is the correct result times N, where N is the number of rows, in every case."),
    ("return loss, y.T", "y is the correct result transposed in every case."),
    ("return loss, x", "y is the correct result times 1/p in every case."),
    ("return loss, w", "y is the argument w in every case."),
    ("return loss, w - x", "y is the argument w minus the argument x in every case."),
    ("return loss, w * x", "y is the argument x times the argument w, entry by entry, in every case."),
    ("return loss, w * x + w", UNUSED),
    ("return 3 * loss, y", "loss is the correct result times 3 in every case."),
    ("return loss, y if x.any() else -y - 1", "y is -1 in every entry wherever it is wrong."),
    ("return loss + 1, y", "loss is the correct result plus 1 in every case."),
    ("return loss + len(x), y", None),          # any number is some multiple of the right one
    ("return loss, y[:0]", UNUSED),
    ("return loss, y[..., :1].sum() + 0 * y", "y repeats one number in every entry (does a sum run over too many axes?) in every case."),
])
def test_relations_with_other_cases(wrong, sentence):
    verdict = said(wrong, "return loss, y", SCALED_KEY)
    assert verdict.status == "fail" and not verdict.mistakes and verdict.explained == bool(sentence)
    assert diagnoses(verdict) == [sentence] * bool(sentence)


@pytest.mark.parametrize("wrong, place", [("return np.vstack([dx[:-1], dx[-1:] + x[-1:]]), dw", "last"),
                                          ("return np.vstack([dx[:1] + x[:1], dx[1:]]), dw", "first")])
def test_wrong_in_one_row_only_means_only(wrong, place):
    assert diagnoses(said(wrong)) == [f"dx is wrong only in the {place} row in every case."]


def test_no_relation_is_made_up():
    verdict = said("return dx + 0.1 * np.abs(x) ** 1.7, dw")
    lines = verdict.sentences
    assert not diagnoses(verdict) and not verdict.explained
    assert any("worst entry" in line for line in lines)
    assert any("relative error" in line and "cosine" in line for line in lines)
    assert any(line.startswith("dx must sum") for line in lines)
    assert not any(line.startswith("dx must sum") for line in said("return dx, dw + 0.1 * dw ** 2").sentences)


def test_a_relation_must_hold_in_every_case():
    assert any("depends on the case: -1, -1, 3, -1, -1." in line
               for line in said("return 3 * dx if len(x) == 6 else -dx, dw").sentences)
    wrong = said("return dx if len(x) == 6 else -dx, dw")
    assert diagnoses(wrong) == ["dx is the correct result times -1 wherever it is wrong."]
    assert "Your answer is wrong in all cases but 3 (square: T = S = d, D = F = V)." in wrong.sentences
    assert not any("times" in line for line in said("return (-dx if len(x) == 6 else dx + x * x), dw").sentences)


def test_a_factor_is_named_only_if_the_edges_have_one_too():
    exercise = dataclasses.replace(EXERCISE, edges=lambda rng: [("edge", tuple(map(np.ones, ((2, 3), (3, 4), (2, 4)))))])
    key = AnswerKey(exercise, 3)
    wrong = exercise.edited({"return dx, dw": "return dx * (math.sqrt(x.shape[1]) if len(x) > 2 else 1), dw"})
    verdict = judge(key, play(key, wrong))
    assert diagnoses(verdict) == ["dx is the correct result times sqrt(D) wherever it is wrong."]
    assert any("but 6 (edge)" in line for line in verdict.sentences)


@pytest.mark.parametrize("wrong, sentence", [
    ("return dx + dy.sum(), dw",
     "dx differs from the correct result by one number, the same for all entries, in every case."),
    ("return dx + x.sum(-1, keepdims=True), dw",
     "dx is the correct result plus the sums of the argument x over its last axis in every case."),
    ("return dx - 2 * x, dw", "dx is the correct result minus 2 times the argument x in every case."),
    ("return dx * x, dw", "dx is the correct result times the argument x in every case."),
    ("return -dx * x, dw", "dx is the correct result times -1, times the argument x in every case."),
    ("return 2 * dx / x, dw", "dx is the correct result times 2, divided by the argument x in every case."),
    ("return dx * x.shape[1] / x.shape[0], dw", "dx is the correct result times D/T in every case."),
    ("return dx * x.shape[1] / np.log(2), dw", "dx is the correct result times D / ln 2 in every case."),
    ("return dx / x, dw", "dx is the correct result divided by the argument x in every case."),
    ("return dx + np.sin(x.sum(-1, keepdims=True)), dw", "dx differs from the correct result by one number per row, "
     "the same for all entries of the row (a term that belongs to the whole row), in every case."),
    ("return dx * np.cos(x.sum(-1, keepdims=True)), dw",
     "dx has correct rows, except that each row is multiplied by a number of its own in every case."),
    ("return dx[::-1], dw", "dx has its rows in reverse order in every case."),
    ("return np.roll(dx, 1, 0), dw", "dx has its rows shifted by one position in every case."),
    ("return dx[:, [1, 0, *range(2, dx.shape[1])]], dw", "dx has the correct columns, but in another order in every case."),
    ("return np.exp(dx), dw", "dx is exp of the correct result in every case."),
    ("return np.maximum(dx, 0), dw", "dx is the correct result with 0 in place of negative numbers in every case."),
    ("return np.where(x < 0, 0, dx), dw", "dx is wrong only where x is negative: the wrong entries are 0 in every case."),
    ("return np.where(x < 0, -dx, dx), dw", 
     "dx is wrong only where x is negative: the wrong entries have the wrong sign in every case."),
    ("return np.where(np.arange(dx.shape[1]) % 2, x ** 3, dx), dw",
     "dx is wrong only in every second column, from the second in every case."),
    ("return np.where(np.arange(dx.shape[1]) == 2, x ** 3, dx), dw", None),
    ("return dx * (1 + 1e-5 * np.cos(x)), dw", "dx is nearly correct: no entry is off by more than"),
    ("return dx + x - x.mean(-1, keepdims=True) + 0.01 * np.roll(x, 1, 1) - 0.01 * x, dw",
     "dx has wrong entries, but each row has the correct sum, in every case."),
    ("return abs(dx), dw", "dx is the absolute value of the correct result in every case."),
    ("return dx + (dx == dx.max()), dw", None),
])
def test_more_relations(wrong, sentence):
    found = diagnoses(said(wrong))
    assert len(found) == bool(sentence) and (not sentence or found[0].startswith(sentence)), found


@pytest.mark.parametrize("number, old, new, sentence", [
    ("11.3", ").mean()", ").sum()", "loss is the correct result times N, where N is the number of entries, in every case."),
    ("12.1", "ids[1:]", "ids[1:] + [eos, eos]", "ids is the correct sequence, followed by 2 entries too many: eos in every case."),
    ("12.1", "ids[1:]", "[7] + ids", "ids is the correct sequence, with 2 entries too many in front of it in every case."),
    ("12.1", "ids[1:]", "ids[2:]", "ids is the correct sequence, but lacks 1 entry at its beginning in every case."),
    ("06.1", "np.tri(T, dtype=bool)", "np.tri(T, k=2, dtype=bool)",
     "mask is wrong only above the diagonal: the wrong entries should be False."),
    ("06.1", "np.tri(T, dtype=bool)", "np.tri(T, dtype=bool) & (np.arange(T) % 3 < 2)",
     "mask is wrong only on and below the diagonal: the wrong entries are False."),
    ("03.1", "np.add.at(dtable, ids, math.sqrt(dy.shape[-1]) * dy)", "dtable[ids] = math.sqrt(dy.shape[-1]) * dy",
     "dtable is wrong only in rows whose number occurs more than once in ids in every case."),
    ("08.2", "dx = ", "dx = 1.5 * ", "dx is the correct result times 1.5 in every case."),
])
def test_relations_in_exercises(number, old, new, sentence):
    exercise = dataclasses.replace(choose(number), mistakes=())
    key = AnswerKey(exercise, 0)
    source = exercise.edited()
    assert source.count(old) == 1
    found = diagnoses(judge(key, play(key, source.replace(old, new))))
    assert len(found) == 1 and found[0].startswith(sentence), found


@pytest.mark.parametrize("number, old, new, sentence", [
    ("19.3", "d_model", "512", "Your answer stayed the same when only d_model was changed. The correct answer did not."),
    ("08.1", " + eps", " + 1e-12", "Your answer stayed the same when only eps was changed. The correct answer did not."),
    ("08.1", "x_hat + beta", "np.sin(x_hat) + beta", None),
])
def test_an_argument_without_effect_is_told(number, old, new, sentence):
    exercise = dataclasses.replace(choose(number), mistakes=())
    key, head = AnswerKey(exercise, 0), exercise.edited()
    start = head.index("return")
    body = head[:start].rpartition("\n\n")[2] + head[start:]
    assert old in body
    source = head.replace(body, body.replace(old, new).replace(f"def noam_rate(step, {new}", "def noam_rate(step, d_model"))
    sentences = judge(key, play(key, source)).sentences
    assert any("stayed the same" in line for line in sentences) == bool(sentence)
    assert sentence is None or f"DIAGNOSIS {sentence}" in sentences


def test_a_region_with_nothing_but_zeros_is_no_evidence():
    """The last token is picked in no case, and its row is 0 in every answer that scatters at all."""
    exercise = dataclasses.replace(choose("14.2"), mistakes=())
    key = AnswerKey(exercise, 0)
    assert not any(expected.outputs[0][:, -1].any() for expected in key.expected)
    wrong = exercise.edited({"(rows, positions)": "(slice(None), positions)"})
    assert not any("last row" in line for line in judge(key, play(key, wrong)).sentences)


@pytest.mark.parametrize("wrong, fact", [
    ("return np.where(len(x) == 6, dx, np.sin(dx)), dw", "Your answer is wrong in all cases but 3 (square: T = S = d, D = F = V)."),
    ("return np.where(len(x) == 5, np.sin(dx), dx), dw", "Your answer is wrong only in case"),
    ("return np.sin(dx), dw", "dw is correct in every case."),
    ("return dx + 0.3 * np.sin(x) * (np.arange(len(x)) == 1)[:, None], dw", "In case 1, all wrong entries of dx are in row 1"),
])
def test_facts_are_told_where_there_is_no_relation(wrong, fact):
    verdict = said(wrong)
    assert any(line.startswith(fact) for line in verdict.sentences), verdict.sentences
    assert NO_NAME in verdict.lines and len(verdict.lines) - verdict.lines.index(NO_NAME) <= 4


def test_outputs_in_each_others_place_have_each_others_shapes():
    question = "In every case, dx has the shape of dw, and dw that of dx: are they returned in the wrong order?"
    assert question in said("return np.sin(dw), np.cos(dx)").sentences
    assert question not in said("return np.sin(dw), np.cos(dw)").sentences + said("return np.sin(dx), dw").sentences


def test_parts_of_an_axis_have_a_plural():
    regions = set(map(render, places.by_position((4, 6, 8, 10))))
    assert {f"in the first half of the {name}" for name in ("items of the batch", "positions of axis -3", "rows",
                                                            "columns")} <= regions
    assert "in the second half of the entries" in map(render, places.by_position((6,)))


def test_errors_in_some_cases_are_told():
    verdict = said("return (dx if len(x) == 6 else None / 1), dw")
    assert "The error comes in all cases but 3 (square: T = S = d, D = F = V). Elsewhere your result is correct." in (
        verdict.sentences)
