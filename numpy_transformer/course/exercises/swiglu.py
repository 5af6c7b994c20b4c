"""SwiGLU, a gated feed-forward layer, forward and backward."""

import math

import numpy as np

from ...layers import SwiGLU
from ...layers.fast import rows
from .definition import Exercise, Mistake
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
            Mistake("SWG-8b", {"g = x @ Wg": "g = x @ Wg.T", "u = x @ Wu": "u = x @ Wu.T"},
                    "You transpose Wg and Wu. They already have the shape (D, F) that forward needs."),
            Mistake("SWG-8c", {"g = x @ Wg": "g = x @ Wg.T"},
                    "You transpose Wg. It already has the shape (D, F) that forward needs."),
            Mistake("SWG-8d", {"u = x @ Wu": "u = x @ Wu.T"},
                    "You transpose Wu. It already has the shape (D, F) that forward needs."),
            Mistake("SWG-2m", {SILU: "np.exp(g - g.max(-1, keepdims=True))\n    s = s / s.sum(-1, keepdims=True)"},
                    "Your gate is a softmax over the features. silu is applied to each feature by itself."),
            Mistake("SWG-2l", {SILU: "g * np.tanh(g)"},
                    "You multiply g by its tanh. silu(g) is g times the sigmoid of g."),
            Mistake("SWG-2g", {"(1 + np.exp(-g))": "(1 - np.exp(-g))"},
                    "You write 1 - exp(-g). The denominator of silu is 1 + exp(-g)."),
            Mistake("SWG-2h", {SILU: "g * (1 + np.exp(-g))"},
                    "You multiply by 1 + exp(-g). silu divides by it."),
            Mistake("SWG-2i", {SILU: "np.tanh(g)"}, "Your gate is a tanh. It must be silu."),
            Mistake("SWG-2j", {SILU: "(1 + g - g / (1 + np.exp(-g))) / (1 + np.exp(-g))"},
                    "Your gate is the derivative of silu. forward uses silu itself."),
            Mistake("SWG-2k", {SILU: "g / (1 + np.exp(-g)) ** 2"},
                    "You multiply by the sigmoid twice. silu(g) already contains it."),
            Mistake("SWG-11", {SILU: "(x / (1 + np.exp(-x))) @ Wg"},
                    "You apply silu to x, before the matrix Wg. It is applied to x Wg."),
            Mistake("SWG-12a", {"(s * u)": "s"}, "The branch of Wu is missing. The gate is multiplied by x Wu."),
            Mistake("SWG-12b", {"(s * u)": "u"}, "The gate is missing. x Wu is multiplied by silu(x Wg)."),
            Mistake("SWG-12c", {"s * u": "s * g"},
                    "You use x Wg twice. silu(x Wg) is multiplied by the other branch, x Wu."),
            Mistake("SWG-13", {SILU: "g",
                               "return (s * u) @ Wd": "y = (s * u) @ Wd\n    return y / (1 + np.exp(-y))"},
                    "You apply silu to the output of the layer. It is applied only to the gate, x Wg."),
            Mistake("SWG-14", {"(s * u) @ Wd": "(s @ Wd) * (u @ Wd)"},
                    "You apply Wd to each branch. The branches are multiplied first."),
            Mistake("SWG-15", {"(s * u) @ Wd": "s * u"},
                    "The matrix Wd is missing. It leads from the F features back to D."),
            Mistake("SWG-16", {"return (": "return x + ("},
                    "You add x to the result. A residual connection is not part of this layer."),
            Mistake("SWG-17", {"g = x @ Wg": "g = np.clip(x @ Wg, -500, 500)"},
                    "You clip x Wg to avoid an overflow, which changes silu where it is large: silu(2000) is 2000. You "
                    "can ignore the warning instead."),
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
            Mistake("SWG-1", {"g, u = x @ Wg, x @ Wu": "u, g = x @ Wg, x @ Wu"},
                    "You have swapped gate and up. In forward silu was applied to x Wg."),
            Mistake("SWG-2a", {"s = g * sigma": "s = sigma"},
                    "When you recompute forward, your gate is a sigmoid. silu(g) is g times the sigmoid of g."),
            Mistake("SWG-2d", {"s = g * sigma": "s = g"},
                    "When you recompute forward, silu is missing. x Wu was multiplied by silu(x Wg)."),
            Mistake("SWG-3a", {"ds * sigma * (1 + g * (1 - sigma))": "ds * sigma * (1 - sigma)"},
                    "This is the derivative of the sigmoid. silu is g times the sigmoid, so the product rule gives two "
                    "terms."),
            Mistake("SWG-3b", {"(1 + g * (1 - sigma))": "g * (1 - sigma)"},
                    "You have only one term of silu's product rule. You differentiate the sigmoid, but the factor g "
                    "before it depends on g too."),
            Mistake("SWG-3c", {" * (1 + g * (1 - sigma))": ""},
                    "You have only one term of silu's product rule. You differentiate the factor g, but the sigmoid "
                    "depends on g too."),
            Mistake("SWG-3d", {" * sigma * (1 + g * (1 - sigma))": ""},
                    "The derivative of silu is missing in the branch of the gate."),
            Mistake("SWG-3e", {"(1 + g * (1 - sigma))": "(1 + (1 - sigma))"},
                    "A factor g is missing in silu's product rule. In the term that differentiates the sigmoid, g "
                    "remains as a factor."),
            Mistake("SWG-4a", {"ds = dm * u": "ds = dm"},
                    "The gradient of the gate lacks the factor x Wu. silu(x Wg) is multiplied by it in forward, so its "
                    "gradient is as well."),
            Mistake("SWG-4b", {"du = dm * s": "du = dm"},
                    "The gradient of x Wu lacks the factor silu(x Wg), by which it is multiplied in forward."),
            Mistake("SWG-4c", {"du = dm * s": "du = dm * g"},
                    "You multiply the gradient of x Wu by x Wg. In forward, x Wu was multiplied by silu(x Wg)."),
            Mistake("SWG-4d", {"du = dm * s": "du = dm * u", "ds = dm * u": "ds = dm * s"},
                    "You multiply the gradient of each branch by the branch itself. The derivative of a product with "
                    "respect to one factor is the other factor."),
            Mistake("SWG-4e", {"du = dm * s": "du = dm * u"},
                    "You multiply the gradient of x Wu by x Wu itself. The derivative of a product with respect to one "
                    "factor is the other factor."),
            Mistake("SWG-4f", {"ds = dm * u": "ds = dm * s"},
                    "You multiply the gradient of the gate by the gate itself. The derivative of a product with "
                    "respect to one factor is the other factor."),
            Mistake("SWG-4g", {"ds = dm * u": "ds = dm * g"},
                    "You multiply the gradient of the gate by x Wg. The other factor of the product is x Wu."),
            Mistake("SWG-3f", {"(1 + g * (1 - sigma))": "(1 + g)"},
                    "You use sigma + g sigma as silu's derivative. The derivative of the sigmoid is sigma (1 - sigma), "
                    "not sigma."),
            Mistake("SWG-3g", {"sigma * (1 + g * (1 - sigma))": "s * (1 - s)"},
                    "You use silu (1 - silu). The rule p (1 - p) holds for the sigmoid; silu is g times the sigmoid "
                    "and needs the product rule."),
            Mistake("SWG-3h", {"(1 + g * (1 - sigma))": "(1 - s)"},
                    "You use sigma (1 - silu) as silu's derivative. One term of the product rule is missing."),
            Mistake("SWG-3i", {"(1 + g *": "(1 - g *"},
                    "The second term of silu's product rule has the wrong sign. The sigmoid rises, so both terms are "
                    "added."),
            Mistake("SWG-3j", {"sigma * (1 + g * (1 - sigma))": "(s + sigma * (1 - sigma))"},
                    "The factor g is in the wrong term of silu's product rule. It remains where the sigmoid is "
                    "differentiated."),
            Mistake("SWG-3k", {"sigma * (1 + g * (1 - sigma))": "(g > 0)"},
                    "You use the slope of ReLU. forward used silu."),
            Mistake("SWG-3n", {"sigma * (1 + g * (1 - sigma))": "(1 + u - u / (1 + np.exp(-u))) / (1 + np.exp(-u))"},
                    "You evaluate silu's derivative at x Wu. It is evaluated at x Wg, to which silu was applied."),
            Mistake("SWG-3o", {"sigma * (1 + g * (1 - sigma))": "(sigma + s * (1 - s))"},
                    "You use sigma + silu (1 - silu) as silu's derivative. The rule p (1 - p) holds for the sigmoid."),
            Mistake("SWG-3l", {"(1 - sigma))": "sigma)"},
                    "You use sigma + g sigma² as silu's derivative. The derivative of the sigmoid is "
                    "sigma (1 - sigma)."),
            Mistake("SWG-3m", {"sigma * (1 + g * (1 - sigma))": "s"},
                    "You multiply by silu itself. Backward multiplies by its derivative."),
            Mistake("SWG-2f", {"np.exp(-g)": "np.exp(g)"},
                    "The sign in your sigmoid is wrong: 1 / (1 + exp(g)) falls. The sigmoid is 1 / (1 + exp(-g))."),
            Mistake("SWG-2g", {"(1 + np.exp(-g))": "(1 - np.exp(-g))"},
                    "You write 1 - exp(-g). The denominator of the sigmoid is 1 + exp(-g)."),
            Mistake("SWG-5a", {"dg @ Wg.T + du @ Wu.T": "dg @ Wg.T"},
                    "x is used in both branches. Your dx lacks the term of up."),
            Mistake("SWG-5b", {"dg @ Wg.T + du @ Wu.T": "du @ Wu.T"},
                    "x is used in both branches. Your dx lacks the term of the gate."),
            Mistake("SWG-5c", {"dWg, dWu =": "dWu, dWg ="}, "You have swapped dWg and dWu."),
            Mistake("SWG-5d", {"dg @ Wg.T + du @ Wu.T": "dg @ Wu.T + du @ Wg.T"},
                    "In your dx, the gradient of each branch goes back through the matrix of the other one."),
            Mistake("SWG-5e", {"dg @ Wg.T + du @ Wu.T": "dg @ Wg.T * (du @ Wu.T)"},
                    "You multiply the two parts of dx. x is used twice, so the gradients of both uses are added."),
            Mistake("SWG-9", {"rows(s * u)": "rows(g * u)"},
                    "You compute dWd from x Wg * x Wu, but in forward the input of Wd was silu(x Wg) * x Wu."),
            Mistake("SWG-9b", {"rows(s * u)": "rows(s)"},
                    "You compute dWd from silu(x Wg) alone. The input of Wd was its product with x Wu."),
            Mistake("SWG-9c", {"rows(s * u)": "rows(u)"},
                    "You compute dWd from x Wu alone. The input of Wd was its product with silu(x Wg)."),
            Mistake("SWG-19", {"dm = dy @ Wd.T": "dm = dy"},
                    "Your gradient does not pass back through Wd. Wd was the last step of forward, so it is the first "
                    "one of backward."),
            Mistake("LIN-2c", {"dg @ Wg.T": "dg @ Wg"},
                    "You do not transpose Wg in dx. Backward multiplies by the transpose."),
            Mistake("LIN-2d", {"du @ Wu.T": "du @ Wu"},
                    "You do not transpose Wu in dx. Backward multiplies by the transpose."),
            Mistake("SWG-18", {"return dg @ Wg.T + du @ Wu.T, dWg, dWu, dWd":
                               "return dWg, dWu, dWd, dg @ Wg.T + du @ Wu.T"},
                    "You return the gradients in the wrong order. dx comes first."),
            Mistake("LIN-1b", {"rows(x).T @ rows(dg)": "rows(dg).T @ rows(x)",
                               "rows(x).T @ rows(du)": "rows(du).T @ rows(x)"},
                    "Your dWg and dWu are transposed. They must have the shape of Wg and Wu, (D, F). If D = F, the "
                    "shape does not reveal the mistake."),
            Mistake("LIN-2b", {"dg @ Wg.T + du @ Wu.T": "dg @ Wg + du @ Wu"},
                    "You do not transpose Wg and Wu in dx. Backward multiplies by the transpose."),
            Mistake("LIN-3", {"rows(x).T @ rows(dg), rows(x).T @ rows(du)": "x.mT @ dg, x.mT @ du",
                              "rows(s * u).T @ rows(dy)": "(s * u).mT @ dy"},
                    "Your gradients of the matrices keep the leading axes. All rows share the matrices, so their "
                    "gradients are sums over all rows."),
            Mistake("LIN-4", {"rows(x).T @ rows(dg), rows(x).T @ rows(du)":
                              "rows(x).T @ rows(dg) / len(rows(x)), rows(x).T @ rows(du) / len(rows(x))",
                              "rows(s * u).T @ rows(dy)": "rows(s * u).T @ rows(dy) / len(rows(x))"},
                    "Your gradients of the matrices are means over the rows. They must be sums. If the loss is a mean, "
                    "dy already contains that factor."),
            Mistake("LIN-1", {"rows(s * u).T @ rows(dy)": "rows(dy).T @ rows(s * u)"},
                    "Your dWd is transposed. It must have the shape of Wd, (F, D). If D = F, the shape does not reveal "
                    "the mistake."),
            Mistake("LIN-2", {"dy @ Wd.T": "dy @ Wd"},
                    "You do not transpose Wd. Backward multiplies by its transpose."),
        ),
        alternatives={"another form of the slope": {"sigma * (1 + g * (1 - sigma))": "(sigma + s * (1 - sigma))"}}),
]
