"""One vector for a whole text, the mean over its real tokens: forward, backward, and a wrong version."""

import math

import numpy as np

from ...layers import MaskedMean
from ...texts import Message
from .definition import Exercise, Mistake
from .find_the_bug import agreed, misfit, unfit


def masked_mean(x, token_mask):
    kept = np.where(token_mask[..., None], x, 0)
    count = np.maximum(token_mask.sum(-1, keepdims=True), 1)
    return kept.sum(-2) / count.astype(x.dtype)


def masked_mean_backward(token_mask, dy):
    count = np.maximum(token_mask.sum(-1, keepdims=True), 1)
    share = token_mask / count.astype(dy.dtype)
    return share[..., None] * dy[..., None, :]


def draw_mask(rng, shape):
    """Draws masks with padding inside the texts too; every text has a real token and a padding token."""
    token_mask = rng.random(shape) < 0.6
    token_mask[..., 0] = rng.random(shape[:-1]) < 0.5
    token_mask[..., 1] = False
    token_mask[..., 2] = True
    return token_mask


def draw_texts(rng, shape, D):
    x = math.hypot(*(rng.standard_normal() for _ in range(8))) / 6 + rng.standard_normal((*shape, D))
    x[rng.random(x.shape) < 0.2] = 0
    return x, draw_mask(rng, shape)


FEW = "text_1_no"


def special_texts(rng):
    x, token_mask = draw_texts(rng, (3, 4), 5)
    return [("b_t_d", draw_texts(rng, (5, 5), 5)), (FEW, (x, few(token_mask))),
            ("no_padding", (x, np.ones_like(token_mask))),
            ("tokens_1_3", (x * [[1], [0], [1], [0]], np.ones_like(token_mask)))]


def few(token_mask):
    """Returns a mask of three texts, the second of which has no real token and the third of which has one."""
    return np.stack([token_mask[0], np.zeros_like(token_mask[1]), np.arange(token_mask.shape[1]) == 2])


def with_dy(x, token_mask):
    """Replaces x by a gradient of the means."""
    return token_mask, x[..., 0, :] + x[..., -1, :]


def by_mean_backward(token_mask, dy):
    layer = MaskedMean()
    layer(np.zeros((*token_mask.shape, dy.shape[-1])), token_mask)
    return layer.backward(dy)


def text_vectors(x, token_mask):
    return (x * token_mask[..., None]).mean(1)


def mean_probe():
    return np.random.default_rng(0).standard_normal((2, 3, 4)), np.array([[True, True, True], [True, True, False]])


def judge_mean(x, token_mask):
    complaint = unfit("x", x, 3) or misfit("token_mask", token_mask, x.shape[:2], "(B, T)", x)
    if not complaint and token_mask.dtype != bool:
        complaint = Message("exercises.find.booleans.11.6", dtype=str(token_mask.dtype))
    if not complaint and not token_mask.any(1).all():
        complaint = Message("exercises.find.padding.11.6", i=int(token_mask.any(1).argmin()))
    if complaint:
        return complaint
    x = x.astype(float)
    return agreed(text_vectors(x, token_mask), MaskedMean()(x, token_mask), "11.6", x)


def padded_sums(x, token_mask):
    """Returns the sums over the real tokens of the texts that contain padding."""
    return (x * token_mask[..., None]).sum(1)[~token_mask.all(1)]


