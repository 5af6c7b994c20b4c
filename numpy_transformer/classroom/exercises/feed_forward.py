"""Two feed-forward layers: SwiGLU, forward and backward, and the one with ReLU, backward."""

import math

import numpy as np

from ...layers import FeedForward, SwiGLU
from ...layers.fast import rows
from ..exercise import Exercise, Mistake
from .given import loaded


def swiglu(x, Wg, Wu, Wd):
    """Computes SwiGLU, a gated feed-forward layer without biases.

    y = (silu(x Wg) * (x Wu)) Wd with silu(g) = g / (1 + exp(-g)). Entries of x Wg may be in the thousands, and y must
    be finite there too. You can ignore NumPy's overflow warning.

    x: (..., D).
    Wg, Wu: (D, F), the matrices gate and up.
    Wd: (F, D), the matrix down.
    Return y: (..., D).
    """
    g = x @ Wg
    s = g / (1 + np.exp(-g))
    u = x @ Wu
    return (s * u) @ Wd


def draw_gated(rng, n):
    def matrix(d_in, d_out):
        return rng.standard_normal((d_in, d_out)) / math.sqrt(d_in)
    return rng.standard_normal((*n.lead, n.D)), matrix(n.D, n.F), matrix(n.D, n.F), matrix(n.F, n.D)


def far_gates(rng):
    """One token whose gates are -2000, 2000 and small numbers."""
    x, Wg, Wu, Wd = rng.standard_normal((2, 3)), *rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 3))
    x[1], Wg[0, :2] = 1, (-2000, 2000)
    return [("gates of -2000 and 2000", (x, Wg, Wu, Wd))]


def gated(Wg, Wu, Wd):
    return loaded(SwiGLU(*Wg.shape), {"gate.weight": Wg, "up.weight": Wu, "down.weight": Wd})


def swiglu_backward(x, Wg, Wu, Wd, dy):
    """Computes the gradients of SwiGLU.

    The forward pass was y = (silu(x Wg) * (x Wu)) Wd with silu(g) = g sigma(g) and sigma(g) = 1 / (1 + exp(-g)).

    x: (..., D).
    Wg, Wu: (D, F).
    Wd: (F, D).
    dy: (..., D), dL/dy.
    Return dx: (..., D), dWg: (D, F), dWu: (D, F), dWd: (F, D).
    """
    g, u = x @ Wg, x @ Wu
    sigma = 1 / (1 + np.exp(-g))
    s = g * sigma
    dm = dy @ Wd.T
    du = dm * s
    ds = dm * u
    dg = ds * sigma * (1 + g * (1 - sigma))
    dWg, dWu = rows(x).T @ rows(dg), rows(x).T @ rows(du)
    dWd = rows(s * u).T @ rows(dy)
    return dg @ Wg.T + du @ Wu.T, dWg, dWu, dWd


def by_swiglu_backward(x, Wg, Wu, Wd, dy):
    layer = gated(Wg, Wu, Wd)
    layer(x)
    return layer.backward(dy), layer.gate.weight.grad, layer.up.weight.grad, layer.down.weight.grad


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


SILU = "g / (1 + np.exp(-g))"

