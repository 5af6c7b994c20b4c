"""The feed-forward layer with ReLU, backward."""

import numpy as np

from ...layers import FeedForward
from ...layers.fast import rows
from .definition import Exercise, Mistake
from .given import loaded
from .swiglu import draw_gated


def feed_forward_backward(x, W1, b1, W2, dy):
    """Computes the gradients of the feed-forward layer y = max(0, x W1 + b1) W2 + b2.

    The gradients do not depend on b2, so it is not an argument.

    x: (..., D).
    W1: (D, F).
    b1: (F,).
    W2: (F, D).
    dy: (..., D), dL/dy.
    Return dx: (..., D), dW1: (D, F), db1: (F,), dW2: (F, D), db2: (D,).
    """
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
        "09.6", "The feed-forward layer, backward", minutes=20, lines=6, given=(rows,),
        solution=feed_forward_backward, reference=by_feed_forward_backward, inputs=draw_feed_forward,
        outputs=("dx", "dW1", "db1", "dW2", "db2"),
        hints=("forward has three lines: u = x W1 + b1, a = max(0, u), y = a W2 + b2. Go through them from last to "
               "first.",
               "They are two linear layers with a ReLU between them. Which array was the input of each, and what is "
               "the gradient of a weight matrix?",
               "da = dy W2ᵀ, and du = da where u > 0, else 0. The gradient of each matrix is (its input)ᵀ times the "
               "gradient of its output. The gradient of each bias is the sum of the gradient of the output over all "
               "rows."),
        mistakes=(
            Mistake("ACT-1", {"(a > 0)": "(da > 0)"},
                    "Your mask depends on the sign of the gradient. It must come from forward, where x W1 + b1 > 0."),
            Mistake("ACT-2a", {"da * (a > 0)": "da"},
                    "The mask of ReLU is missing, or it lets everything pass: after max(0, ...), >= 0 is true. Where "
                    "x W1 + b1 < 0, no gradient passes."),
            Mistake("ACT-2c", {"(a > 0)": "a"},
                    "The slope of ReLU is 0 or 1. You multiply the gradient by the activation itself."),
            Mistake("ACT-2d", {"da * (a > 0)": "(a > 0).astype(x.dtype)"},
                    "You go on with the slope of ReLU alone. By the chain rule, it is multiplied by the gradient that "
                    "arrives."),
            Mistake("ACT-4", {"(a > 0)": "(a <= 0)"},
                    "Your mask is reversed. The gradient passes where x W1 + b1 > 0."),
            Mistake("FFN-1", {"x @ W1 + b1": "x @ W1"},
                    "You leave out b1 when you recompute forward, so other units are active and your mask differs."),
            Mistake("FFN-2", {"np.maximum(0, x @ W1 + b1)": "x @ W1 + b1"},
                    "You compute dW2 from x W1 + b1, but in forward the input of W2 was max(0, x W1 + b1)."),
            Mistake("FFN-1b", {"(a > 0)": "(x @ W1 > 0)"},
                    "You leave out b1 in the mask. ReLU was applied to x W1 + b1."),
            Mistake("FFN-4", {"rows(x).T @ rows(du)": "rows(x).T @ rows(da)"},
                    "You compute dW1 from the gradient before the mask of ReLU. It must have passed the mask."),
            Mistake("FFN-5", {"du @ W1.T": "da @ W1.T"},
                    "You compute dx from the gradient before the mask of ReLU. It must have passed the mask."),
            Mistake("FFN-8", {"da = dy @ W2.T": "da = dy"},
                    "Your gradient does not pass back through W2. W2 was the last step of forward, so it is the first "
                    "one of backward."),
            Mistake("FFN-9", {"rows(a).T @": "rows(a > 0).T @"},
                    "You compute dW2 from the mask. In forward the input of W2 was max(0, x W1 + b1), not 0 or 1."),
            Mistake("LIN-5f", {"rows(dy).sum(0)": "dy.sum()"},
                    "You sum db2 over everything. The bias has one entry for each feature, so sum over the rows only."),
            Mistake("LIN-5g", {"rows(du).sum(0)": "du.sum()"},
                    "You sum db1 over everything. The bias has one entry for each feature, so sum over the rows only."),
            Mistake("ACT-1b", {"da = dy @ W2.T": "da = np.maximum(0, dy) @ W2.T", "da * (a > 0)": "da"},
                    "You apply the mask to dy, before W2. ReLU came before W2 in forward, so its mask comes after W2 "
                    "in backward, and it depends on x W1 + b1."),
            Mistake("ACT-2e", {"(a > 0)": "np.sign(x @ W1 + b1)"},
                    "Your slope is -1 where x W1 + b1 < 0. That of ReLU is 0 there."),
            Mistake("FFN-10", {"rows(a).T @": "rows(du).T @"},
                    "You compute dW2 from the gradient of the hidden layer. It is computed from the input of W2, "
                    "max(0, x W1 + b1), and dy."),
            Mistake("FFN-11", {"np.maximum(0, x @ W1 + b1)": "np.maximum(0, x @ W1) + b1"},
                    "You add b1 after ReLU. forward applied ReLU to x W1 + b1."),
            Mistake("FFN-6", {"dW1, db1, dW2, db2\n": "dW1, dW2, db1, db2\n"},
                    "You return db1 and dW2 in the wrong order."),
            Mistake("LIN-1b", {"rows(a).T @ rows(dy)": "rows(dy).T @ rows(a)"},
                    "Your dW2 is transposed. It must have the shape of W2, (F, D). If D = F, the shape does not reveal "
                    "the mistake."),
            Mistake("LIN-3b", {"rows(a).T @ rows(dy)": "a.mT @ dy"},
                    "Your dW2 keeps the leading axes. All rows share W2, so its gradient is a sum over all of them."),
            Mistake("LIN-4c", {"rows(a).T @ rows(dy)": "rows(a).T @ rows(dy) / len(rows(x))"},
                    "Your dW2 is a mean over the rows. It must be a sum. If the loss is a mean, dy already contains "
                    "that factor."),
            Mistake("LIN-4d", {"rows(dy).sum(0)": "rows(dy).mean(0)"},
                    "Your db2 is a mean over the rows. It must be a sum. If the loss is a mean, dy already contains "
                    "that factor."),
            Mistake("LIN-4e", {"rows(du).sum(0)": "rows(du).mean(0)", "rows(dy).sum(0)": "rows(dy).mean(0)"},
                    "Your db1 and db2 are means over the rows. They must be sums. If the loss is a mean, dy already "
                    "contains that factor."),
            Mistake("LIN-4f", {"rows(x).T @ rows(du), rows(du).sum(0)":
                               "rows(x).T @ rows(du) / len(rows(x)), rows(du).mean(0)",
                               "rows(a).T @ rows(dy), rows(dy).sum(0)":
                               "rows(a).T @ rows(dy) / len(rows(x)), rows(dy).mean(0)"},
                    "Your gradients of the weights and biases are means over the rows. They must be sums. If the loss "
                    "is a mean, dy already contains that factor."),
            Mistake("LIN-5c", {"rows(du).sum(0)": "du.sum(0)"},
                    "You sum db1 over the first axis only. The sum runs over all axes except the last."),
            Mistake("LIN-5d", {"rows(du).sum(0)": "du.sum(-1)"},
                    "You sum db1 over the features. The bias has one entry for each feature, so sum over the rows "
                    "instead."),
            Mistake("LIN-5e", {"rows(du).sum(0)": "du.sum(0)", "rows(dy).sum(0)": "dy.sum(0)"},
                    "You sum db1 and db2 over the first axis only. The sums run over all axes except the last."),
            Mistake("LIN-1", {"rows(x).T @ rows(du)": "rows(du).T @ rows(x)"},
                    "Your dW1 is transposed. It must have the shape of W1, (D, F). If D = F, the shape does not reveal "
                    "the mistake."),
            Mistake("LIN-2a", {"W2.T": "W2"}, "You do not transpose W2. Backward multiplies by its transpose."),
            Mistake("LIN-2b", {"W1.T": "W1"}, "You do not transpose W1. Backward multiplies by its transpose."),
            Mistake("LIN-3", {"rows(x).T @ rows(du)": "x.mT @ du"},
                    "Your dW1 keeps the leading axes. All rows share W1, so its gradient is a sum over all of them."),
            Mistake("LIN-4a", {"rows(x).T @ rows(du)": "rows(x).T @ rows(du) / len(rows(x))"},
                    "Your dW1 is a mean over the rows. It must be a sum. If the loss is a mean, dy already contains "
                    "that factor."),
            Mistake("LIN-4b", {"rows(du).sum(0)": "rows(du).mean(0)"},
                    "Your db1 is a mean over the rows. It must be a sum. If the loss is a mean, dy already contains "
                    "that factor."),
            Mistake("LIN-5a", {"rows(dy).sum(0)": "dy.sum(0)"},
                    "You sum db2 over the first axis only. The sum runs over all axes except the last."),
            Mistake("LIN-5b", {"rows(dy).sum(0)": "dy.sum(-1)"},
                    "You sum db2 over the features. The bias has one entry for each feature, so sum over the rows "
                    "instead."),
            Mistake("FFN-3", {"rows(du).sum(0)": "rows(da).sum(0)"},
                    "You compute db1 from the gradient before the mask of ReLU. It must have passed the mask."),
        ),
        alternatives={"einsum": {"rows(a).T @ rows(dy)": "np.einsum('nf,nd->fd', rows(a), rows(dy))"}}),
]
