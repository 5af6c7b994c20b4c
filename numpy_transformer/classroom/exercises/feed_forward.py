"""The two feed-forward layers: with a gate, forward and backward, and with ReLU, backward."""

import math

import numpy as np

from ...layers import FeedForward, SwiGLU
from ...layers.fast import rows
from ..exercise import Exercise, Mistake
from .given import loaded


def swiglu(x, Wg, Wu, Wd):
    """The gated feed-forward layer without biases, y = (silu(x Wg) * (x Wu)) Wd, silu(g) = g / (1 + exp(-g)).

    x: (..., D).  Wg, Wu: (D, F), gate and up.  Wd: (F, D), down.  Return y: (..., D). Entries of x Wg may lie in the
    thousands: y must be finite there too. That NumPy warns of an overflow does not matter.
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
    """One token whose gates are -2000, 2000 and small ones."""
    x, Wg, Wu, Wd = rng.standard_normal((2, 3)), *rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 3))
    x[1], Wg[0, :2] = 1, (-2000, 2000)
    return [("gates of -2000 and 2000", (x, Wg, Wu, Wd))]


def gated(Wg, Wu, Wd):
    return loaded(SwiGLU(*Wg.shape), {"gate.weight": Wg, "up.weight": Wu, "down.weight": Wd})


def swiglu_backward(x, Wg, Wu, Wd, dy):
    """The gradients of y = (silu(x Wg) * (x Wu)) Wd, silu(g) = g sigma(g), sigma(g) = 1 / (1 + exp(-g)).

    x: (..., D).  Wg, Wu: (D, F).  Wd: (F, D).  dy: (..., D), dL/dy.
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
    """The gradients of y = max(0, x W1 + b1) W2 + b2. The gradients do not depend on b2, so it is not given.

    x: (..., D).  W1: (D, F).  b1: (F,).  W2: (F, D).  dy: (..., D), dL/dy.
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
        hints=("Two views of x have the same shape, (..., F). What happens to each of them before they meet?",
               "The gate's view goes through silu, the other stays as it is; they are multiplied entry by entry.",
               "s = g / (1 + np.exp(-g)) with g = x @ Wg; then (s * (x @ Wu)) @ Wd."),
        mistakes=(
            Mistake("SWG-1", {"x @ Wg": "x @ Wu", "u = x @ Wu": "u = x @ Wg"},
                    "gate and up are swapped: silu goes on the gate's branch, x Wg."),
            Mistake("SWG-2a", {SILU: "1 / (1 + np.exp(-g))"},
                    "The gate is a sigmoid here (GLU). silu(g) is g times the sigmoid of g."),
            Mistake("SWG-2b", {SILU: "g * (1 + np.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g ** 3))) / 2"},
                    "The gate is a GELU here (GEGLU). Near, but not silu."),
            Mistake("SWG-2c", {"s * u": "s + u"}, "The branches are multiplied, not added: one gates the other."),
            Mistake("SWG-2d", {SILU: "g"}, "silu is missing: the gate is not bent."),
            Mistake("SWG-2e", {SILU: "np.maximum(0, g)"}, "The gate is a ReLU here (ReGLU), not silu."),
            Mistake("SWG-2f", {"np.exp(-g)": "np.exp(g)"},
                    "The sign in exp is reversed: for large g, silu(g) is nearly g."),
            Mistake("SWG-6", {SILU: "g", "(s * u)": "((s * u) / (1 + np.exp(-s * u)))"},
                    "silu is applied to the product; it belongs to the gate alone."),
            Mistake("SWG-10", {"u = x @ Wu": "u = x @ Wu\n    u = u / (1 + np.exp(-u))"},
                    "silu is applied to both branches: it belongs to the gate alone."),
            Mistake("SWG-7", {SILU: "g * np.exp(g) / (1 + np.exp(g))"},
                    "exp(g) / (1 + exp(g)) is inf / inf = NaN for g in the thousands; there is a form that is not."),
            Mistake("SWG-8", {") @ Wd": ") @ Wd.T"}, "Wd is (F, D) already: no transpose in forward."),
        ),
        alternatives={"by tanh": {SILU: "g * (1 + np.tanh(g / 2)) / 2"}}),
    Exercise(
        "09.5", "SwiGLU, backward", minutes=30, lines=10, given=(rows,),
        solution=swiglu_backward, reference=by_swiglu_backward, outputs=("dx", "dWg", "dWu", "dWd"),
        inputs=lambda rng, n: (*draw_gated(rng, n), rng.standard_normal((*n.lead, n.D))),
        hints=("Name what forward makes: g = x Wg, s = silu(g), u = x Wu, m = s * u, y = m Wd. Go back line by line.",
               "m is a product: each factor's gradient is dm times the other factor. x stands in two lines: its two "
               "gradients are added. silu'(g) = sigma + g sigma (1 - sigma).",
               "dm = dy Wdᵀ, du = dm s, dg = dm u silu'(g); dx = dg Wgᵀ + du Wuᵀ; each matrix gets (its input)ᵀ times "
               "the gradient of its output, summed over all rows."),
        mistakes=(
            Mistake("SWG-3a", {"ds * sigma * (1 + g * (1 - sigma))": "ds * sigma * (1 - sigma)"},
                    "That is the slope of the sigmoid. silu is g times the sigmoid, so the product rule has two "
                    "terms."),
            Mistake("SWG-3b", {"(1 + g * (1 - sigma))": "g * (1 - sigma)"},
                    "Only one term of silu's product rule: the sigmoid moves with g, and g itself moves too."),
            Mistake("SWG-3c", {" * (1 + g * (1 - sigma))": ""},
                    "Only one term of silu's product rule: g itself moves, and the sigmoid moves with it."),
            Mistake("SWG-3d", {" * sigma * (1 + g * (1 - sigma))": ""}, "silu's slope is missing on the way to g."),
            Mistake("SWG-3e", {"(1 + g * (1 - sigma))": "(1 + (1 - sigma))"},
                    "In silu's product rule a g is missing: where the sigmoid is differentiated, g stays as a factor."),
            Mistake("SWG-4a", {"ds = dm * u": "ds = dm"}, "m = s * u: the gradient of s is dm times the other factor."),
            Mistake("SWG-4b", {"du = dm * s": "du = dm"}, "m = s * u: the gradient of u is dm times the other factor."),
            Mistake("SWG-4c", {"du = dm * s": "du = dm * g"},
                    "The factor beside u is silu(g), not g: du lacks the bend of forward."),
            Mistake("SWG-5a", {"dg @ Wg.T + du @ Wu.T": "dg @ Wg.T"},
                    "x feeds both branches: dx lacks the way through up."),
            Mistake("SWG-5b", {"dg @ Wg.T + du @ Wu.T": "du @ Wu.T"},
                    "x feeds both branches: dx lacks the way through the gate."),
            Mistake("SWG-5c", {"dWg, dWu =": "dWu, dWg ="}, "dWg and dWu are swapped."),
            Mistake("SWG-9", {"rows(s * u)": "rows(g * u)"}, "Wd's input in forward was silu(g) * u, with the bend."),
            Mistake("LIN-1", {"rows(s * u).T @ rows(dy)": "rows(dy).T @ rows(s * u)"},
                    "dWd is transposed: it has Wd's shape, (F, D). With D = F nobody would notice."),
            Mistake("LIN-2", {"dy @ Wd.T": "dy @ Wd"}, "The way back goes through Wd transposed."),
        ),
        alternatives={"another form of the slope": {"sigma * (1 + g * (1 - sigma))": "(sigma + s * (1 - sigma))"}}),
    Exercise(
        "09.6", "The feed-forward layer, backward", minutes=20, lines=6, given=(rows,),
        solution=feed_forward_backward, reference=by_feed_forward_backward, inputs=draw_feed_forward,
        outputs=("dx", "dW1", "db1", "dW2", "db2"),
        hints=("Three lines of forward: u = x W1 + b1, a = max(0, u), y = a W2 + b2. Answer them from the last to the "
               "first.",
               "Two linear layers and a ReLU between them. Which array was the input of each, and what does a matrix "
               "get?",
               "da = dy W2ᵀ, du = da where u > 0; each matrix gets (its input)ᵀ times the gradient of its output, "
               "each bias the sum of that gradient over all rows."),
        mistakes=(
            Mistake("ACT-1", {"(a > 0)": "(da > 0)"},
                    "The mask comes from forward, u > 0, and not from the sign of da."),
            Mistake("ACT-2a", {"da * (a > 0)": "da"}, "ReLU's mask is missing: where u < 0 nothing passes."),
            Mistake("ACT-2c", {"(a > 0)": "a"},
                    "ReLU's slope is 0 or 1; here da is multiplied by the activation itself."),
            Mistake("FFN-1", {"x @ W1 + b1": "x @ W1"},
                    "b1 is missing where forward is computed again: other units are active, and the mask is another."),
            Mistake("FFN-2", {"np.maximum(0, x @ W1 + b1)": "x @ W1 + b1"},
                    "W2's input in forward was max(0, u), not u: dW2 is taken from the wrong array."),
            Mistake("LIN-1", {"rows(x).T @ rows(du)": "rows(du).T @ rows(x)"},
                    "dW1 is transposed: it has W1's shape, (D, F). With D = F nobody would notice."),
            Mistake("LIN-2a", {"W2.T": "W2"}, "The way back goes through W2 transposed."),
            Mistake("LIN-2b", {"W1.T": "W1"}, "The way back goes through W1 transposed."),
            Mistake("LIN-3", {"rows(x).T @ rows(du)": "x.mT @ du"},
                    "dW1 keeps the leading axes: W1 is shared by all rows, so its gradient is a sum over all of them."),
            Mistake("LIN-4a", {"rows(x).T @ rows(du)": "rows(x).T @ rows(du) / len(rows(x))"},
                    "dW1 is a mean over the rows. It is a sum: a mean, if any, stands in the loss."),
            Mistake("LIN-4b", {"rows(du).sum(0)": "rows(du).mean(0)"},
                    "db1 is a mean over the rows. It is a sum: a mean, if any, stands in the loss."),
            Mistake("LIN-5a", {"rows(dy).sum(0)": "dy.sum(0)"},
                    "db2 is summed over the first axis alone: all axes but the last are rows."),
            Mistake("LIN-5b", {"rows(dy).sum(0)": "dy.sum(-1)"},
                    "db2 is summed over the features; they are what stays."),
            Mistake("FFN-3", {"rows(du).sum(0)": "rows(da).sum(0)"},
                    "db1 is the sum of du, behind the mask, not of da."),
        ),
        alternatives={"einsum": {"rows(a).T @ rows(dy)": "np.einsum('nf,nd->fd', rows(a), rows(dy))"}}),
]
