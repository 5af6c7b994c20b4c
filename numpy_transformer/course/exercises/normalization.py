"""LayerNorm, forward and backward."""

import numpy as np

from ...layers import LayerNorm as PackageLayerNorm
from .definition import Exercise, Mistake
from .given import loaded
from .normalization_mistakes import IN_DX, KEEPDIMS, STD, SUMMED, THROUGH_MEAN, in_dx, in_statistics


def layer_norm(x, gamma, beta, eps):
    """Computes layer normalization: each row gets mean 0 and variance 1 (apart from eps), then gamma and beta apply.

    y = gamma x_hat + beta with x_hat = (x - mean) / sqrt(variance + eps). Each row of x has its own mean and variance
    over its D features; the variance divides by D.

    x: (..., D), where a row is one token with D features.
    gamma, beta: (D,), which scale and shift each feature.
    eps: a small number > 0, added under the root.
    Return y: (..., D).
    """
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    x_hat = (x - mean) / np.sqrt(var + eps)
    return gamma * x_hat + beta


def layer_norm_backward(x, gamma, eps, dy):
    """Computes the gradients of y = gamma x_hat + beta with x_hat = (x - mean) / sqrt(variance + eps).

    Each row of x has its own mean and variance over its D features; the variance divides by D. The gradients do not
    depend on beta.

    x: (..., D).
    gamma: (D,).
    eps: a small number > 0.
    dy: (..., D), dL/dy.
    Return dx: (..., D), dgamma: (D,), dbeta: (D,).
    """
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    std = np.sqrt(var + eps)
    x_hat = (x - mean) / std
    g = gamma * dy
    dx = (g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)) / std
    axes = tuple(range(x.ndim - 1))
    dgamma = (dy * x_hat).sum(axes)
    dbeta = dy.sum(axes)
    return dx, dgamma, dbeta


def draw(rng, shape):
    """x with mean far from 0 and variance far from 1, a gamma that is not 1, a beta, an eps, and dy.

    eps is large, so that a wrong place of eps has a visible effect.
    """
    x, dy, beta = (rng.standard_normal(size) for size in (shape, shape, shape[-1]))
    gamma = rng.uniform(0.5, 2, shape[-1])
    eps = round(float(rng.uniform(0.05, 0.2)), 3)
    return 1 + 2 * x, gamma, beta, eps, dy


def inputs_and_edges(pick):
    """Returns `inputs` and `edges` of an exercise whose arguments `pick` chooses from what `draw` returns."""
    def edges(rng):
        x, *others = draw(rng, (3, 6))
        x[1] = 0                                # a row with variance 0
        return [("as many rows as features", pick(*draw(rng, (6, 6)))), ("a row of zeros", pick(x, *others))]
    return {"inputs": lambda rng, n: pick(*draw(rng, (*n.lead, n.D))), "edges": edges}


def package_layer_norm(gamma, beta, eps):
    return loaded(PackageLayerNorm(len(gamma), eps), {"gamma": gamma, "beta": beta})


def by_layer_norm(x, gamma, eps, dy):
    layer = package_layer_norm(gamma, 0 * gamma, eps)
    layer(x)
    return layer.backward(dy), layer.gamma.grad, layer.beta.grad


