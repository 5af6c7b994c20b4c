"""The embedding: the gradient of its table, alone and shared with the output."""

import math

import numpy as np

from ...layers import Embedding, Unembedding
from ..exercise import Exercise, Mistake


def embedding_backward(ids, dy, vocab_size, pad_id):
    """The gradient of an embedding's table: forward is y = sqrt(D) table[ids], and zeros wherever ids == pad_id.

    ids: (...), whole numbers from 0 to vocab_size - 1, which may repeat.  dy: (..., D), dL/dy.
    vocab_size: V, the number of rows of the table.  pad_id: the id of the padding, or None: then there is none.
    Return dtable: (V, D), of the dtype of dy. A row that had no influence on y has gradient 0.
    """
    dtable = np.zeros((vocab_size, dy.shape[-1]), dy.dtype)
    np.add.at(dtable, ids, math.sqrt(dy.shape[-1]) * dy)
    if pad_id is not None:
        dtable[pad_id] = 0
    return dtable


def tokens(rng, shape, V, pad_id):
    """Ids with padding in the middle and a word that stands at both ends; V - 1 does not occur."""
    ids = rng.integers(V - 1, size=shape)
    ids.flat[[1, 4]] = pad_id
    ids.flat[[0, 3, -1]] = (pad_id + 1) % (V - 1)
    return ids


def draw_embedding(rng, n):
    pad_id = n.H                                # not 0: that may be a word
    return tokens(rng, n.lead, n.V, pad_id), rng.standard_normal((*n.lead, n.D)), n.V, pad_id


def paddings(rng):
    def drawn(V, D, shape):
        return tokens(rng, shape, V, 0), rng.standard_normal((*shape, D)), V
    return [("the padding is 0", (*drawn(9, 5, (2, 4)), 0)), ("no padding", (*drawn(9, 5, (2, 4)), None)),
            ("as many tokens as words", (*drawn(8, 6, (8,)), 0))]


def by_embedding(ids, dy, vocab_size, pad_id):
    layer = Embedding(vocab_size, dy.shape[-1], scale=True, pad_id=pad_id).astype(np.float64)
    layer(ids)
    layer.backward(dy)
    return layer.weight.grad


