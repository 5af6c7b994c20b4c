"""Masks: the causal one, that of padding, and a softmax that obeys them."""

import numpy as np

from ... import layers
from ...layers.masks import mask_scores
from ..exercise import Exercise, Mistake


def causal_mask(T):
    """Which tokens a token may see, if it must not see those after it.

    T: int.  Return mask: (T, T) boolean, a row for each query and a column for each key; True = may attend. Token t may
    attend to the tokens 0 to t, itself included.
    """
    return np.tri(T, dtype=bool)


def padding_mask(ids, pad_id):
    """Which tokens may be seen, if padding must not be.

    ids: (B, S) integers, those of the keys' tokens.  pad_id: int, the id of padding.
    Return mask: (B, 1, 1, S) boolean, True = may attend: it broadcasts against scores (B, H, T, S).
    """
    real = ids != pad_id
    return real[:, None, None, :]


def sentences(rng, n):
    """Padding inside a row, too, and 0 as an ordinary token."""
    pad_id, ids = int(rng.integers(1, n.V)), rng.integers(0, n.V, (n.B, n.S))
    return np.where(rng.random(ids.shape) < 0.3, pad_id, ids), pad_id


def masked_softmax(scores, mask):
    """Softmax over those keys that the mask allows.

    scores: (..., T, S), in the thousands too.  mask: boolean, broadcasts to the shape of scores, True = may attend.
    Return p: (..., T, S), of the dtype of scores: each row sums to 1, and a hidden key has weight exactly 0. The row of
    a query that may attend to nothing is 0.
    """
    s = np.where(mask, scores, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total > 0, total, 1)


def draw_scores(rng, n):
    shape = (*n.lead, n.S)
    return rng.standard_normal(shape), allowed(rng, shape)


def allowed(rng, shape):
    """A mask that hides much, and in no row everything."""
    return (rng.random(shape) < 0.5) | (np.arange(shape[-1]) == rng.integers(0, shape[-1], (*shape[:-1], 1)))


def edges(rng):
    scores, padding = rng.standard_normal((2, 3, 4, 5)), allowed(rng, (2, 1, 1, 5))
    empty = padding & (np.arange(4)[:, None] != 2)
    return [("the padding mask of each sequence", (scores, padding)), ("one mask for all", (scores, padding[0, 0, 0])),
            ("scores around 1000", (scores + 1000, padding)), ("query 2 may attend to nothing", (2 * scores, empty))]


HIDDEN, SAFE, NORMAL = ("np.where(mask, scores, -np.inf)", "np.where(np.isfinite(top), top, 0)",
                        "np.where(total > 0, total, 1)")

