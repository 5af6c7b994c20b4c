"""Picking the chosen tokens of each sequence, backward."""

import numpy as np

from ...layers import Embedding
from .definition import Exercise, Mistake


def pick_backward(positions, dy, T):
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


EXERCISES = [
    Exercise(
        "14.2", minutes=15, lines=4,
        solution=pick_backward, reference=by_embedding,
        inputs=lambda rng, n: draw_positions(rng, n.B, n.S, n.H + 2, n.D),
        edges=lambda rng: [("b_t_k", draw_positions(rng, 5, 5, 5, 5)),
                           ("more_picks_than", draw_positions(rng, 2, 4, 9, 3))],
        outputs=("dx",), mistakes=(
            Mistake("PICK-1a", {"np.add.at(dx, (rows, positions), dy)": "dx[rows, positions] += dy"}, twin="PICK-1b"),
            Mistake("PICK-1b", {"np.add.at(dx, (rows, positions), dy)": "dx[rows, positions] = dy"}, twin="PICK-1a"),
            Mistake("PICK-3", {
                "np.add.at(dx, (rows, positions), dy)": "np.add.at(dx.reshape(-1, dy.shape[-1]), positions, dy)"}),
            Mistake("PICK-9", {
                "np.add.at(dx, (rows, positions), dy)": "np.add.at(dx, (rows, np.arange(positions.shape[1])), dy)"}),
            Mistake("PICK-13", {
                "np.add.at(dx, (rows, positions), dy)":
                    "positions += T * rows\n    np.add.at(dx.reshape(-1, dy.shape[-1]), positions, dy)"}),
            Mistake("PICK-15", {"np.add.at(dx, (rows, positions), dy)": "dx[:, positions] += dy"}),
            Mistake("PICK-18", {
                "np.add.at(dx, (rows, positions), dy)":
                    "for b, k in np.ndindex(positions.shape):\n        dx[:, positions[b, k]] += dy[b, k]"}),
            Mistake("PICK-19", {
                "np.add.at(dx, (rows, positions), dy)":
                    "for b in range(len(dx)):\n        dx[:, positions[b]] += dy[b]"}),
            Mistake("PICK-20", {
                "np.add.at(dx, (rows, positions), dy)":
                    "for k in range(positions.shape[1]):\n        dx[:, positions[:, k]] += dy[:, k]"}),
            Mistake("PICK-16", {"np.add.at(dx, (rows, positions), dy)": "np.add.at(dx[0], positions[0], dy[0])"}),
            Mistake("PICK-17", {"[:, None]": ""}),
        ),
        must_be_zero={"sum_dx_equal": lambda inputs, outputs: outputs[0].sum((0, 1)) - inputs[1].sum((0, 1))},
        alternatives={
            "loops": {ADDED: "for b, k in np.ndindex(positions.shape):\n        dx[b, positions[b, k]] += dy[b, k]"},
            "one-hot matmul": {ADDED: "hot = (positions[..., None] == np.arange(T)).astype(dy.dtype)\n    "
                                      "dx = hot.mT @ dy"},
            "flat": {ADDED: "np.add.at(dx.reshape(-1, dy.shape[-1]), positions + T * rows, dy)"}}),
]
