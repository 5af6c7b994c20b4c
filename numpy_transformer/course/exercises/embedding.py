"""The embedding: the gradient of its table, for an input embedding and for one that is tied to the output."""

import math

import numpy as np

from ...layers import Embedding, Unembedding
from .definition import Exercise, Mistake


def embedding_backward(ids, dy, vocab_size, pad_id):
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
    return [("padding_id_0", (*drawn(9, 5, (2, 4)), 0)), ("no_padding", (*drawn(9, 5, (2, 4)), None)),
            ("as_many_tokens", (*drawn(8, 6, (8,)), 0))]


def by_embedding(ids, dy, vocab_size, pad_id):
    layer = Embedding(vocab_size, dy.shape[-1], scale=True, pad_id=pad_id).astype(np.float64)
    layer(ids)
    layer.backward(dy)
    return layer.weight.grad


def tied_embedding_backward(ids, dy, h, dz):
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


EXERCISES = [
    Exercise(
        "03.1", minutes=15, lines=5, size_letters="DV",
        solution=embedding_backward, reference=by_embedding, inputs=draw_embedding, edges=paddings, outputs=("dtable",),
        mistakes=(
            Mistake("EMB-1a", {"np.add.at(dtable, ids, ": "dtable[ids] += ("}, twin="EMB-1b"),
            Mistake("EMB-1b", {"np.add.at(dtable, ids, ": "dtable[ids] = ("}, twin="EMB-1a"),
            Mistake("EMB-2", {
                "return dtable":
                    "return dtable / np.maximum(1, np.bincount(ids.ravel(), minlength=vocab_size))[:, "
                    "None].astype(dy.dtype)"}),
            Mistake("EMB-3a", {"math.sqrt(dy.shape[-1]) * dy": "dy"}),
            Mistake("EMB-3c", {"math.sqrt(dy.shape[-1]) * dy": "dy / math.sqrt(dy.shape[-1])"}),
            Mistake("EMB-3d", {"math.sqrt(dy.shape[-1])": "math.sqrt(vocab_size)"}),
            Mistake("EMB-4a", {"    if pad_id is not None:\n        dtable[pad_id] = 0\n": ""}),
            Mistake("EMB-4b", {"dtable[pad_id] = 0": "dtable[0] = 0"}),
            Mistake("EMB-4c", {"    if pad_id is not None:\n        dtable": "    dtable"}),
            Mistake("EMB-4d", {"if pad_id is not None": "if pad_id"}),
            Mistake("EMB-4e", {"dtable[pad_id] = 0": "dtable[ids == pad_id] = 0"}),
            Mistake("EMB-6", {
                "np.add.at(dtable, ids, math.sqrt(dy.shape[-1]) * dy)":
                    "dy *= math.sqrt(dy.shape[-1])\n    np.add.at(dtable, ids, dy)"}),
            Mistake("EMB-7", {
                "np.add.at(dtable, ids, math.sqrt(dy.shape[-1]) * dy)":
                    "np.add.at(dtable, ids, math.sqrt(dy.shape[-1]) * dy)\n    dy[ids == pad_id] = 0"}),
            Mistake("EMB-8", {"return dtable": "return dtable.T"}),
            Mistake("EMB-10", {"return dtable": "return math.sqrt(dy.shape[-1]) * dy"}),
            Mistake("EMB-13", {
                "np.add.at(dtable, ids, math.sqrt(dy.shape[-1]) * dy)":
                    "for b, t in np.ndindex(ids.shape[0], ids.shape[1]):\n"
                    "        dtable[ids[b, t]] += math.sqrt(dy.shape[-1]) * dy[b, t]"}),
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
        "03.2", minutes=15, lines=4, size_letters="DV",
        solution=tied_embedding_backward, reference=by_both_ends, inputs=draw_tied, outputs=("dtable",),
        mistakes=(
            Mistake("TIE-1", {"    np.add.at(dtable, ids, math.sqrt(D) * dy)\n": ""}),
            Mistake("TIE-2", {"dz.reshape(-1, V).T @ h.reshape(-1, D)": "np.zeros((V, D), h.dtype)"}),
            Mistake("TIE-3", {"return dtable": "return dtable / 2"}),
            Mistake("TIE-5", {
                "np.add.at(dtable, ids, math.sqrt(D) * dy)":
                    "np.add.at(dtable, ids, dy)\n    dtable *= math.sqrt(D)"}),
            Mistake("TIE-6", {"dz.reshape(-1, V).T @ h.reshape(-1, D)": "h.reshape(-1, D).T @ dz.reshape(-1, V)"}),
            Mistake("TIE-7", {"dz.reshape(-1, V).T @ h.reshape(-1, D)": "dz.mT @ h"}),
            Mistake("EMB-1a", {"np.add.at(dtable, ids, ": "dtable[ids] += ("}),
            Mistake("EMB-1b", {"np.add.at(dtable, ids, ": "dtable[ids] = ("}),
            Mistake("EMB-3a", {"math.sqrt(D) * dy": "dy"}),
            Mistake("EMB-3c", {"math.sqrt(D) * dy": "dy / math.sqrt(D)"}),
            Mistake("EMB-1c", {
                "np.add.at(dtable, ids, math.sqrt(D) * dy)":
                    "for i in range(len(ids)):\n        dtable[ids[i]] += math.sqrt(D) * dy[i]"}),
            Mistake("TIE-11", {"h.reshape(-1, D)": "dy.reshape(-1, D)"}),
            Mistake("TIE-14", {"dz.reshape(-1, V).T @ h.reshape(-1, D)": "(dz.mT @ h).sum(0)"}),
        ),
        alternatives={
            "einsum": {"dz.reshape(-1, V).T @ h.reshape(-1, D)": 'np.einsum("nv,nd->vd", dz.reshape(-1, V), '
                       'h.reshape(-1, D))'},
            "one-hot matmul": {TIED: "hot = (ids.reshape(-1, 1) == np.arange(V)).astype(dy.dtype)\n    dtable += "
                               "hot.T @ (math.sqrt(D) * dy.reshape(-1, D))"}}),
]
