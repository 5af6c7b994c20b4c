"""Find the bug: the student finds inputs for which a given wrong version returns wrong results."""

import numpy as np

from ...layers import AttentionMask, Embedding, LayerNorm, Softmax, padding_mask
from ...texts import Message
from .definition import AGREE, Exercise, Mistake
from .shared import loaded

ENTRIES = 1000                                  # maximum number of entries of an array
DIFFERENCE = 1e-3                               # minimum difference between right and wrong, relative to the larger one
ROUNDING = 1e-9                                 # smaller differences, relative to what was summed, are rounding errors


def layer_norm_backward(x, gamma, dy):
    std = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    x_hat = (x - x.mean(-1, keepdims=True)) / std
    centered = dy - dy.mean(-1, keepdims=True) - x_hat * (dy * x_hat).mean(-1, keepdims=True)
    return gamma * centered / std


def layer_norm_probe():
    rng = np.random.default_rng(0)
    return rng.standard_normal((3, 5)), rng.standard_normal(5), rng.standard_normal((3, 5))


def judge_layer_norm(x, gamma, dy):
    complaint = (unfit("x", x, 2) or unfit("gamma", gamma, 1) or unfit("dy", dy, 2)
                 or misfit("gamma", gamma, x.shape[1:], "(D,)", x) or misfit("dy", dy, x.shape, "(T, D)", x))
    if complaint:
        return complaint
    x, gamma, dy = (array.astype(float) for array in (x, gamma, dy))
    layer = loaded(LayerNorm(len(gamma)), {"gamma": gamma, "beta": gamma})
    layer(x)
    return agreed(layer_norm_backward(x, gamma, dy), layer.backward(dy),
                  "08.4", gamma * dy / np.sqrt(x.var(-1, keepdims=True) + 1e-5))


def embedding_backward(ids, dy):
    dtable = np.zeros((10, dy.shape[-1]))
    dtable[ids] += dy
    return dtable


def embedding_probe():
    ids = np.array([[1, 2, 1], [3, 1, 3]])
    return ids, np.random.default_rng(0).standard_normal((2, 3, 4))


def judge_embedding(ids, dy):
    complaint = unfit("ids", ids, 2, integers=True) or unfit("dy", dy, 3)
    if not complaint and (ids.min() < 0 or ids.max() > 9):
        complaint = Message("exercises.find.range.03.3", least=int(ids.min()), most=int(ids.max()))
    complaint = complaint or misfit("dy", dy, (*ids.shape, dy.shape[2]), "(B, T, D)", ids, "ids")
    if complaint:
        return complaint
    dy = dy.astype(float)
    layer = Embedding(10, dy.shape[2]).astype(np.float64)
    layer(ids)
    layer.backward(dy)
    return agreed(embedding_backward(ids, dy), layer.weight.grad, "03.3")


def attention_weights(scores, ids):
    scores = np.where(ids[0] == 0, -np.inf, scores)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def mask_probe():
    return np.random.default_rng(0).standard_normal((2, 3, 4)), np.array([[5, 6, 7, 8], [5, 6, 0, 0]])


def judge_mask(scores, ids):
    complaint = unfit("scores", scores, 3) or unfit("ids", ids, 2, integers=True) or misfit(
        "ids", ids, scores.shape[::2], "(B, S)", scores, "scores")
    if not complaint and not ids.any(1).all():
        complaint = Message("exercises.find.padding.06.5", i=int(ids.any(1).argmin()))
    if complaint:
        return complaint
    scores = scores.astype(float)
    right = Softmax()(AttentionMask()(scores[:, None], padding_mask(ids)))[:, 0]
    return agreed(attention_weights(scores, ids), right, "06.5")


def softmax(z):
    p = np.exp(z - z.max())
    return p / p.sum(-1, keepdims=True)


def softmax_probe():
    return np.array([[0.0, 1.0, 2.0], [-900.0, -901.0, -902.0]])


@np.errstate(invalid="ignore")                  # the wrong version may divide 0 by 0
def judge_softmax(z):
    complaint = unfit("z", z, 2)
    if complaint:
        return complaint
    z = z.astype(float)
    return agreed(softmax(z), Softmax()(z), "01.7")


def unfit(name, array, axes, integers=False):
    """Returns a Message that says what is wrong with an array that a student has returned, or None if nothing is."""
    if array.ndim != axes:
        return Message(f"exercises.find.{'axis' if axes == 1 else 'axes'}", name=name, shape=str(array.shape), axes=axes)
    if not 1 <= array.size <= ENTRIES:
        return Message("exercises.find.entries", name=name, size=array.size, most=ENTRIES)
    if array.dtype.kind not in ("iu" if integers else "iuf"):
        return Message(f"exercises.find.{'integers' if integers else 'floats'}", name=name, dtype=str(array.dtype))
    if not np.all(abs(array.astype(float)) <= 1000):
        return Message("exercises.find.range", name=name)