EXERCISES = [
    Exercise(
        "09.4", "SwiGLU", minutes=10, lines=4,
        solution=swiglu, reference=lambda x, *weights: gated(*weights)(x), inputs=draw_gated, edges=far_gates,
        hints=("Two projections of x have the same shape, (..., F). What happens to each of them before they are "
               "combined?",
               "silu is applied to the projection with Wg, while the other one stays unchanged. The two are multiplied "
               "entry by entry.",
               "g = x @ Wg and s = g / (1 + np.exp(-g)); then (s * (x @ Wu)) @ Wd."),
        mistakes=(
            Mistake("SWG-1", {"x @ Wg": "x @ Wu", "u = x @ Wu": "u = x @ Wg"},
                    "You have swapped gate and up. silu is applied to the gate, x Wg."),
            Mistake("SWG-2a", {SILU: "1 / (1 + np.exp(-g))"},
                    "Your gate is a sigmoid, which gives GLU. silu(g) is g times the sigmoid of g."),
            Mistake("SWG-2b", {SILU: "g * (1 + np.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g ** 3))) / 2"},
                    "Your gate is a GELU, which gives GEGLU. GELU is close to silu, but not the same."),
            Mistake("SWG-2c", {"s * u": "s + u"},
                    "You add the two branches. They are multiplied, so that one gates the other."),
            Mistake("SWG-2d", {SILU: "g"}, "silu is missing, so your gate is linear."),
            Mistake("SWG-2e", {SILU: "np.maximum(0, g)"}, "Your gate is a ReLU, which gives ReGLU. It must be silu."),
            Mistake("SWG-2f", {"np.exp(-g)": "np.exp(g)"},
                    "The sign of the exponent is wrong. For large g, silu(g) is close to g."),
            Mistake("SWG-6", {SILU: "g", "(s * u)": "((s * u) / (1 + np.exp(-s * u)))"},
                    "You apply silu to the product. It is applied only to the gate."),
            Mistake("SWG-10", {"u = x @ Wu": "u = x @ Wu\n    u = u / (1 + np.exp(-u))"},
                    "You apply silu to both branches. It is applied only to the gate."),
            Mistake("SWG-7", {SILU: "g * np.exp(g) / (1 + np.exp(g))"},
                    "exp(g) / (1 + exp(g)) is inf / inf = NaN for g in the thousands. Find a form that avoids this."),
            Mistake("SWG-8", {") @ Wd": ") @ Wd.T"},
                    "You transpose Wd. It already has the shape (F, D) that forward needs."),
        ),
        alternatives={"with tanh": {SILU: "g * (1 + np.tanh(g / 2)) / 2"}}),
    Exercise(
        "09.5", "SwiGLU, backward", minutes=30, lines=10, given=(rows,),
        solution=swiglu_backward, reference=by_swiglu_backward, outputs=("dx", "dWg", "dWu", "dWd"),
        inputs=lambda rng, n: (*draw_gated(rng, n), rng.standard_normal((*n.lead, n.D))),
        hints=("Name the intermediate values of forward: g = x Wg, s = silu(g), u = x Wu, m = s * u, y = m Wd. Go "
               "through them line by line, from last to first.",
               "m is a product, so the gradient of each factor is dm times the other factor. x appears in two lines, "
               "so its two gradients are added. silu'(g) = sigma + g sigma (1 - sigma).",
               "dm = dy Wdᵀ, du = dm s, dg = dm u silu'(g), and dx = dg Wgᵀ + du Wuᵀ. The gradient of each matrix is "
               "(its input)ᵀ times the gradient of its output, summed over all rows."),
        mistakes=(
            Mistake("SWG-3a", {"ds * sigma * (1 + g * (1 - sigma))": "ds * sigma * (1 - sigma)"},
                    "This is the derivative of the sigmoid. silu is g times the sigmoid, so the product rule gives two "
                    "terms."),
            Mistake("SWG-3b", {"(1 + g * (1 - sigma))": "g * (1 - sigma)"},
                    "You have only one term of silu's product rule. You differentiate the sigmoid, but the factor g "
                    "depends on g too."),
            Mistake("SWG-3c", {" * (1 + g * (1 - sigma))": ""},
                    "You have only one term of silu's product rule. You differentiate the factor g, but the sigmoid "
                    "depends on g too."),
            Mistake("SWG-3d", {" * sigma * (1 + g * (1 - sigma))": ""}, "The derivative of silu is missing in dg."),
            Mistake("SWG-3e", {"(1 + g * (1 - sigma))": "(1 + (1 - sigma))"},
                    "A factor g is missing in silu's product rule. In the term that differentiates the sigmoid, g "
                    "remains as a factor."),
            Mistake("SWG-4a", {"ds = dm * u": "ds = dm"},
                    "m = s * u, so the gradient of s is dm times the other factor."),
            Mistake("SWG-4b", {"du = dm * s": "du = dm"},
                    "m = s * u, so the gradient of u is dm times the other factor."),
            Mistake("SWG-4c", {"du = dm * s": "du = dm * g"},
                    "You multiply du by g, but in forward u was multiplied by silu(g)."),
            Mistake("SWG-5a", {"dg @ Wg.T + du @ Wu.T": "dg @ Wg.T"},
                    "x is used in both branches. Your dx lacks the term of up."),
            Mistake("SWG-5b", {"dg @ Wg.T + du @ Wu.T": "du @ Wu.T"},
                    "x is used in both branches. Your dx lacks the term of the gate."),
            Mistake("SWG-5c", {"dWg, dWu =": "dWu, dWg ="}, "You have swapped dWg and dWu."),
            Mistake("SWG-9", {"rows(s * u)": "rows(g * u)"},
                    "You compute dWd from g * u, but in forward the input of Wd was silu(g) * u."),
            Mistake("LIN-1", {"rows(s * u).T @ rows(dy)": "rows(dy).T @ rows(s * u)"},
                    "Your dWd is transposed. It must have the shape of Wd, (F, D). If D = F, the shape does not reveal "
                    "the mistake."),
            Mistake("LIN-2", {"dy @ Wd.T": "dy @ Wd"},
                    "You do not transpose Wd. Backward multiplies by its transpose."),
        ),
        alternatives={"another form of the slope": {"sigma * (1 + g * (1 - sigma))": "(sigma + s * (1 - sigma))"}}),
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
                    "Your mask depends on the sign of da. It must come from forward, where u > 0."),
            Mistake("ACT-2a", {"da * (a > 0)": "da"}, "The mask of ReLU is missing. Where u < 0, no gradient passes."),
            Mistake("ACT-2c", {"(a > 0)": "a"},
                    "The slope of ReLU is 0 or 1. You multiply da by the activation itself."),
            Mistake("FFN-1", {"x @ W1 + b1": "x @ W1"},
                    "You leave out b1 when you recompute forward, so other units are active and your mask differs."),
            Mistake("FFN-2", {"np.maximum(0, x @ W1 + b1)": "x @ W1 + b1"},
                    "You compute dW2 from u, but in forward the input of W2 was max(0, u)."),
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
                    "You compute db1 from da, before the mask. It is the sum of du."),
        ),
        alternatives={"einsum": {"rows(a).T @ rows(dy)": "np.einsum('nf,nd->fd', rows(a), rows(dy))"}}),
]
