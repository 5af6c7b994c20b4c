"""Picking the chosen tokens of each sequence, backward."""

import numpy as np

from ...layers import Embedding
from .definition import Exercise, Mistake


def pick_backward(positions, dy, T):
    """The gradient of picking tokens: y[b, k] = x[b, positions[b, k]].

    positions: (B, K) integers from 0 to T - 1; a position may occur more than once in a row.
    dy: (B, K, D), dL/dy.
    T: int, the number of tokens in each sequence of x.
    Return dx: (B, T, D), dL/dx, in the dtype of dy.
    """
    dx = np.zeros((len(positions), T, dy.shape[-1]), dy.dtype)
    rows = np.arange(len(positions))[:, None]
    np.add.at(dx, (rows, positions), dy)
    return dx


def draw_positions(rng, B, T, K, D):
    """Draws positions that are not in order; in each sequence one occurs twice, and the last token is not picked."""
    positions = rng.integers(T - 1, size=(B, K))
    positions[:, 0] = T - 2
    positions[:, 1] %= T - 2
    positions[:, -1] = T - 2
    return positions, rng.standard_normal((B, K, D)), T


def by_embedding(positions, dy, T):
    """Computes the gradient with an Embedding per sequence, whose ids are the positions."""
    tables = []
    for ids, dvectors in zip(positions, dy):
        layer = Embedding(T, dy.shape[-1]).astype(np.float64)
        layer(ids)
        layer.backward(dvectors)
        tables.append(layer.weight.grad)
    return np.array(tables)


ADDED = "np.add.at(dx, (rows, positions), dy)"
REPEATS = ("For a position that occurs twice, only the last gradient is kept. dx[rows, positions] is a copy, so the "
           "results of repeated positions overwrite each other. np.add.at adds all of them.")