EXERCISES = [
    Exercise(
        "06.1", "The causal mask", minutes=5, lines=1,
        solution=causal_mask, reference=lambda T: layers.causal_mask(T)[0, 0], outputs=("mask",),
        inputs=lambda rng, n: (n.T,), edges=lambda rng: [("one token", (1,))],
        invariants=(("row t must allow t + 1 keys",
                     lambda inputs, outputs: outputs[0].sum(1) - np.arange(1, inputs[0] + 1)),),
        hints=("Write the mask for T = 3 on paper: rows are queries. Which triangle is True, and what of the diagonal?",
               "Entry (t, s) is True where s <= t: the lower triangle with the diagonal.",
               "np.tri has ones there; or compare np.arange(T) with itself as a column: s <= t."),
        mistakes=(
            Mistake("MSK-1", {"np.tri(T, dtype=bool)": "np.ones((T, T), dtype=bool)"},
                    "Nothing is hidden: each token sees those that it is trained to predict."),
            Mistake("MSK-3", {"np.tri(T, dtype=bool)": "~np.tri(T, dtype=bool)"},
                    "True and False are swapped: True = may attend. So each token sees the later ones alone."),
            Mistake("MSK-4", {"np.tri(T, dtype=bool)": "np.tri(T, dtype=bool).T"},
                    "The mask is transposed: a token sees itself and those after it. Rows are queries, columns keys."),
            Mistake("MSK-5", {"np.tri(T, dtype=bool)": "np.tri(T, T, -1, dtype=bool)"},
                    "The diagonal is hidden, too: a token may attend to itself. Token 0 has nobody else."),
            Mistake("MSK-6", {"np.tri(T, dtype=bool)": "np.tri(T, T, 1, dtype=bool)"},
                    "One too many: each token sees the next one, the very token that it is trained to predict."),
            Mistake("MSK-13", {"np.tri(T, dtype=bool)": "np.where(np.tri(T, dtype=bool), 0, -np.inf)"},
                    "That is a mask to be added to scores, 0 and -inf. The convention here is boolean, True = may "
                    "attend; code that hides where a mask is 0 would turn this one around."),
            Mistake("MSK-14", {"np.tri(T, dtype=bool)": "np.eye(T, dtype=bool)"},
                    "Only the diagonal is open: each token sees itself alone, and nothing passes from token to token."),
        ),
        alternatives={"comparison": {"np.tri(T, dtype=bool)": "np.arange(T) <= np.arange(T)[:, None]"},
                      "upper triangle": {"np.tri(T, dtype=bool)": "~np.triu(np.ones((T, T), dtype=bool), 1)"}}),
    Exercise(
        "06.2", "The padding mask", minutes=5, lines=2,
        solution=padding_mask, reference=layers.padding_mask, inputs=sentences, outputs=("mask",),
        edges=lambda rng: [("one sequence", (np.array([[0, 4, 4, 2, 4]]), 4))],
        hints=("Which comparison is True at real tokens? And which of the axes (B, H, T, S) does it have?",
               "It has the axes of the batch and of the keys. The heads and the queries share it: two axes of size 1 "
               "between.",
               "(ids != pad_id)[:, None, None, :]."),
        mistakes=(
            Mistake("MSK-1", {"ids != pad_id": "np.ones_like(ids, dtype=bool)"},
                    "Nothing is hidden: padding is seen like any other token."),
            Mistake("MSK-3", {"ids != pad_id": "ids == pad_id"},
                    "True and False are swapped: True = may attend. This mask shows padding, and nothing else."),
            Mistake("MSK-11", {"[:, None, None, :]": "[:, None, :, None]"},
                    "The mask lies on the axis of the queries: real tokens would still see padding. It is keys that "
                    "are hidden."),
            Mistake("MSK-12", {"ids != pad_id": "np.broadcast_to(ids[0] != pad_id, ids.shape)"},
                    "Every sequence has the mask of the first one. Each has padding of its own."),
            Mistake("MSK-15", {"ids != pad_id": "ids != 0"},
                    "The id of padding is taken to be 0. It is an argument, and 0 may be an ordinary token."),
            Mistake("MSK-16", {"[:, None, None, :]": "[:, None, :]"},
                    "The mask has three axes, and NumPy aligns shapes from the right: against scores (B, H, T, S) its "
                    "batch would lie on the heads."),
            Mistake("MSK-17", {"[:, None, None, :]": ""},
                    "The mask is (B, S), and NumPy aligns shapes from the right: against scores (B, H, T, S) its batch "
                    "would lie on the queries."),
        ),
        alternatives={"reshape": {"real[:, None, None, :]": "real.reshape(len(ids), 1, 1, -1)"}}),
    Exercise(
        "06.3", "Softmax with a mask", minutes=20, lines=5,
        solution=masked_softmax, inputs=draw_scores, edges=edges, outputs=("p",),
        reference=lambda scores, mask: layers.Softmax()(mask_scores(scores.copy(), mask)),
        invariants=(("hidden keys must have weight 0", lambda inputs, outputs: np.where(inputs[1], 0, outputs[0])),
                    ("rows of p must sum to 1, or to 0 where nothing is visible", lambda inputs, outputs:
                     outputs[0].sum(-1) - np.broadcast_to(inputs[1], outputs[0].shape).any(-1))),
        hints=("Which score has the weight 0 after exp, whatever the others are?",
               "-inf, put there with np.where. A row of -inf alone needs care twice: at the maximum, since -inf - "
               "(-inf) is NaN, and at the division, since 0 / 0 is.",
               "Where the maximum is not finite, subtract 0 instead; where the sum is 0, divide by 1 instead."),
        mistakes=(
            Mistake("MSK-1", {HIDDEN: "scores"}, "The mask is not used: hidden keys keep their weights."),
            Mistake("MSK-2", {HIDDEN: "scores", f"e / {NORMAL}": f"e / {NORMAL} * mask"},
                    "The mask is multiplied with the finished weights: the rows sum to less than 1. Hide the scores, "
                    "or normalize once more."),
            Mistake("MSK-3", {HIDDEN: "np.where(mask, -np.inf, scores)"},
                    "True and False are swapped: True = may attend. Here the visible keys are hidden."),
            Mistake("MSK-3b", {HIDDEN: "scores + mask * -1e9"},
                    "-1e9 is added where the mask is True, and True = may attend: the visible keys are pushed away."),
            Mistake("MSK-7", {HIDDEN: "scores * mask"},
                    "A hidden score becomes 0, and exp(0) = 1: the key keeps a weight. Only a score of -inf has weight "
                    "0."),
            Mistake("MSK-8a", {HIDDEN: "np.where(mask, scores, scores - 1)"},
                    "Hidden scores are lowered by 1: that divides exp of them by 2.7, and does not make it 0."),
            Mistake("MSK-8b", {HIDDEN: "np.where(mask, scores, scores - 10)"},
                    "Hidden scores are lowered by 10: that divides exp of them by 22026, and does not make it 0. A "
                    "leak so small passes a careless test."),
            Mistake("MSK-9", {HIDDEN: "scores + ~mask * -np.inf"},
                    "At visible keys False * -inf is 0 times -inf, which is NaN. Choose between two numbers instead of "
                    "multiplying."),
            Mistake("MSK-10a", {HIDDEN: "scores + ~mask * -1e9"},
                    "In a row without a visible key all scores move by -1e9, and softmax cancels what they have in "
                    "common: the weights come back as if there were no mask. Such a row must be 0."),
            Mistake("MSK-10b", {HIDDEN: "np.where(mask, scores, -1e9)"},
                    "In a row without a visible key the hidden keys share the weight, all alike, as equal scores of "
                    "-1e9 do. Such a row must be 0."),
            Mistake("MSK-10c", {NORMAL: "total"},
                    "A row without a visible key becomes 0 / 0 = NaN, and NaN spreads to everything that is computed "
                    "with it. Such a row must be 0."),
            Mistake("MSK-12", {HIDDEN: "np.where(mask[:1], scores, -np.inf)"},
                    "The mask of the first sequence is used for the whole batch. Each has its own."),
            Mistake("MSK-18", {HIDDEN: "scores\n    np.copyto(s, -np.inf, where=~mask)"},
                    "-inf is written into the caller's scores; np.where or a copy leaves them as they are."),
            Mistake("SMF-1", {f" - {SAFE}": ""},
                    "No maximum is subtracted: exp overflows above about 709 in float64, 88 in float32."),
            Mistake("SMF-3", {"e.sum(-1, keepdims=True)": "e.sum(-2, keepdims=True)"},
                    "The columns sum to 1: each query shares its weight among the keys, so the sum goes over the last "
                    "axis."),
        ),
        alternatives={"mask after exp, then normalized": {HIDDEN: "scores", "e = np.exp(": "e = mask * np.exp("},
                      "-1e9, and 0 behind it": {HIDDEN: "np.where(mask, scores, -1e9)",
                                                "e = np.exp(": "e = mask * np.exp("},
                      "NaN made 0": {SAFE: "top", f"e / {NORMAL}": "np.nan_to_num(e / total)"}}),
]