def tied_embedding_backward(ids, dy, h, dz):
    """The gradient of a table that is used at both ends of a model: y = sqrt(D) table[ids], ..., z = h tableᵀ.

    ids: (...), whole numbers from 0 to V - 1, which may repeat.  dy: (..., D), dL/dy.
    h: (..., D), what the model makes of y.  dz: (..., V), dL/dz, the gradient of the logits.
    Return dtable: (V, D), the gradient of the one table, of the dtype of dz.
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
REPEATS = ("Of a word that occurs several times only one place counts: dtable[ids] is a copy of rows, and where an id "
           "repeats, the copies overwrite each other. np.add.at adds them all.")
UNSCALED = ("The factor sqrt(D) is missing. It belongs to forward, so it is a part of the slope of y in the table: "
            "scale forward, scale backward.")
UNDONE = "The gradient is divided by sqrt(D). Backward does not undo forward: the slope of sqrt(D) E in E is sqrt(D)."

EXERCISES = [
    Exercise(
        "03.1", "The embedding, backward", minutes=15, lines=5,
        solution=embedding_backward, reference=by_embedding, inputs=draw_embedding, edges=paddings, outputs=("dtable",),
        hints=("Row i of the table stands in y wherever ids == i. What does its gradient collect from those places?",
               "dtable[i] is sqrt(D) times the sum of dy over all places where ids == i. dtable[ids] += ... keeps one "
               "of several equal ids.",
               "np.add.at(dtable, ids, math.sqrt(D) * dy) on zeros (V, D); then, if pad_id is not None, "
               "dtable[pad_id] = 0."),
        mistakes=(
            Mistake("EMB-1a", {ADDED: "dtable[ids] += math.sqrt(dy.shape[-1]) * dy"}, REPEATS, twin="EMB-1b"),
            Mistake("EMB-1b", {ADDED: "dtable[ids] = math.sqrt(dy.shape[-1]) * dy"}, REPEATS, twin="EMB-1a"),
            Mistake("EMB-2", {"return dtable": "return dtable / np.maximum(1, np.bincount(ids.ravel(), "
                              "minlength=vocab_size))[:, None].astype(dy.dtype)"},
                    "Each row is a mean over the places of its word. Every one of them has its own influence on the "
                    "loss, and influences add up."),
            Mistake("EMB-3a", {"math.sqrt(dy.shape[-1]) * dy": "dy"}, UNSCALED),
            Mistake("EMB-3b", {"math.sqrt(dy.shape[-1])": "dy.shape[-1]"},
                    "The gradient is multiplied by D. Its factor is the same as in forward, the root of D."),
            Mistake("EMB-3c", {"math.sqrt(dy.shape[-1]) * dy": "dy / math.sqrt(dy.shape[-1])"}, UNDONE),
            Mistake("EMB-3d", {"math.sqrt(dy.shape[-1])": "math.sqrt(vocab_size)"},
                    "The factor here is the root of the number of words. It has to be that of forward, the root of D."),
            Mistake("EMB-4a", {"    if pad_id is not None:\n        dtable[pad_id] = 0\n": ""},
                    "The row of the padding gets a gradient. Its y is zero whatever the row holds, so the row has no "
                    "influence."),
            Mistake("EMB-4b", {"dtable[pad_id] = 0": "dtable[0] = 0"},
                    "It is always row 0 whose gradient is cleared. Which id is the padding, pad_id tells."),
            Mistake("EMB-4c", {"    if pad_id is not None:\n        dtable": "    dtable"},
                    "With pad_id = None everything is zero: dtable[None] is the whole table with one more axis. Ask "
                    "whether there is a padding first."),
            Mistake("EMB-4d", {"if pad_id is not None": "if pad_id"},
                    "`if pad_id` is false for the id 0 too, and then the padding's row gets a gradient. Compare with "
                    "None."),
            Mistake("EMB-4e", {"dtable[pad_id] = 0": "dtable[ids == pad_id] = 0"},
                    "ids == pad_id has one entry for each token, but dtable has one row for each word."),
            Mistake("EMB-5", {"(vocab_size, dy.shape[-1])": "(ids.max() + 1, dy.shape[-1])"},
                    "dtable ends at the largest id that occurs. It must have the shape of the table: a row for each "
                    "word, whether it occurs or not."),
            Mistake("EMB-6", {ADDED: "dy *= math.sqrt(dy.shape[-1])\n    np.add.at(dtable, ids, dy)"},
                    "dy *= ... changes the caller's array. Write dy = factor * dy, which makes a new one."),
            Mistake("EMB-7", {ADDED: "np.add.at(dtable, ids, math.sqrt(dy.shape[-1]) * dy)\n    dy[ids == pad_id] = 0"},
                    "dy[ids == pad_id] = 0 changes the caller's array. Clear the row of the table, or work on a copy."),
            Mistake("EMB-8", {"return dtable": "return dtable.T"},
                    "dtable comes out transposed: it must have a row for each word, as the table itself."),
        ),
        alternatives={
            "one-hot matmul": {ADDED: "hot = (ids.reshape(-1, 1) == np.arange(vocab_size)).astype(dy.dtype)\n    "
                                      "dtable += hot.T @ (math.sqrt(dy.shape[-1]) * dy.reshape(-1, dy.shape[-1]))"},
            "a loop": {ADDED: "for at in np.ndindex(ids.shape):\n        dtable[ids[at]] += math.sqrt(dy.shape[-1]) * "
                              "dy[at]"},
            "scaled at the end": {"math.sqrt(dy.shape[-1]) * dy": "dy",
                                  "return dtable": "return dtable * math.sqrt(dy.shape[-1])"},
            "without the padded tokens": {ADDED: "real = ids != pad_id\n    np.add.at(dtable, ids[real], "
                                          "math.sqrt(dy.shape[-1]) * dy[real])",
                                          "    if pad_id is not None:\n        dtable[pad_id] = 0\n": ""}}),
    Exercise(
        "03.2", "The tied embedding, backward", minutes=15, lines=4,
        solution=tied_embedding_backward, reference=by_both_ends, inputs=draw_tied, outputs=("dtable",),
        hints=("The table stands at two places of forward. What does each of them, alone, give to its gradient?",
               "z = h tableᵀ is a matmul: every row of the table scores every token. y = sqrt(D) table[ids] gives a "
               "scatter-add. The gradient is the sum of both.",
               "With one leading axis, dtable = dz.T @ h, then np.add.at(dtable, ids, math.sqrt(D) * dy)."),
        mistakes=(
            Mistake("TIE-1", {f"    {TIED}\n": ""},
                    "Only the output's part is there. The table stands at the input too: add what the embedding "
                    "gives."),
            Mistake("TIE-2", {"dz.reshape(-1, V).T @ h.reshape(-1, D)": "np.zeros((V, D), h.dtype)"},
                    "Only the input's part is there. The table makes the logits too: add what the output gives."),
            Mistake("TIE-3", {"return dtable": "return dtable / 2"},
                    "The two parts are averaged. Both uses have an influence on the loss, and influences add up."),
            Mistake("TIE-5", {TIED: "np.add.at(dtable, ids, dy)\n    dtable *= math.sqrt(D)"},
                    "The factor sqrt(D) stands at both parts. It is a part of the embedding, not of z = h tableᵀ."),
            Mistake("TIE-10", {TIED: "dtable *= math.sqrt(D)\n    np.add.at(dtable, ids, dy)"},
                    "The factor sqrt(D) stands at the output's part. It belongs to y = sqrt(D) table[ids], at the "
                    "input."),
            Mistake("TIE-6", {"dz.reshape(-1, V).T @ h.reshape(-1, D)": "h.reshape(-1, D).T @ dz.reshape(-1, V)"},
                    "The output's part comes out transposed: it must have the shape of the table, a row for each "
                    "word."),
            Mistake("TIE-7", {"dz.reshape(-1, V).T @ h.reshape(-1, D)": "dz.mT @ h"},
                    "The output's part keeps the batch axis: a table for each sequence. All of them used the same "
                    "table, so sum over all leading axes."),
            Mistake("TIE-8", {"h.reshape(-1, D)": "h.reshape(-1, D) / dz[..., 0].size"},
                    "The output's part is divided by the number of tokens. It is a sum: if the loss is a mean, dz "
                    "carries that factor already."),
            Mistake("TIE-9", {TIED: "word = np.zeros_like(dtable)\n    np.add.at(word, ids, math.sqrt(D) * dy)\n    "
                              "dtable[ids] = word[ids]"},
                    "Words that occur in ids lose the output's part: it is overwritten where it should be added to."),
            Mistake("EMB-1a", {TIED: "dtable[ids] += math.sqrt(D) * dy"}, REPEATS),
            Mistake("EMB-1b", {TIED: "dtable[ids] = math.sqrt(D) * dy"},
                    "Rows of words in ids are overwritten: both the output's part and all but one place of a word that "
                    "repeats are lost. Add, and add all places."),
            Mistake("EMB-3a", {"math.sqrt(D) * dy": "dy"}, UNSCALED),
            Mistake("EMB-3c", {"math.sqrt(D) * dy": "dy / math.sqrt(D)"}, UNDONE),
        ),
        alternatives={
            "einsum": {"dz.reshape(-1, V).T @ h.reshape(-1, D)": 'np.einsum("nv,nd->vd", dz.reshape(-1, V), '
                       'h.reshape(-1, D))'},
            "one-hot matmul": {TIED: "hot = (ids.reshape(-1, 1) == np.arange(V)).astype(dy.dtype)\n    dtable += "
                               "hot.T @ (math.sqrt(D) * dy.reshape(-1, D))"}}),
]
