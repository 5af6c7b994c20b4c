"""Masks: the causal mask, the padding mask, and a softmax with a mask."""

import numpy as np

from ... import layers
from ...layers.masks import mask_scores
from .definition import Exercise, Mistake


def causal_mask(T):
    return np.tri(T, dtype=bool)


def one_and_many(rng):
    return [("token", (1,)), ("many_tokens", (int(rng.integers(100, 300)),)), ("long_text", (int(rng.integers(520, 600)),))]


def padding_mask(ids, pad_id):
    token_mask = ids != pad_id
    return token_mask[:, None, None, :]


def sentences(rng, n):
    """Padding also inside a row, and 0 as an ordinary token."""
    pad_id = int(rng.integers(1, n.V))
    ids = rng.integers(0, n.V, (n.B, n.S))
    return np.where(rng.random(ids.shape) < 0.3, pad_id, ids), pad_id


def one_sentence(rng):
    pad_id = int(rng.integers(1, 50))
    ids = rng.permutation(50)[:5]
    ids[[1, 2, 4]] = pad_id
    ids[3] = 0
    return [("sequence", (ids[None], pad_id))]


def masked_softmax(scores, mask):
    s = np.where(mask, scores, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total > 0, total, 1)


def draw_scores(rng, n):
    shape = (*n.lead, n.S)
    return rng.standard_normal(shape), allowed(rng, shape)


def allowed(rng, shape):
    """A mask that hides about half of the keys, but never all keys of a row."""
    return (rng.random(shape) < 0.5) | (np.arange(shape[-1]) == rng.integers(0, shape[-1], (*shape[:-1], 1)))


def edges(rng):
    scores, padding = rng.standard_normal((2, 3, 4, 5)), allowed(rng, (2, 1, 1, 5))
    rows = np.arange(4)[:, None]
    empty = (padding | (rows == 1)) & (rows != 2)           # query 1 may attend to all keys, query 2 to none
    apart = scores + 1000 * (rows - 2) + 3000 * ~padding
    return [("padding_mask_sequence", (scores, padding)), ("mask", (scores, padding[0, 0, 0])),
            ("rows_far_apart_hidden", (apart, padding)),
            ("query_2_may", (2 * scores, empty)), ("scores_around_million", (scores - 1e6, padding))]


HIDDEN = "np.where(mask, scores, -np.inf)"
SAFE = "np.where(np.isfinite(top), top, 0)"
NORMAL = "np.where(total > 0, total, 1)"