EXERCISES = [
    Exercise(
        "08.1", "LayerNorm, forward", minutes=10, lines=4,
        solution=layer_norm, **inputs_and_edges(lambda x, gamma, beta, eps, dy: (x, gamma, beta, eps)),
        reference=lambda x, gamma, beta, eps: package_layer_norm(gamma, beta, eps)(x),
        invariants=(("in each row the mean of (y - beta) / gamma must be 0",
                     lambda inputs, outputs: ((outputs[0] - inputs[2]) / inputs[1]).mean(-1)),),
        hints=("Does a row need any information about the other rows?",
               "The mean and the variance of each row run over the last axis; keepdims=True keeps them as a column "
               "next to x.",
               "With mean = x.mean(-1, keepdims=True) and var = x.var(-1, keepdims=True), subtract the mean, divide by "
               "np.sqrt(var + eps), multiply by gamma, and add beta."),
        mistakes=(
            *in_statistics("eps", "np.sqrt(var + eps)"),
            Mistake("LN-17a", {"gamma * x_hat + beta": "gamma * (x_hat + beta)"},
                    "You multiply beta by gamma too. Add beta after the product."),
            Mistake("LN-17b", {"gamma * x_hat": "(1 + gamma) * x_hat"},
                    "Your factor is 1 + gamma. Here it is gamma itself."),
            Mistake("LN-17c", {"gamma * x_hat + beta": "x_hat"},
                    "gamma and beta are missing. They give each feature a new scale and a new offset."),
            Mistake("LN-17d", {"gamma * x_hat": "x_hat"},
                    "gamma is missing. Its initial value is 1, so this mistake has no effect before training."),
            Mistake("LN-17e", {"gamma * x_hat + beta": "gamma * x_hat"},
                    "beta is missing. Its initial value is 0, so this mistake has no effect before training."),
            Mistake("LN-17f", {"gamma * x_hat + beta": "beta * x_hat + gamma"},
                    "You have swapped gamma and beta. gamma scales, beta shifts."),
            Mistake("LN-18", {"x_hat = (x - mean) / np": "x -= mean\n    x_hat = x / np"},
                    "x -= ... changes the caller's array. Compute the difference into a new array."),
            Mistake("LN-7d", {"(x - mean) / np": "x - mean / np"},
                    "You divide only the mean by the standard deviation. Parentheses are missing around x - mean."),
            Mistake("ERR-2", {"np.sqrt(": "math.sqrt("},
                    "The functions of math take a single number. For arrays use NumPy's."),
            Mistake("LN-7e", {"(x - mean) / np": "mean / np", "gamma * x_hat + beta": "gamma * x - x_hat + beta"},
                    "Parentheses are missing: gamma multiplies x only, and only the mean is divided by the standard "
                    "deviation. Both apply to the difference x - mean."),
            Mistake("LN-17g", {"gamma * x_hat": "x_hat / gamma"}, "You divide by gamma. It multiplies x_hat."),
            Mistake("LN-17h", {"* x_hat + beta": "* x_hat - beta"}, "You subtract beta. It is added."),
            Mistake("LN-17i", {"    mean = ": "    x = gamma * x + beta\n    mean = ", "gamma * x_hat + beta": "x_hat"},
                    "You apply gamma and beta before normalizing, which undoes them. They come last."),
        ),
        alternatives={
            "variance from squares": {"x.var(-1, keepdims=True)": "(x ** 2).mean(-1, keepdims=True) - mean ** 2"},
            "by einsum": {"x.var(-1, keepdims=True)":
                          "np.einsum('...i,...i->...', x - mean, x - mean)[..., None] / x.shape[-1]"}}),
    Exercise(
        "08.2", "LayerNorm, backward", minutes=30, lines=9,
        solution=layer_norm_backward, reference=by_layer_norm, outputs=("dx", "dgamma", "dbeta"),
        **inputs_and_edges(lambda x, gamma, beta, eps, dy: (x, gamma, eps, dy)),
        invariants=(("rows of dx must sum to 0", lambda inputs, outputs: outputs[0].sum(-1)),),
        hints=("x affects y on three paths: directly, through the mean, and through the standard deviation. How many "
               "of them are in your dx? And how many rows share gamma and beta?",
               "Let g = gamma dy. Adding one number to a whole row of x leaves y unchanged. So does scaling a row, "
               "apart from eps. So dx is g without its mean and without its component along x_hat, divided by the "
               "standard deviation.",
               "dx = (g - mean(g) - x_hat * mean(g * x_hat)) / std, where the means run over the last axis with "
               "keepdims=True. dgamma is dy * x_hat and dbeta is dy, each summed over all axes except the last."),
        mistakes=(
            *THROUGH_MEAN, *in_dx(IN_DX, "gamma", "std", STD), *in_statistics("eps", "std"),
            Mistake("LN-9a", {"x_hat * (g * x_hat)": "x * (g * x)"},
                    "The last term of your dx uses x where the normalized x_hat belongs."),
            Mistake("LN-9b", {"x_hat * (g * x_hat)": "(x - mean) * (g * (x - mean))"},
                    "The last term of your dx lacks a division by the variance. It contains x_hat twice, not x - mean. "
                    "Step by step: the derivative of 1 / sqrt(v) is -1/2 v^(-3/2)."),
            Mistake("LN-11a", {"(dy * x_hat).sum": "dy.sum"},
                    "Your dgamma is the same as dbeta. But gamma was multiplied by something, and its gradient must "
                    "contain that factor."),
            Mistake("LN-11b", {"(dy * x_hat).sum": "(dy * x).sum"},
                    "You compute dgamma from x. gamma was multiplied by the normalized x_hat."),
            Mistake("LN-11d", {"(dy * x_hat).sum": "(g * x_hat).sum"},
                    "Your dgamma contains gamma. y is linear in gamma, so its gradient does not contain gamma."),
            Mistake("LN-11e", {"(dy * x_hat).sum": "(dy * (x - mean)).sum"},
                    "You compute dgamma from x - mean. gamma was multiplied by x_hat, which is also divided by the "
                    "standard deviation."),
            Mistake("LN-11f", {"dbeta = dy.sum": "dbeta = g.sum"},
                    "Your dbeta contains gamma. beta is added after the product with gamma, so its gradient does not "
                    "contain gamma."),
            Mistake("LN-11g", {"(dy * x_hat).sum": "(g * x_hat).sum", "dbeta = dy.sum": "dbeta = g.sum"},
                    "Your dgamma and dbeta contain gamma, as if dy had been multiplied by it. Only dx needs that "
                    "product."),
            Mistake("LN-12a", {"x_hat).sum(axes)": "x_hat).mean(axes)", "dy.sum(axes)": "dy.mean(axes)"},
                    "Your dgamma and dbeta are means over the rows. They must be sums. If the loss is a mean, dy "
                    "already contains that factor."),
            Mistake("LN-12b", {"tuple(range(x.ndim - 1))": "0"}, SUMMED + " You sum over the first axis only."),
            Mistake("LN-12c", {"tuple(range(x.ndim - 1))": "-1"}, SUMMED + " You sum over the last axis."),
            Mistake("LN-12d", {"x_hat).sum(axes)": "x_hat)", "dy.sum(axes)": "dy"},
                    SUMMED + " You do not sum at all."),
            Mistake("LN-12e", {"x_hat).sum(axes)": "x_hat).mean(axes)"},
                    "Your dgamma is a mean over the rows. It must be a sum. If the loss is a mean, dy already contains "
                    "that factor."),
            Mistake("LN-12f", {"dy.sum(axes)": "dy.mean(axes)"},
                    "Your dbeta is a mean over the rows. It must be a sum. If the loss is a mean, dy already contains "
                    "that factor."),
            Mistake("LN-12g", {"x_hat).sum(axes)": "x_hat).sum()", "dy.sum(axes)": "dy.sum()"},
                    SUMMED + " You sum over the last axis too, so only one number is left."),
            Mistake("LN-12h", {"tuple(range(x.ndim - 1))": "-2"},
                    SUMMED + " You sum over the axis before the last one only."),
            Mistake("LN-12i", {"tuple(range(x.ndim - 1))": "(0, 1)"},
                    SUMMED + " You sum over axes 0 and 1, which is right only if x has three axes."),
            Mistake("LN-12j", {"x_hat).sum(axes)": "x_hat)"}, SUMMED + " You do not sum dgamma."),
            Mistake("LN-12k", {"dy.sum(axes)": "dy"}, SUMMED + " You do not sum dbeta."),
            Mistake("LN-13", {"dgamma, dbeta\n": "dbeta, dgamma\n"},
                    "You return dgamma and dbeta in the wrong order."),
            Mistake("LN-13a", {"return dx, dgamma, dbeta": "return dgamma, dbeta, dx"},
                    "You return the three gradients in the wrong order. dx comes first."),
            Mistake("LN-19", {"g.mean(-1, keepdims=True)": "g.mean(-1)",
                              "x_hat).mean(-1, keepdims=True)": "x_hat).mean(-1)"}, KEEPDIMS),
            Mistake("LN-19f", {"x.mean(-1, keepdims=True), x.var(-1, keepdims=True)": "x.mean(-1), x.var(-1)",
                               "g.mean(-1, keepdims=True)": "g.mean(-1)",
                               "x_hat).mean(-1, keepdims=True)": "x_hat).mean(-1)"}, KEEPDIMS),
        ),
        alternatives={
            "with sums and D": {"(g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)) / std":
                                "(len(gamma) * g - g.sum(-1, keepdims=True)\n"
                                "          - x_hat * (g * x_hat).sum(-1, keepdims=True)) / (len(gamma) * std)"},
            "step by step": {"dx = (g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)) / std":
                             "dvar = -(g * (x - mean)).sum(-1, keepdims=True) / std ** 3 / 2\n"
                             "    dcentered = g / std + dvar * 2 * (x - mean) / len(gamma)\n"
                             "    dx = dcentered - dcentered.mean(-1, keepdims=True)"},
            "rows by reshape": {"(dy * x_hat).sum(axes)": "(dy * x_hat).reshape(-1, len(gamma)).sum(0)"}}),
]
