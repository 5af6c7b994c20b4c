"""The embedding: the gradient of its table, for an input embedding and for one that is tied to the output."""

import math

import numpy as np

from ...layers import Embedding, Unembedding
from .definition import Exercise, Mistake


def embedding_backward(ids, dy, vocab_size, pad_id):
    """Computes the gradient of an embedding's table.

    The forward pass was y = sqrt(D) table[ids], with zeros wherever ids == pad_id.

    ids: (...), integers from 0 to V - 1, which may repeat.
    dy: (..., D), dL/dy.
    vocab_size: V, the number of rows of the table.
    pad_id: the id of the padding token, or None if there is no padding.
    Return dtable: (V, D), of the dtype of dy. A row that had no effect on y has gradient 0.
    """
    dtable = np.zeros((vocab_size, dy.shape[-1]), dy.dtype)
    np.add.at(dtable, ids, math.sqrt(dy.shape[-1]) * dy)
    if pad_id is not None:
        dtable[pad_id] = 0
    return dtable


def tokens(rng, shape, V, pad_id):
    """Ids with padding in the middle and a token that occurs at both ends; V - 1 does not occur."""
    ids = rng.integers(V - 1, size=shape)
    ids.flat[[1, 4]] = pad_id
    ids.flat[[0, 3, -1]] = (pad_id + 1) % (V - 1)
    return ids


def draw_embedding(rng, n):
    pad_id = n.H                                # not 0: that may be an ordinary token
    return tokens(rng, n.lead, n.V, pad_id), rng.standard_normal((*n.lead, n.D)), n.V, pad_id


def paddings(rng):
    def drawn(V, D, shape):
        return tokens(rng, shape, V, 0), rng.standard_normal((*shape, D)), V
    return [("padding has the id 0", (*drawn(9, 5, (2, 4)), 0)), ("no padding", (*drawn(9, 5, (2, 4)), None)),
            ("as many tokens as vocabulary entries", (*drawn(8, 6, (8,)), 0))]


def by_embedding(ids, dy, vocab_size, pad_id):
    layer = Embedding(vocab_size, dy.shape[-1], scale=True, pad_id=pad_id).astype(np.float64)
    layer(ids)
    layer.backward(dy)
    return layer.weight.grad


def tied_embedding_backward(ids, dy, h, dz):
    """Computes the gradient of a table that a model uses for its input and its output.

    The forward pass was y = sqrt(D) table[ids] at the input, and z = h tableᵀ for the logits at the output.

    ids: (...), integers from 0 to V - 1, which may repeat.
    dy: (..., D), dL/dy.
    h: (..., D), what the model computed from y.
    dz: (..., V), dL/dz, the gradient of the logits.
    Return dtable: (V, D), the gradient of the table from both uses, of the dtype of dz.
    """
    V, D = dz.shape[-1], h.shape[-1]
    dtable = dz.reshape(-1, V).T @ h.reshape(-1, D)
    np.add.at(dtable, ids, math.sqrt(D) * dy)
    return dtable


def draw_tied(rng, n):
    return (tokens(rng, n.lead, n.V, n.H), rng.standard_normal((*n.lead, n.D)), rng.standard_normal((*n.lead, n.D)),
            rng.standard_normal((*n.lead, n.V)))


def by_both_ends(ids, dy, h, dz):
    embedding = Embedding(dz.shape[-1], h.shape[-1], scale=True).astype(np.float64)
    output = Unembedding(embedding.weight)
    embedding(ids)
    output(h)
    output.backward(dz)
    embedding.backward(dy)
    return embedding.weight.grad


ADDED = "np.add.at(dtable, ids, math.sqrt(dy.shape[-1]) * dy)"
TIED = "np.add.at(dtable, ids, math.sqrt(D) * dy)"
REPEATS = ("If a token occurs several times, your code counts only one occurrence, because each result overwrites the "
           "one before. In dtable[ids] += ..., all occurrences start from the old row. np.add.at adds them all.")
UNSCALED = ("The factor sqrt(D) is missing. The forward pass multiplies by it, so it is part of the derivative of y "
            "with respect to the table.")
WRONG_SIZE = ("Your factor is the square root of another size of dy. It must be the factor of forward, the square "
              "root of D, and D is the last size.")
ROW_BY_ROW = ("Your loop goes over the first axis only, so ids[i] is a whole sequence, and an id that repeats in it "
              "counts only once. Visit each token, or use np.add.at.")