PICK = (
    Mistake("PICK-1a", {ADDED: "dx[rows, positions] += dy"}, REPEATS, twin="PICK-1b"),
    Mistake("PICK-1b", {ADDED: "dx[rows, positions] = dy"}, REPEATS, twin="PICK-1a"),
    Mistake("PICK-2", {"return dx": "times = np.zeros(dx.shape[:2], dy.dtype)\n    "
                                    "np.add.at(times, (rows, positions), 1)\n    "
                                    "return dx / np.maximum(times, 1)[..., None]"},
            "A token that is picked twice receives the mean of its gradients. Each pick influences the loss "
            "separately, so the gradients must be added."),
    Mistake("PICK-3", {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), positions, dy)"},
            "All gradients end up in the first sequence. A position counts from the start of its own sequence; in the "
            "flattened array, sequence b starts at b T."),
    Mistake("PICK-4", {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), rows * positions.shape[1] + positions, dy)"},
            "In the flattened dx, sequence b starts at b T, not at b K. The positions refer to x, which has T tokens "
            "per sequence."),
    Mistake("PICK-5", {ADDED: "np.add.at(dx, (rows, positions[0]), dy)"},
            "You use the positions of the first sequence for all sequences. Each sequence has its own."),
    Mistake("PICK-6", {"len(positions), T, dy": "len(positions), positions.max() + 1, dy"},
            "Your dx ends at the largest position that was picked. It must have the shape of x, with T tokens."),
    Mistake("PICK-7", {ADDED: "np.add.at(dx, (rows, np.sort(positions)), dy)"},
            "You sort the positions, but not the rows of dy. Row k of dy belongs to entry k of the positions."),
    Mistake("PICK-8", {ADDED: "np.add.at(dx, (rows, positions - 1), dy)"},
            "All your positions are too small by one. They count from 0."),
    Mistake("PICK-9", {ADDED: "np.add.at(dx, (rows, np.arange(positions.shape[1])), dy)"},
            "You put the gradients at the first K tokens, in the order of dy. Each gradient belongs to the token from "
            "which its row of y was taken."),
    Mistake("PICK-10", {"return dx": "return dx / positions.shape[1]"},
            "You divide dx by K. Picking does not average; if the loss is a mean, dy already contains that factor."),
    Mistake("PICK-11", {ADDED: "np.add.at(dx, positions, dy)"},
            "dx[positions] uses the positions as indices of sequences, because the first axis of dx is the batch. You "
            "need two indices: that of the sequence and that of the token."),
    Mistake("PICK-12", {"return dx": "return np.take_along_axis(dx, positions[..., None], 1)"},
            "You pick a second time, so you return K tokens. backward goes the other way: from the K picked tokens to "
            "all T."),
    Mistake("PICK-13", {ADDED: "positions += T * rows\n    np.add.at(dx.reshape(-1, dy.shape[-1]), positions, dy)"},
            "positions += ... writes into the caller's array. positions + ... makes a new one."),
    Mistake("PICK-14", {"return dx": "return dx.mT"},
            "Your dx is transposed. It must have the shape of x, (B, T, D)."),
    Mistake("PICK-15", {ADDED: "dx[:, positions] += dy"},
            "dx[:, positions] selects the tokens of all sequences' positions in every sequence. Row b of the positions "
            "belongs to sequence b alone, so you need two indices: that of the sequence and that of the token."),
    Mistake("PICK-16", {ADDED: "np.add.at(dx[0], positions[0], dy[0])"},
            "Only the first sequence has a gradient. Is there a return inside your loop?"),
    Mistake("PICK-17", {"[:, None]": ""},
            "Your indices of the sequences have shape (B,), so they are paired with the K columns of positions. As a "
            "column, (B, 1), they are combined with each of them."),
    Mistake("PICK-18", {"(rows, positions)": "(positions, rows)"},
            "Your two indices are in the wrong order. The first axis of dx is that of the sequences, the second that "
            "of the tokens."),
    Mistake("PICK-20", {ADDED: "for b, k in np.ndindex(positions.shape):\n        dx[b, k] += dy[b, positions[b, k]]"},
            "You pick rows of dy by the positions. The positions refer to the tokens of x, so they say where in dx "
            "each row of dy is added."),
    Mistake("PICK-21", {"return dx": "return np.eye(T, dtype=dy.dtype)[positions] @ dy"},
            "Your one-hot matrix (K, T) is not transposed. It leads from the T tokens to the K picks; backward leads "
            "from the picks to the tokens."),
    Mistake("PICK-19", {"return dx": "return dx.sum(0)"},
            "You sum dx over the sequences. Each sequence of x has its own gradient."),
)

EXERCISES = [
    Exercise(
        "14.2", "Picking tokens, backward", minutes=15, lines=4,
        solution=pick_backward, reference=by_embedding,
        inputs=lambda rng, n: draw_positions(rng, n.B, n.S, n.H + 2, n.D),
        edges=lambda rng: [("B = T = K = D", draw_positions(rng, 5, 5, 5, 5)),
                           ("more picks than tokens", draw_positions(rng, 2, 4, 9, 3))],
        outputs=("dx",), mistakes=PICK,
        invariants=(("the sum of dx must equal the sum of dy",
                     lambda inputs, outputs: outputs[0].sum((0, 1)) - inputs[1].sum((0, 1))),),
        hints=("Where did y[b, k] come from? And what is the gradient of a token that was picked twice?",
               "Picking is an embedding lookup in which each sequence is a table. Start with zeros (B, T, D), and add "
               "dy[b, k] at (b, positions[b, k]). dx[...] += keeps only one of several equal positions.",
               "np.add.at(dx, (np.arange(B)[:, None], positions), dy)."),
        alternatives={
            "loops": {ADDED: "for b, k in np.ndindex(positions.shape):\n        dx[b, positions[b, k]] += dy[b, k]"},
            "one-hot matmul": {ADDED: "hot = (positions[..., None] == np.arange(T)).astype(dy.dtype)\n    "
                                      "dx = hot.mT @ dy"},
            "flat": {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), positions + T * rows, dy)"}}),
]