def misfit(name, array, shape, letters, other, other_name="x"):
    """Returns a Message if an array does not have the shape that another one requires, else None."""
    if array.shape != shape:
        return Message("exercises.find.misfit", name=name, shape=str(array.shape), other=other_name,
                       other_shape=str(other.shape), letters=letters, wanted=str(shape))


def agreed(wrong, right, number, summed=0):
    """Returns a Message if the right and the wrong version agree, else None.

    Parameters:
        wrong, right : what the two versions return
        number : of the exercise, whose question it asks
        summed : the numbers whose sum they are; a difference that is tiny next to them is a rounding error
    """
    size = max(np.linalg.norm(wrong), np.linalg.norm(right))
    least = max(DIFFERENCE * size, ROUNDING * np.linalg.norm(summed))
    difference = np.linalg.norm(wrong - right)
    if difference <= least:                     # False for NaN
        same = Message("exercises.find.nearly" if difference else "exercises.find.same", difference=difference / (size or 1))
        return Message(AGREE, same=same, question=Message(f"exercises.find.question.{number}"))


def same_padding(ids):
    """Returns True if all sequences have their padding at the same positions."""
    return np.array_equal(ids == 0, np.broadcast_to(ids[:1] == 0, ids.shape))


EXERCISES = [
    Exercise(
        "08.4", minutes=10, lines=2, kind="find the bug",
        solution=layer_norm_probe, given=(layer_norm_backward,), judge=judge_layer_norm, outputs=("x", "gamma", "dy"),
        mistakes=(
            Mistake("FND-08.4a", {
                "rng.standard_normal(5)": "np.ones(5)"}, shown_by=lambda x, gamma, dy: np.all(gamma == 1)),
            Mistake("FND-08.4b", {
                "rng.standard_normal(5)": "np.full(5, 2.0)"},
                shown_by=lambda x, gamma, dy: np.ptp(gamma) <= 0.01 * np.max(abs(gamma))),
            Mistake("FND-08.4c", {
                "rng.standard_normal(5), rng.standard_normal((3, 5))": "np.arange(5.0), np.zeros((3, 5))"},
                shown_by=lambda x, gamma, dy: not dy.any()),
        )),
    Exercise(
        "03.3", minutes=5, lines=2, kind="find the bug",
        solution=embedding_probe, given=(embedding_backward,), judge=judge_embedding, outputs=("ids", "dy"),
        mistakes=(
            Mistake("FND-03.3a", {
                "[[1, 2, 1], [3, 1, 3]]": "[[1, 2, 4], [3, 5, 6]]"},
                shown_by=lambda ids, dy: len(np.unique(ids)) == ids.size),
            Mistake("FND-03.3b", {
                "np.random.default_rng(0).standard_normal((2, 3, 4))": "np.zeros((2, 3, 4))"},
                shown_by=lambda ids, dy: not dy.any()),
            Mistake("FND-03.3c", {
                "return ids, np.random.default_rng(0).standard_normal((2, 3, 4))":
                    "return ids, np.arange(6).reshape(2, 3, 1) * np.array([[[0], [1], [0]], [[0], [1], [1]]])"},
                shown_by=lambda ids, dy: dy.any() and len(np.unique(ids)) < ids.size),
        )),
    Exercise(
        "06.5", minutes=5, lines=1, size_letters="TS", kind="find the bug",
        solution=mask_probe, given=(attention_weights,), judge=judge_mask, outputs=("scores", "ids"),
        mistakes=(
            Mistake("FND-06.5a", {
                "[[5, 6, 7, 8], [5, 6, 0, 0]]": "[[5, 6, 0, 0], [5, 6, 0, 0]]"},
                shown_by=lambda scores, ids: len(ids) > 1 and not ids.all() and same_padding(ids)),
            Mistake("FND-06.5b", {
                "[[5, 6, 7, 8], [5, 6, 0, 0]]": "[[5, 6, 0, 0]]",
                "(2, 3, 4)": "(1, 3, 4)"}, shown_by=lambda scores, ids: len(ids) == 1),
            Mistake("FND-06.5c", {"[5, 6, 0, 0]": "[5, 6, 1, 1]"}, shown_by=lambda scores, ids: ids.all()),
            Mistake("FND-06.5d", {
                "standard_normal((2, 3, 4))": "standard_normal((2, 3, 4)) - 900 * np.array([0, 0, 1, 1])"},
                shown_by=lambda scores, ids: not same_padding(ids)),
        )),
    Exercise(
        "01.7", minutes=5, lines=1, kind="find the bug",
        solution=softmax_probe, given=(softmax,), judge=judge_softmax, outputs=("z",),
        mistakes=(
            Mistake("FND-01.7a", {
                "[-900.0, -901.0, -902.0]": "[-9.0, -9.1, -9.2]"},
                shown_by=lambda z: len(z) > 1 and np.ptp(z.max(1)) < 700),
            Mistake("FND-01.7b", {
                "[0.0, 1.0, 2.0], [-900.0, -901.0, -902.0]": "[-900.0, -901.0, -902.0]"},
                shown_by=lambda z: len(z) == 1),
        )),
]