UNDONE = ("You divide the gradient by sqrt(D). Backward does not undo forward: the derivative of sqrt(D) E with "
          "respect to E is sqrt(D).")

EXERCISES = [
    Exercise(
        "03.1", "The embedding, backward", minutes=15, lines=5,
        solution=embedding_backward, reference=by_embedding, inputs=draw_embedding, edges=paddings, outputs=("dtable",),
        hints=("Row i of the table is copied to y wherever ids == i. What does its gradient collect from those places?",
               "dtable[i] is sqrt(D) times the sum of dy over all places where ids == i. Beware of dtable[ids] += ..., "
               "which counts an id that repeats only once.",
               "Start with zeros of shape (V, D) and call np.add.at(dtable, ids, math.sqrt(D) * dy). Then, if pad_id "
               "is not None, set dtable[pad_id] = 0."),
        mistakes=(
            Mistake("EMB-1a", {"np.add.at(dtable, ids, ": "dtable[ids] += ("}, REPEATS, twin="EMB-1b"),
            Mistake("EMB-1b", {"np.add.at(dtable, ids, ": "dtable[ids] = ("}, REPEATS, twin="EMB-1a"),
            Mistake("EMB-2", {"return dtable": "return dtable / np.maximum(1, np.bincount(ids.ravel(), "
                              "minlength=vocab_size))[:, None].astype(dy.dtype)"},
                    "Each of your rows is a mean over the occurrences of its token. Every occurrence affects the loss, "
                    "and their gradients add up."),
            Mistake("EMB-3a", {"math.sqrt(dy.shape[-1]) * dy": "dy"}, UNSCALED),
            Mistake("EMB-3b", {"math.sqrt(dy.shape[-1])": "dy.shape[-1]"},
                    "You multiply the gradient by D. The factor is the same as in forward, the square root of D."),
            Mistake("EMB-3c", {"math.sqrt(dy.shape[-1]) * dy": "dy / math.sqrt(dy.shape[-1])"}, UNDONE),
            Mistake("EMB-3d", {"math.sqrt(dy.shape[-1])": "math.sqrt(vocab_size)"},
                    "Your factor is the square root of the vocabulary size. It must be the factor of forward, the "
                    "square root of D."),
            Mistake("EMB-4a", {"    if pad_id is not None:\n        dtable[pad_id] = 0\n": ""},
                    "The row of the padding token gets a gradient. Its y is zero whatever the row contains, so the row "
                    "has no effect. If you clear the row, do it after the gradients have been added."),
            Mistake("EMB-4b", {"dtable[pad_id] = 0": "dtable[0] = 0"},
                    "You always clear the gradient of row 0. The argument pad_id says which token is padding."),
            Mistake("EMB-4c", {"    if pad_id is not None:\n        dtable": "    dtable"},
                    "If pad_id is None, your whole gradient is zero, because dtable[None] is the whole table with one "
                    "more axis. Check first whether there is a padding token."),
            Mistake("EMB-4d", {"if pad_id is not None": "if pad_id"},
                    "`if pad_id` is false for the id 0 too, so then the row of the padding token gets a gradient. "
                    "Compare with None."),
            Mistake("EMB-4e", {"dtable[pad_id] = 0": "dtable[ids == pad_id] = 0"},
                    "ids == pad_id has one entry for each token of the input, but dtable has one row for each token of "
                    "the vocabulary."),
            Mistake("EMB-5", {"(vocab_size, dy.shape[-1])": "(ids.max() + 1, dy.shape[-1])"},
                    "Your dtable ends at the largest id that occurs. It must have the shape of the table, with a row "
                    "for each token of the vocabulary."),
            Mistake("EMB-6", {ADDED: "dy *= math.sqrt(dy.shape[-1])\n    np.add.at(dtable, ids, dy)"},
                    "dy *= ... changes the caller's array. Write dy = factor * dy, which makes a new one."),
            Mistake("EMB-7", {ADDED: "np.add.at(dtable, ids, math.sqrt(dy.shape[-1]) * dy)\n    dy[ids == pad_id] = 0"},
                    "dy[ids == pad_id] = 0 changes the caller's array. Clear the row of the table instead, or work on "
                    "a copy."),
            Mistake("EMB-8", {"return dtable": "return dtable.T"},
                    "Your dtable is transposed. Like the table itself, it must have one row for each token of the "
                    "vocabulary."),
            Mistake("EMB-1c", {
                    "np.add.at(dtable, ids, math.sqrt(dy.shape[-1]) * dy)":
                    "for i in range(len(ids)):\n        dtable[ids[i]] += math.sqrt(dy.shape[-1]) * dy[i]"},
                    ROW_BY_ROW),
            Mistake("EMB-3e", {"math.sqrt(dy.shape[-1])": "math.sqrt(dy.shape[1])"}, WRONG_SIZE),
            Mistake("EMB-3f", {"math.sqrt(dy.shape[-1])": "math.sqrt(dy.shape[0])"}, WRONG_SIZE),
            Mistake("EMB-9", {"return dtable": "return dtable / ids.size"},
                    "You divide by the number of tokens. The gradient is a sum. If the loss is a mean, dy already "
                    "contains that factor."),
            Mistake("EMB-9b", {"return dtable": "return dtable / len(ids)"},
                    "You divide by the length of the first axis. The gradient is a sum. If the loss is a mean, dy "
                    "already contains that factor."),
            Mistake("EMB-10", {"return dtable": "return math.sqrt(dy.shape[-1]) * dy"},
                    "You return a gradient for each token of the input. The gradient of the table has one row for "
                    "each token of the vocabulary, in which those of its occurrences are added."),
            Mistake("EMB-11", {"np.zeros(": "np.ones("},
                    "Your dtable starts at 1, so every entry is too large by 1. A sum starts at 0."),
            Mistake("EMB-12", {"dtable[pad_id] = 0": "dtable[:, pad_id] = 0"},
                    "You clear a column of the table. The padding token has a row."),
            Mistake("EMB-13", {
                    "np.add.at(dtable, ids, math.sqrt(dy.shape[-1]) * dy)":
                    "for b, t in np.ndindex(ids.shape[0], ids.shape[1]):\n        dtable[ids[b, t]] += "
                    "math.sqrt(dy.shape[-1]) * dy[b, t]"},
                    "Your loops visit two axes of ids. There may be any number of leading axes; "
                    "np.ndindex(ids.shape) gives the indices of all tokens."),
        ),
        alternatives={
            "one-hot matmul": {ADDED: "hot = (ids.reshape(-1, 1) == np.arange(vocab_size)).astype(dy.dtype)\n    "
                                      "dtable += hot.T @ (math.sqrt(dy.shape[-1]) * dy.reshape(-1, dy.shape[-1]))"},
            "a loop": {ADDED: "for at in np.ndindex(ids.shape):\n        dtable[ids[at]] += math.sqrt(dy.shape[-1]) * "
                              "dy[at]"},
            "scaled at the end": {"math.sqrt(dy.shape[-1]) * dy": "dy",
                                  "return dtable": "return dtable * math.sqrt(dy.shape[-1])"},
            "without the padded tokens": {ADDED: "counted = ids != pad_id\n    np.add.at(dtable, ids[counted], "
                                          "math.sqrt(dy.shape[-1]) * dy[counted])",
                                          "    if pad_id is not None:\n        dtable[pad_id] = 0\n": ""}}),
    Exercise(
        "03.2", "The tied embedding, backward", minutes=15, lines=4,
        solution=tied_embedding_backward, reference=by_both_ends, inputs=draw_tied, outputs=("dtable",),
        hints=("The table is used twice in forward. What does each use, on its own, contribute to the gradient?",
               "z = h tableᵀ is a matrix product, so every row of the table affects the logits of every token. y = "
               "sqrt(D) table[ids] gives a scatter-add. The gradient is the sum of both.",
               "With the leading axes flattened into one, dtable = dz.T @ h, followed by np.add.at(dtable, ids, "
               "math.sqrt(D) * dy)."),
        mistakes=(
            Mistake("TIE-1", {f"    {TIED}\n": ""},
                    "Your gradient contains only the contribution of the output. The table is used at the input too, "
                    "so add the embedding's contribution."),
            Mistake("TIE-2", {"dz.reshape(-1, V).T @ h.reshape(-1, D)": "np.zeros((V, D), h.dtype)"},
                    "Your gradient contains only the contribution of the input. The table also computes the logits, so "
                    "add the output's contribution."),
            Mistake("TIE-3", {"return dtable": "return dtable / 2"},
                    "You average the two contributions. Both uses affect the loss, and their gradients add up."),
            Mistake("TIE-5", {TIED: "np.add.at(dtable, ids, dy)\n    dtable *= math.sqrt(D)"},
                    "You multiply both contributions by sqrt(D). The factor belongs to the embedding, not to z = h "
                    "tableᵀ."),
            Mistake("TIE-10", {TIED: "dtable *= math.sqrt(D)\n    np.add.at(dtable, ids, dy)"},
                    "You multiply the output's contribution by sqrt(D) instead of the input's. The factor belongs to y "
                    "= sqrt(D) table[ids]."),
            Mistake("TIE-6", {"dz.reshape(-1, V).T @ h.reshape(-1, D)": "h.reshape(-1, D).T @ dz.reshape(-1, V)"},
                    "The output's contribution is transposed. It must have the shape of the table, one row for each "
                    "token of the vocabulary."),
            Mistake("TIE-7", {"dz.reshape(-1, V).T @ h.reshape(-1, D)": "dz.mT @ h"},
                    "The output's contribution keeps the batch axis, so it has one table for each sequence. All "
                    "sequences used the same table, so sum over all leading axes."),
            Mistake("TIE-8", {"h.reshape(-1, D)": "h.reshape(-1, D) / dz[..., 0].size"},
                    "You divide the output's contribution by the number of tokens. It is a sum. If the loss is a mean, "
                    "dz already contains that factor."),
            Mistake("TIE-9", {TIED: "word = np.zeros_like(dtable)\n    np.add.at(word, ids, math.sqrt(D) * dy)\n    "
                              "dtable[ids] = word[ids]"},
                    "Tokens that occur in ids lose the output's contribution, because your code assigns to their rows "
                    "instead of adding."),
            Mistake("EMB-1a", {"np.add.at(dtable, ids, ": "dtable[ids] += ("}, REPEATS),
            Mistake("EMB-1b", {"np.add.at(dtable, ids, ": "dtable[ids] = ("},
                    "You overwrite the rows of the tokens in ids. That loses the output's contribution and all but one "
                    "occurrence of a token that repeats. Add instead, for all occurrences."),
            Mistake("EMB-3a", {"math.sqrt(D) * dy": "dy"}, UNSCALED),
            Mistake("EMB-3c", {"math.sqrt(D) * dy": "dy / math.sqrt(D)"}, UNDONE),
            Mistake("EMB-1c", {TIED: "for i in range(len(ids)):\n        dtable[ids[i]] += math.sqrt(D) * dy[i]"},
                    ROW_BY_ROW),
            Mistake("EMB-3b", {"math.sqrt(D) * dy": "D * dy"},
                    "You multiply the contribution of the input by D. The factor is the same as in forward, the "
                    "square root of D."),
            Mistake("EMB-3d", {"math.sqrt(D)": "math.sqrt(V)"},
                    "Your factor is the square root of the vocabulary size. It must be the factor of forward, the "
                    "square root of D."),
            Mistake("EMB-9", {"return dtable": "return dtable / ids.size"},
                    "You divide by the number of tokens. The gradient is a sum. If the loss is a mean, dy and dz "
                    "already contain that factor."),
            Mistake("TIE-11", {"h.reshape(-1, D)": "dy.reshape(-1, D)"},
                    "You multiply dz by dy. In z = h tableᵀ the other factor is h."),
            Mistake("TIE-12", {"math.sqrt(D) * dy": "math.sqrt(D) * h"},
                    "You scatter h over the rows. The gradient of y is dy."),
            Mistake("TIE-13", {"return dtable": "return dtable.T"},
                    "Your dtable is transposed. Like the table itself, it must have one row for each token of the "
                    "vocabulary."),
            Mistake("TIE-14", {"dz.reshape(-1, V).T @ h.reshape(-1, D)": "(dz.mT @ h).sum(0)"},
                    "You sum the output's contribution over the first axis, which is right only for three axes. "
                    "There may be any number of leading axes."),
            Mistake("TIE-15", {"dz.reshape(-1, V).T @ h.reshape(-1, D)": "dz.T @ h"},
                    ".T reverses all axes, so it is the transposed matrix of the formula only if dz has two axes. "
                    "Flatten the leading axes into one first."),
            Mistake("TIE-16", {"math.sqrt(D) * dy": "-math.sqrt(D) * dy"},
                    "You subtract the contribution of the input. Both uses affect the loss, and their gradients add "
                    "up."),
        ),
        alternatives={
            "einsum": {"dz.reshape(-1, V).T @ h.reshape(-1, D)": 'np.einsum("nv,nd->vd", dz.reshape(-1, V), '
                       'h.reshape(-1, D))'},
            "one-hot matmul": {TIED: "hot = (ids.reshape(-1, 1) == np.arange(V)).astype(dy.dtype)\n    dtable += "
                               "hot.T @ (math.sqrt(D) * dy.reshape(-1, D))"}}),
]
