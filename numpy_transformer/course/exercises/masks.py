"""Masks: the causal mask, the padding mask, and a softmax with a mask."""

import numpy as np

from ... import layers
from ...layers.masks import mask_scores
from .definition import Exercise, Mistake


def causal_mask(T):
    """Returns the causal mask, which hides from each token all later tokens.

    T: int, the number of tokens.
    Return mask: (T, T), boolean, with a row for each query and a column for each key; True = may attend. Token t may
        attend to the tokens 0 to t, including itself.
    """
    return np.tri(T, dtype=bool)


def one_and_many(rng):
    return [("one token", (1,)), ("many tokens", (int(rng.integers(100, 300)),))]


def padding_mask(ids, pad_id):
    """Returns the mask that hides padding tokens.

    ids: (B, S), integers, the tokens of the keys.
    pad_id: int, the id of the padding token.
    Return mask: (B, 1, 1, S), boolean, True = may attend. It broadcasts to scores of shape (B, H, T, S).
    """
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
    return [("one sequence", (ids[None], pad_id))]


def masked_softmax(scores, mask):
    """Computes the softmax over the keys that the mask allows.

    scores: (..., T, S); they may be in the thousands.
    mask: boolean, True = may attend; it broadcasts to the shape of scores.
    Return p: (..., T, S), of the dtype of scores. Each row sums to 1, and a hidden key has weight exactly 0. If a query
        may attend to no key, its row is 0.
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
    """A mask that hides about half of the keys, but never all keys of a row."""
    return (rng.random(shape) < 0.5) | (np.arange(shape[-1]) == rng.integers(0, shape[-1], (*shape[:-1], 1)))


def edges(rng):
    scores, padding = rng.standard_normal((2, 3, 4, 5)), allowed(rng, (2, 1, 1, 5))
    empty = padding & (np.arange(4)[:, None] != 2)
    apart = scores + 1000 * np.arange(-2, 2)[:, None] + 3000 * ~padding
    return [("a padding mask for each sequence", (scores, padding)), ("one mask for all", (scores, padding[0, 0, 0])),
            ("rows far apart, hidden scores far above the visible ones", (apart, padding)),
            ("query 2 may attend to nothing", (2 * scores, empty))]


HIDDEN = "np.where(mask, scores, -np.inf)"
SAFE = "np.where(np.isfinite(top), top, 0)"
NORMAL = "np.where(total > 0, total, 1)"

EXERCISES = [
    Exercise(
        "06.1", "The causal mask", minutes=5, lines=1,
        solution=causal_mask, reference=lambda T: layers.causal_mask(T)[0, 0], outputs=("mask",),
        inputs=lambda rng, n: (int(rng.integers(3, 40)),), edges=one_and_many,
        invariants=(("row t must allow t + 1 keys",
                     lambda inputs, outputs: outputs[0].sum(1) - np.arange(1, inputs[0] + 1)),),
        hints=("Write the mask for T = 3 on paper, with a row for each query. Which triangle is True, and is the "
               "diagonal?",
               "Entry (t, s) is True if s <= t: the lower triangle including the diagonal.",
               "np.tri has ones there. Alternatively, compare np.arange(T) with itself as a column: s <= t."),
        mistakes=(
            Mistake("MSK-1", {"np.tri(T, dtype=bool)": "np.ones((T, T), dtype=bool)"},
                    "Your mask hides nothing, so each token sees the tokens that it is trained to predict."),
            Mistake("MSK-3", {"np.tri(T, dtype=bool)": "~np.tri(T, dtype=bool)"},
                    "You have swapped True and False. True means that a token may attend, so with your mask each token "
                    "sees only the later ones."),
            Mistake("MSK-4", {"np.tri(T, dtype=bool)": "np.tri(T, dtype=bool).T"},
                    "Your mask is transposed, so a token sees itself and the tokens after it. Rows are queries, "
                    "columns are keys."),
            Mistake("MSK-5", {"np.tri(T, dtype=bool)": "np.tri(T, T, -1, dtype=bool)"},
                    "Your mask also hides the diagonal. A token may attend to itself, and token 0 has no other token."),
            Mistake("MSK-6", {"np.tri(T, dtype=bool)": "np.tri(T, T, 1, dtype=bool)"},
                    "Your mask allows one token too many: each token sees the next one, which it is trained to "
                    "predict."),
            Mistake("MSK-13", {"np.tri(T, dtype=bool)": "np.where(np.tri(T, dtype=bool), 0, -np.inf)"},
                    "This is a mask to be added to scores, with 0 and -inf. Here a mask is boolean, and True = may "
                    "attend. Code that hides the keys where a mask is 0 would hide the wrong ones."),
            Mistake("MSK-14", {"np.tri(T, dtype=bool)": "np.eye(T, dtype=bool)"},
                    "Only the diagonal of your mask is True. Each token sees only itself, so no information passes "
                    "between tokens."),
        ),
        alternatives={"comparison": {"np.tri(T, dtype=bool)": "np.arange(T) <= np.arange(T)[:, None]"},
                      "upper triangle": {"np.tri(T, dtype=bool)": "~np.triu(np.ones((T, T), dtype=bool), 1)"}}),
    Exercise(
        "06.2", "The padding mask", minutes=5, lines=2,
        solution=padding_mask, reference=layers.padding_mask, inputs=sentences, outputs=("mask",),
        edges=one_sentence,
        hints=("Which comparison is True at real tokens? And which of the axes (B, H, T, S) does its result have?",
               "It has the axes of the batch and of the keys. All heads and all queries share it, so insert two axes "
               "of size 1 between them.",
               "(ids != pad_id)[:, None, None, :]."),
        mistakes=(
            Mistake("MSK-1", {"ids != pad_id": "np.ones_like(ids, dtype=bool)"},
                    "Your mask hides nothing, so padding tokens are seen like any other token."),
            Mistake("MSK-3", {"ids != pad_id": "ids == pad_id"},
                    "You have swapped True and False. True means that a query may attend to the key, so your mask "
                    "shows only padding."),
            Mistake("MSK-11", {"[:, None, None, :]": "[:, None, :, None]"},
                    "Your mask lies on the axis of the queries, so real tokens would still see padding. A padding mask "
                    "must hide keys."),
            Mistake("MSK-12", {"ids != pad_id": "np.broadcast_to(ids[0] != pad_id, ids.shape)"},
                    "You use the mask of the first sequence for all sequences. Each sequence has its own padding."),
            Mistake("MSK-15", {"ids != pad_id": "ids != 0"},
                    "You assume that the id of the padding token is 0. It is an argument, and 0 may be an ordinary "
                    "token."),
            Mistake("MSK-16", {"[:, None, None, :]": "[:, None, :]"},
                    "Your mask has three axes. NumPy aligns shapes from the right, so against scores (B, H, T, S) its "
                    "batch axis would be aligned with the heads."),
            Mistake("MSK-17", {"[:, None, None, :]": ""},
                    "Your mask has shape (B, S). NumPy aligns shapes from the right, so against scores (B, H, T, S) "
                    "its batch axis would be aligned with the queries."),
            Mistake("MSK-19", {"ids != pad_id": "ids > pad_id"},
                    "You hide all ids up to that of padding. Ordinary tokens may have smaller ids than padding."),
            Mistake("MSK-20", {"ids != pad_id": "np.arange(ids.shape[1]) < (ids != pad_id).sum(1)[:, None]"},
                    "You count the real tokens and show as many from the start of each row. Padding may be anywhere "
                    "in a row, not only at its end."),
            Mistake("MSK-21", {"ids != pad_id": "np.cumprod(ids != pad_id, 1).astype(bool)"},
                    "You hide everything after the first padding token. Padding may be anywhere in a row, not only "
                    "at its end."),
            Mistake("MSK-22", {
                    "token_mask[:, None, None, :]": "token_mask[:, None, None, :] & token_mask[:, None, :, None]"},
                    "Your mask hides the rows of padding queries too. The mask is (B, 1, 1, S): it hides keys, for "
                    "all queries alike."),
            Mistake("MSK-12b", {"token_mask[:,": "token_mask[:1,"},
                    "You return the mask of the first sequence only. Each sequence has its own padding."),
            Mistake("MSK-23", {"[:, None, None, :]": "[None, None]"},
                    "You insert the new axes in front, so the batch is aligned with the queries. The batch must stay "
                    "the first axis."),
        ),
        alternatives={"reshape": {"token_mask[:, None, None, :]": "token_mask.reshape(len(ids), 1, 1, -1)"}}),
    Exercise(
        "06.3", "Softmax with a mask", minutes=20, lines=5,
        solution=masked_softmax, inputs=draw_scores, edges=edges, outputs=("p",),
        reference=lambda scores, mask: layers.Softmax()(mask_scores(scores.copy(), mask)),
        invariants=(("hidden keys must have weight 0", lambda inputs, outputs: np.where(inputs[1], 0, outputs[0])),
                    ("rows of p must sum to 1, or to 0 if no key is visible", lambda inputs, outputs:
                     outputs[0].sum(-1) - np.broadcast_to(inputs[1], outputs[0].shape).any(-1))),
        hints=("Which score has weight 0 after exp, whatever the other scores are?",
               "-inf, inserted with np.where. A row that contains only -inf needs care twice: at the maximum, because "
               "-inf - (-inf) is NaN, and at the division, because 0 / 0 is NaN.",
               "If the maximum is not finite, subtract 0 instead. If the sum is 0, divide by 1 instead."),
        mistakes=(
            Mistake("MSK-1", {HIDDEN: "scores"}, "Your code does not use the mask, so hidden keys keep their weights."),
            Mistake("MSK-2", {HIDDEN: "scores", f"e / {NORMAL}": f"e / {NORMAL} * mask"},
                    "You multiply the finished weights by the mask, so the rows sum to less than 1. Hide the scores "
                    "instead, or normalize again."),
            Mistake("MSK-3", {HIDDEN: "np.where(mask, -np.inf, scores)"},
                    "You have swapped True and False. True means that a query may attend, but your code hides the "
                    "visible keys."),
            Mistake("MSK-3b", {HIDDEN: "scores + mask * -1e9"},
                    "You add -1e9 where the mask is True, but True = may attend, so your code hides the visible keys."),
            Mistake("MSK-7", {HIDDEN: "scores * mask"},
                    "You set a hidden score to 0, but exp(0) = 1, so the key keeps a weight. Only a score of -inf has "
                    "weight 0."),
            Mistake("MSK-8a", {HIDDEN: "np.where(mask, scores, scores - 1)"},
                    "You lower hidden scores by 1. That divides their exp by 2.7 but does not make it 0."),
            Mistake("MSK-8b", {HIDDEN: "np.where(mask, scores, scores - 10)"},
                    "You lower hidden scores by 10. That divides their exp by 22026 but does not make it 0. A careless "
                    "test does not notice such a small leak."),
            Mistake("MSK-9", {HIDDEN: "scores + ~mask * -np.inf"},
                    "At visible keys, False * -inf is 0 times -inf, which is NaN. Choose between two numbers instead "
                    "of multiplying."),
            Mistake("MSK-10a", {HIDDEN: "scores + ~mask * -1e9"},
                    "In a row without a visible key, you lower all scores by 1e9. Softmax does not change if all "
                    "scores of a row change by the same amount, so the weights are the same as without a mask. Such a "
                    "row must be 0."),
            Mistake("MSK-10b", {HIDDEN: "np.where(mask, scores, -1e9)"},
                    "In a row without a visible key, the hidden keys share the weight equally, as they do if all "
                    "scores are -1e9. Such a row must be 0."),
            Mistake("MSK-10c", {NORMAL: "total"},
                    "A row without a visible key becomes 0 / 0 = NaN, and NaN spreads to everything computed from it. "
                    "Such a row must be 0."),
            Mistake("MSK-12", {HIDDEN: "np.where(mask[:1], scores, -np.inf)"},
                    "You use the mask of the first sequence for the whole batch. Each sequence has its own mask."),
            Mistake("MSK-18", {HIDDEN: "scores\n    np.copyto(s, -np.inf, where=~mask)"},
                    "You write -inf into the caller's scores. Use np.where or a copy, which leaves them unchanged."),
            Mistake("SMF-1", {f" - {SAFE}": ""},
                    "Your code does not subtract the row's maximum. exp overflows for scores above about 709 in "
                    "float64 and above 88 in float32."),
            Mistake("SMF-3", {"e.sum(-1, keepdims=True)": "e.sum(-2, keepdims=True)"},
                    "Your columns sum to 1. Each query distributes its weight over the keys, so the sum must run over "
                    "the last axis."),
            Mistake("MSK-24", {"s.max(-1": "scores.max(-1"},
                    "You take the maximum over all keys, hidden ones included. If a hidden score is far above the "
                    "visible ones, exp of every visible score becomes 0."),
            Mistake("MSK-8c", {HIDDEN: "np.where(mask, scores, -1000.0)"},
                    "You set hidden scores to -1000. Scores may be in the thousands, and then a hidden key is no "
                    "longer far below the visible ones."),
            Mistake("MSK-25", {HIDDEN: "scores.copy()\n    s[~mask] = -np.inf"},
                    "A boolean index must have the shape of the array. The mask need not: it broadcasts to the shape "
                    "of scores, as np.where does."),
            Mistake("SMF-2", {"s.max(-1, keepdims=True)": "s.max()"},
                    "You subtract one maximum for the whole array, so rows far below it become 0. Each row needs its "
                    "own maximum."),
            Mistake("SMF-3b", {"s.max(-1,": "s.max(-2,", "e.sum(-1,": "e.sum(-2,"},
                    "Your softmax runs over the queries. Each query distributes its weight over the keys, so maximum "
                    "and sum run over the last axis."),
            Mistake("SMF-5", {"e.sum(-1, keepdims=True)": "e.sum(-1)"},
                    "You sum each row without keepdims=True. The result has lost the last axis, so NumPy no longer "
                    "aligns it with the rows."),
            Mistake("SMF-13", {f" / {NORMAL}": ""},
                    "You do not divide by the sums of the rows, so they do not sum to 1."),
        ),
        alternatives={"mask after exp, then normalized": {
                          "s.max(": "np.where(mask, scores, -np.inf).max(", HIDDEN: "scores",
                          f"np.exp(s - {SAFE})": f"np.where(mask, np.exp(s - {SAFE}), 0)"},
                      "-1e9, and a product afterwards": {HIDDEN: "np.where(mask, scores, -1e9)",
                                                         "e = np.exp(": "e = mask * np.exp("},
                      "NaN made 0": {SAFE: "top", f"e / {NORMAL}": "np.nan_to_num(e / total)"}}),
]