EXERCISES = [
    Exercise(
        "11.1", minutes=10, lines=3,
        solution=masked_mean, reference=lambda x, token_mask: MaskedMean()(x, token_mask), edges=special_texts,
        inputs=lambda rng, n: draw_texts(rng, n.lead, n.D),
        outputs=("y",), mistakes=(
            Mistake("MEAN-1", {"kept.sum(-2) / count.astype(x.dtype)": "x.mean(-2)"}),
            Mistake("MEAN-2", {"kept.sum(-2) / count.astype(x.dtype)": "kept.mean(-2)"}),
            Mistake("MEAN-4", {"np.where(token_mask[..., None], x, 0)": "x"}),
            Mistake("MEAN-5", {"    kept =": "    token_mask = ~token_mask\n    kept ="}),
            Mistake("MEAN-6", {
                "np.maximum(token_mask.sum(-1, keepdims=True), 1)": "token_mask.sum(-1, keepdims=True)"}),
            Mistake("MEAN-7", {
                "np.maximum(token_mask.sum(-1, keepdims=True), 1)": "token_mask.sum(-1, keepdims=True) + 1"}),
            Mistake("MEAN-8", {
                "np.maximum(token_mask.sum(-1, keepdims=True), 1)": "np.maximum((kept != 0).sum(-2), 1)"}),
            Mistake("MEAN-11", {"np.maximum(token_mask.sum(-1, keepdims=True), 1)": "np.maximum(token_mask.sum(), 1)"}),
            Mistake("MEAN-12", {
                "token_mask[..., None]":
                    "(np.arange(token_mask.shape[-1]) < token_mask.sum(-1, keepdims=True))[..., None]"}),
            Mistake("MEAN-13", {"kept.sum(-2) / count.astype(x.dtype)": "x[..., 0, :]"}),
            Mistake("MEAN-14", {
                "    kept = np.where(token_mask[..., None], x, 0)": "    x[~token_mask] = 0\n    kept = x"}),
            Mistake("MEAN-18", {"kept.sum(-2) / count.astype(x.dtype)": "x[token_mask].mean(0)"}),
            Mistake("MEAN-22", {"kept.sum(-2) / count.astype(x.dtype)": "x[..., -1, :]"}),
            Mistake("MEAN-27", {"np.maximum(token_mask": "np.max(token_mask"}),
            Mistake("MEAN-23", {"token_mask.sum(-1, keepdims=True)": "token_mask.sum(0)"}),
        ),
        alternatives={"product": {"np.where(token_mask[..., None], x, 0)": "x * token_mask[..., None]"},
                      "matmul": {"kept.sum(-2) / count.astype(x.dtype)":
                                 "((token_mask / count.astype(x.dtype))[..., None, :] @ x)[..., 0, :]"},
                      "einsum": {"kept.sum(-2)": "np.einsum('...td,...t->...d', x, token_mask.astype(x.dtype))"}}),
    Exercise(
        "11.2", minutes=10, lines=3,
        solution=masked_mean_backward, reference=by_mean_backward,
        inputs=lambda rng, n: with_dy(*draw_texts(rng, n.lead, n.D)),
        edges=lambda rng: [(note, with_dy(*texts)) for note, texts in special_texts(rng)],
        outputs=("dx",), mistakes=(
            Mistake("MNB-1", {"share = token_mask /": "share = np.ones_like(token_mask) /"}),
            Mistake("MNB-2", {
                "token_mask / count.astype(dy.dtype)": "token_mask.astype(dy.dtype) / token_mask.shape[-1]"}),
            Mistake("MNB-3", {"token_mask / count.astype(dy.dtype)": "token_mask.astype(dy.dtype)"}),
            Mistake("MNB-4", {
                "token_mask / count.astype(dy.dtype)": "np.ones(token_mask.shape, dy.dtype) / token_mask.shape[-1]"}),
            Mistake("MNB-5a", {"share = token_mask /": "share = ~token_mask /"}),
            Mistake("MNB-5c", {"np.maximum(token_mask.sum": "np.maximum((~token_mask).sum"}),
            Mistake("MNB-5b", {"    count =": "    token_mask = ~token_mask\n    count ="}),
            Mistake("MNB-6", {"np.maximum(token_mask.sum(-1, keepdims=True), 1)": "token_mask.sum(-1, keepdims=True)"}),
            Mistake("MNB-7", {
                "np.maximum(token_mask.sum(-1, keepdims=True), 1)": "token_mask.sum(-1, keepdims=True) + 1"}),
            Mistake("MNB-8", {"np.maximum(token_mask.sum(-1, keepdims=True), 1)": "np.maximum(token_mask.sum(), 1)"}),
            Mistake("MNB-13", {"share = token_mask / count.astype(dy.dtype)": "dy /= count\n    share = token_mask"}),
            Mistake("MNB-14", {
                "token_mask / count.astype(dy.dtype)":
                    "(0 * token_mask + (np.arange(token_mask.shape[-1]) == 0)).astype(dy.dtype)"}),
            Mistake("MNB-16", {"dy[..., None, :]": "dy"}),
            Mistake("MNB-17", {"token_mask / count.astype(dy.dtype)": "np.ones(token_mask.shape, dy.dtype)"}),
            Mistake("MNB-21", {"token_mask.sum(-1, keepdims=True)": "token_mask.sum(0)"}),
            Mistake("MNB-26", {"np.maximum(token_mask": "np.max(token_mask"}),
            Mistake("MNB-24", {"return share[..., None] * dy[..., None, :]": "return dy / count.astype(dy.dtype)"}),
        ),
        must_be_zero={"padding_gradient_0": lambda inputs, outputs: outputs[0][~inputs[0]]},
        alternatives={"where": {"share[..., None] * dy[..., None, :]":
                                "np.where(token_mask[..., None], (dy / count.astype(dy.dtype))[..., None, :], 0)"},
                      "einsum": {"share[..., None] * dy[..., None, :]": "np.einsum('...t,...d->...td', share, dy)"}}),
    Exercise(
        "11.6", minutes=5, lines=1, kind="find the bug",
        solution=mean_probe, given=(text_vectors,), judge=judge_mean, outputs=("x", "token_mask"),
        mistakes=(
            Mistake("FND-11.6a", {
                "[True, True, False]": "[True, True, True]"}, shown_by=lambda x, token_mask: token_mask.all()),
            Mistake("FND-11.6b", {
                "np.random.default_rng(0).standard_normal((2, 3, 4))": "np.zeros((2, 3, 4))"},
                shown_by=lambda x, token_mask: not x.any()),
            Mistake("FND-11.6c", {
                "np.random.default_rng(0).standard_normal((2, 3, 4))":
                    "np.array([[[1.0], [2.0], [3.0]], [[1.0], [-1.0], [3.0]]])"},
                shown_by=lambda x, token_mask: (token_mask.any(1).all()
                              and np.allclose(padded_sums(x, token_mask), 0))),
        )),
]
