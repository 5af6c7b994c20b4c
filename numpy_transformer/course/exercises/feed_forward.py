"""The feed-forward layer with ReLU, backward."""

import numpy as np

from ...layers import FeedForward
from ...layers.fast import rows
from .definition import Exercise, Mistake
from .shared import loaded
from .swiglu import draw_gated


def feed_forward_backward(x, W1, b1, W2, dy):
    a = np.maximum(0, x @ W1 + b1)
    da = dy @ W2.T
    du = da * (a > 0)
    dW1, db1 = rows(x).T @ rows(du), rows(du).sum(0)
    dW2, db2 = rows(a).T @ rows(dy), rows(dy).sum(0)
    return du @ W1.T, dW1, db1, dW2, db2


def draw_feed_forward(rng, n):
    x, W1, _, W2 = draw_gated(rng, n)
    return x, W1, rng.standard_normal(n.F), W2, rng.standard_normal((*n.lead, n.D))


def by_feed_forward_backward(x, W1, b1, W2, dy):
    layer = loaded(FeedForward(*W1.shape), {"up.weight": W1, "up.bias": b1, "down.weight": W2,
                                            "down.bias": np.zeros(W2.shape[1])})
    layer(x)
    return layer.backward(dy), *(parameter.grad for parameter in layer.parameters())


EXERCISES = [
    Exercise(
        "09.6", minutes=20, lines=6, single_row=True, size_letters="DF", given=(rows,),
        number_sizes=("tiny", "large"),
        solution=feed_forward_backward, reference=by_feed_forward_backward, inputs=draw_feed_forward,
        outputs=("dx", "dW1", "db1", "dW2", "db2"),
        mistakes=(
            Mistake("ACT-1", {"(a > 0)": "(da > 0)"}),
            Mistake("ACT-2a", {"da * (a > 0)": "da"}),
            Mistake("ACT-2c", {"(a > 0)": "a"}),
            Mistake("ACT-2d", {"da * (a > 0)": "(a > 0).astype(x.dtype)"}),
            Mistake("FFN-1", {"x @ W1 + b1": "x @ W1"}),
            Mistake("FFN-2", {"np.maximum(0, x @ W1 + b1)": "x @ W1 + b1"}),
            Mistake("FFN-1b", {"(a > 0)": "(x @ W1 > 0)"}),
            Mistake("FFN-8", {"da = dy @ W2.T": "da = dy"}),
            Mistake("LIN-3b", {"rows(a).T @ rows(dy)": "a.mT @ dy"}),
            Mistake("LIN-4c", {"rows(a).T @ rows(dy)": "rows(a).T @ rows(dy) / len(rows(x))"}),
            Mistake("LIN-4d", {"rows(dy).sum(0)": "rows(dy).mean(0)"}),
            Mistake("LIN-4e", {"rows(du).sum(0)": "rows(du).mean(0)", "rows(dy).sum(0)": "rows(dy).mean(0)"}),
            Mistake("LIN-4f", {
                "rows(x).T @ rows(du), rows(du).sum(0)": "rows(x).T @ rows(du) / len(rows(x)), rows(du).mean(0)",
                "rows(a).T @ rows(dy), rows(dy).sum(0)": "rows(a).T @ rows(dy) / len(rows(x)), rows(dy).mean(0)"}),
            Mistake("LIN-5c", {"rows(du).sum(0)": "du.sum(0)"}),
            Mistake("LIN-5e", {"rows(du).sum(0)": "du.sum(0)", "rows(dy).sum(0)": "dy.sum(0)"}),
            Mistake("LIN-1", {"rows(x).T @ rows(du)": "rows(du).T @ rows(x)"}),
            Mistake("LIN-2a", {"W2.T": "W2"}),
            Mistake("LIN-3", {"rows(x).T @ rows(du)": "x.mT @ du"}),
            Mistake("LIN-4a", {"rows(x).T @ rows(du)": "rows(x).T @ rows(du) / len(rows(x))"}),
            Mistake("LIN-4b", {"rows(du).sum(0)": "rows(du).mean(0)"}),
            Mistake("LIN-5a", {"rows(dy).sum(0)": "dy.sum(0)"}),
            Mistake("LIN-5b", {"rows(dy).sum(0)": "dy.sum(-1)"}),
            Mistake("FFN-3", {"rows(du).sum(0)": "rows(da).sum(0)"}),
        ),
        alternatives={"einsum": {"rows(a).T @ rows(dy)": "np.einsum('nf,nd->fd', rows(a), rows(dy))"}}),
]