EXERCISES = [
    Exercise(
        "06.1", minutes=5, lines=1,
        solution=causal_mask, reference=lambda T: layers.causal_mask(T)[0, 0], outputs=("mask",),
        inputs=lambda rng, n: (int(rng.integers(3, 40)),), edges=one_and_many, further_edges=("long_text",),
        must_be_zero={"row_t_allow": lambda inputs, outputs: outputs[0].sum(1) - np.arange(1, inputs[0] + 1)},
        mistakes=(
            Mistake("MSK-1", {"np.tri(T, dtype=bool)": "np.ones((T, T), dtype=bool)"}),
            Mistake("MSK-3", {"np.tri(T, dtype=bool)": "~np.tri(T, dtype=bool)"}),
            Mistake("MSK-4", {"np.tri(T, dtype=bool)": "np.tri(T, dtype=bool).T"}),
            Mistake("MSK-5", {"np.tri(T, dtype=bool)": "np.tri(T, T, -1, dtype=bool)"}),
            Mistake("MSK-6", {"np.tri(T, dtype=bool)": "np.tri(T, T, 1, dtype=bool)"}),
            Mistake("MSK-13", {"np.tri(T, dtype=bool)": "np.where(np.tri(T, dtype=bool), 0, -np.inf)"}),
            Mistake("MSK-14", {"np.tri(T, dtype=bool)": "np.eye(T, dtype=bool)"}),
        ),
        alternatives={"comparison": {"np.tri(T, dtype=bool)": "np.arange(T) <= np.arange(T)[:, None]"},
                      "upper triangle": {"np.tri(T, dtype=bool)": "~np.triu(np.ones((T, T), dtype=bool), 1)"}}),
    Exercise(
        "06.2", minutes=5, lines=2, size_letters="TS",
        solution=padding_mask, reference=layers.padding_mask, inputs=sentences, outputs=("mask",),
        edges=one_sentence,
        mistakes=(
            Mistake("MSK-1", {"ids != pad_id": "np.ones_like(ids, dtype=bool)"}),
            Mistake("MSK-3", {"ids != pad_id": "ids == pad_id"}),
            Mistake("MSK-11", {"[:, None, None, :]": "[:, None, :, None]"}),
            Mistake("MSK-12", {"ids != pad_id": "np.broadcast_to(ids[0] != pad_id, ids.shape)"}),
            Mistake("MSK-15", {"ids != pad_id": "ids != 0"}),
            Mistake("MSK-16", {"[:, None, None, :]": "[:, None, :]"}),
            Mistake("MSK-17", {"[:, None, None, :]": ""}),
            Mistake("MSK-19", {"ids != pad_id": "ids > pad_id"}),
            Mistake("MSK-20", {"ids != pad_id": "np.arange(ids.shape[1]) < (ids != pad_id).sum(1)[:, None]"}),
            Mistake("MSK-21", {"ids != pad_id": "np.cumprod(ids != pad_id, 1).astype(bool)"}),
            Mistake("MSK-22", {
                "token_mask[:, None, None, :]": "token_mask[:, None, None, :] & token_mask[:, None, :, None]"}),
            Mistake("MSK-23", {"[:, None, None, :]": "[None, None]"}),
        ),
        alternatives={"reshape": {"token_mask[:, None, None, :]": "token_mask.reshape(len(ids), 1, 1, -1)"}}),
    Exercise(
        "06.3", minutes=20, lines=5, size_letters="TS",
        solution=masked_softmax, inputs=draw_scores, edges=edges, outputs=("p",),
        reference=lambda scores, mask: layers.Softmax()(mask_scores(scores.copy(), mask)),
        must_be_zero={"hidden_keys_weight": lambda inputs, outputs: np.where(inputs[1], 0, outputs[0]),
                      "rows_p_sum_1": lambda inputs, outputs:
                          outputs[0].sum(-1) - np.broadcast_to(inputs[1], outputs[0].shape).any(-1)},
        mistakes=(
            Mistake("MSK-1", {"np.where(mask, scores, -np.inf)": "scores"}),
            Mistake("MSK-2", {
                "np.where(mask, scores, -np.inf)": "scores",
                "e / np.where(total > 0, total, 1)": "e / np.where(total > 0, total, 1) * mask"}),
            Mistake("MSK-3", {"np.where(mask, scores, -np.inf)": "np.where(mask, -np.inf, scores)"}),
            Mistake("MSK-3b", {"np.where(mask, scores, -np.inf)": "scores + mask * -1e9"}),
            Mistake("MSK-7", {"np.where(mask, scores, -np.inf)": "scores * mask"}),
            Mistake("MSK-7b", {
                "np.where(mask, scores, -np.inf)": "scores * mask",
                "return e /": "return e * mask.any(-1, keepdims=True) /"}),
            Mistake("MSK-8a", {"np.where(mask, scores, -np.inf)": "np.where(mask, scores, scores - 1)"}),
            Mistake("MSK-8b", {"np.where(mask, scores, -np.inf)": "np.where(mask, scores, scores - 10)"}),
            Mistake("MSK-9", {"np.where(mask, scores, -np.inf)": "scores + ~mask * -np.inf"}),
            Mistake("MSK-10a", {"np.where(mask, scores, -np.inf)": "scores + ~mask * -1e9"}),
            Mistake("MSK-10b", {"np.where(mask, scores, -np.inf)": "np.where(mask, scores, -1e9)"}),
            Mistake("MSK-10c", {"np.where(total > 0, total, 1)": "total"}),
            Mistake("MSK-12", {"np.where(mask, scores, -np.inf)": "np.where(mask[:1], scores, -np.inf)"}),
            Mistake("MSK-18", {"np.where(mask, scores, -np.inf)": "scores\n    np.copyto(s, -np.inf, where=~mask)"}),
            Mistake("SMF-1", {" - np.where(np.isfinite(top), top, 0)": ""}),
            Mistake("SMF-3", {"e.sum(-1, keepdims=True)": "e.sum(-2, keepdims=True)"}),
            Mistake("MSK-24", {"s.max(-1": "scores.max(-1"}),
            Mistake("SMF-2", {"s.max(-1, keepdims=True)": "s.max()"}),
            Mistake("SMF-3b", {"s.max(-1,": "s.max(-2,", "e.sum(-1,": "e.sum(-2,"}),
            Mistake("SMF-13", {" / np.where(total > 0, total, 1)": ""}),
        ),
        alternatives={"mask after exp, then normalized": {
                          "s.max(": "np.where(mask, scores, -np.inf).max(", HIDDEN: "scores",
                          f"np.exp(s - {SAFE})": f"np.where(mask, np.exp(s - {SAFE}), 0)"},
                      "-1e9, and a product afterwards": {HIDDEN: "np.where(mask, scores, -1e9)",
                                                         "e = np.exp(": "e = mask * np.exp("},
                      "NaN made 0": {SAFE: "top", f"e / {NORMAL}": "np.nan_to_num(e / total)"}}),
]
