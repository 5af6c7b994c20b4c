"""LayerNorm: forward, backward, and as a class."""

import numpy as np

from ...layers import LayerNorm as PackageLayerNorm
from ..exercise import Exercise, Mistake
from .given import Parameter, loaded

EPS = 0.1                                       # large, so that its place shows


def layer_norm(x, gamma, beta, eps):
    """Layer normalization: each row gets mean 0 and, but for eps, variance 1; then gamma scales it and beta shifts it.

    x: (..., D), a row is one token with D features.  gamma, beta: (D,).  eps: a small number > 0, inside the root.
    Return y: (..., D), y = gamma x_hat + beta, x_hat = (x - mean) / sqrt(variance + eps). Mean and variance are those
    of each row of x over its D features; the variance divides by D.
    """
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    x_hat = (x - mean) / np.sqrt(var + eps)
    return gamma * x_hat + beta


def layer_norm_backward(x, gamma, eps, dy):
    """The gradients of y = gamma x_hat + beta, x_hat = (x - mean) / sqrt(variance + eps).

    x: (..., D).  gamma: (D,).  eps: a small number > 0.  dy: (..., D), dL/dy. Mean and variance are those of each row
    of x over its D features; the variance divides by D. The gradients do not depend on beta.
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


class LayerNorm:
    """y = gamma x_hat + beta, x_hat = (x - mean) / sqrt(variance + eps), a layer that can be used several times.

    Mean and variance are those of each row of x over its D features; the variance divides by D. backward belongs to the
    latest forward that has had no backward yet, and adds (+=) into gamma.grad and beta.grad, both (D,).
    """

    def __init__(self, gamma, beta, eps):
        self.gamma, self.beta, self.eps = Parameter(gamma), Parameter(beta), eps
        self.memory = []                        # what forward remembers: append there, pop in backward

    def forward(self, x):
        """x: (..., D).  Return y: (..., D)."""
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        std = np.sqrt(var + self.eps)
        x_hat = (x - mean) / std
        self.memory.append((x_hat, std))
        return self.gamma.data * x_hat + self.beta.data

    def backward(self, dy):
        """dy: (..., D), dL/dy.  Return dx: (..., D); add into gamma.grad and beta.grad."""
        x_hat, std = self.memory.pop()
        axes = tuple(range(dy.ndim - 1))
        self.gamma.grad += (dy * x_hat).sum(axes)
        self.beta.grad += dy.sum(axes)
        g = self.gamma.data * dy
        return (g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)) / std


def draw(rng, shape):
    """x far from mean 0 and variance 1, a gamma that is not 1, a beta, and dy."""
    x, dy, beta = (rng.standard_normal(size) for size in (shape, shape, shape[-1]))
    return 1 + 2 * x, rng.uniform(0.5, 2, shape[-1]), beta, dy


def chosen(pick):
    """inputs and edges of an exercise that takes `pick` of what draw makes."""
    def edges(rng):
        x, *others = draw(rng, (3, 6))
        x[1] = 0                                # a row without any deviation
        return [("as many rows as features", pick(*draw(rng, (6, 6)))), ("a row of zeros", pick(x, *others))]
    return {"inputs": lambda rng, n: pick(*draw(rng, (*n.lead, n.D))), "edges": edges}


def use_twice(rng, shape, longer):
    """The backwards come in reverse order."""
    x, gamma, beta, dy = draw(rng, shape)
    later, _, _, dlater = draw(rng, (shape[0] + longer, *shape[1:]))
    return (gamma, beta, EPS), (("forward", (x,)), ("forward", (later,)), ("backward", (dlater,)), ("backward", (dy,)))


def package_layer_norm(gamma, beta, eps):
    return loaded(PackageLayerNorm(len(gamma), eps), {"gamma": gamma, "beta": beta})


def by_layer_norm(x, gamma, eps, dy):
    layer = package_layer_norm(gamma, 0 * gamma, eps)
    layer(x)
    return layer.backward(dy), layer.gamma.grad, layer.beta.grad


MEAN_OF_G, COUPLING = " - g.mean(-1, keepdims=True)", " - x_hat * (g * x_hat).mean(-1, keepdims=True)"


def in_dx(names, gamma, std, word):
    """The mistakes of dx that both norms share, under these names; gamma and std are written so in the solution."""
    whole, term = "True)) / " + std, f"The term of the {word}"
    told = (
        ({COUPLING: ""},
         f"The path through the {word} is missing: it depends on x, too."),
        ({f"g = {gamma} * dy": "g = dy"},
         "gamma is missing in dx: dy goes back through it first. Nobody sees that while it is 1, as before training."),
        ({f"g = {gamma} * dy": "g = dy", whole: f"True)) * {gamma} / {std}"},
         "gamma stands outside of the mean: it belongs inside, since each feature has its own. Outside is right only "
         "while all entries of gamma are equal, as before training."),
        ({"(g * x_hat)": "(dy * x_hat)"},
         f"gamma is missing inside {term[:1].lower()}{term[1:]}: the mean goes over g * x_hat."),
        ({"x_hat).mean(": "x_hat).sum("},
         f"{term} has a sum where a mean belongs: divide it by the number of features D."),
        ({COUPLING: COUPLING.replace("- ", "- 2 * ")},
         f"{term} is twice too large: a square has the slope 2 x, but a root brings 1/2."),
        ({COUPLING: COUPLING.replace("- ", "- 0.5 * ")},
         f"{term} is half of what it should be: a root brings 1/2, but a square has the slope 2 x."),
        ({whole: "True))"},
         f"dx is not divided by the {word}, though x was."),
        ({whole: f"{whole} ** 2"},
         f"dx is divided by the {word} twice, though x was only once."),
        ({" - x_hat * (g": " + x_hat * (g"},
         f"{term} has the wrong sign: a larger {word} shrinks x_hat, so it is subtracted."),
    )
    return tuple(Mistake(name, *mistake) for name, mistake in zip(names, told))


STD = "standard deviation"
IN_DX = ("LN-3", "LN-4a", "LN-4b", "LN-4c", "LN-5b", "LN-6a", "LN-6b", "LN-7a", "LN-7b", "LN-10")
THROUGH_MEAN = (
    Mistake("LN-1", {MEAN_OF_G + COUPLING: ""},
            "Mean and standard deviation are taken for constants: both depend on x, so two terms are missing."),
    Mistake("LN-2", {MEAN_OF_G: ""},
            "The path through the mean is missing: a larger x raises the mean of its row, which lowers every x_hat "
            "there."),
    Mistake("LN-5a", {"g.mean(": "g.sum(", "x_hat).mean(": "x_hat).sum("},
            "In dx stand sums where means belong: divide both by the number of features D."),
    Mistake("LN-5c", {"g.mean(": "g.sum("},
            "The term of the mean has a sum where a mean belongs: divide it by the number of features D."),
    Mistake("LN-8a", {"g.mean(-1": "g.mean(-2", "x_hat).mean(-1": "x_hat).mean(-2"},
            "The means in dx go over the rows: each row was normalized by itself, so they go over its features."),
    Mistake("LN-8b", {"g.mean(-1, keepdims=True)": "g.mean()", "x_hat).mean(-1, keepdims=True)": "x_hat).mean()"},
            "The means in dx go over the whole array: each row was normalized by itself and has its own."),
)
STATISTICS = (
    Mistake("LN-14", {"x.var(-1, keep": "x.var(-1, ddof=1, keep"},
            "The variance is divided by D - 1: layer normalization divides by D, as np.var does by default."),
    Mistake("LN-15a", {"np.sqrt(var +": "(np.sqrt(var) +"},
            "eps stands outside the root, beside the standard deviation: it belongs under it, beside the variance. For "
            "rows that are almost constant that makes a great difference."),
)
KEEPDIMS = ("keepdims=True is missing: the means of the rows are laid along the features. Where there are as many rows "
            "as features, nothing complains.")
SUMMED = "gamma and beta are shared by all rows: their gradients are sums over every axis but the last."

EXERCISES = [
    Exercise(
        "08.1", "LayerNorm, forward", minutes=10, lines=4,
        solution=layer_norm, **chosen(lambda x, gamma, beta, dy: (x, gamma, beta, EPS)),
        reference=lambda x, gamma, beta, eps: package_layer_norm(gamma, beta, eps)(x),
        invariants=(("in each row the mean of (y - beta) / gamma must be 0",
                     lambda inputs, outputs: ((outputs[0] - inputs[2]) / inputs[1]).mean(-1)),),
        hints=("What does one row need to know of the other rows?",
               "Mean and variance of each row go over the last axis; keepdims=True keeps them as a column beside x.",
               "With mean = x.mean(-1, keepdims=True) and var = x.var(-1, keepdims=True): subtract, divide by "
               "np.sqrt(var + eps), then times gamma, plus beta."),
        mistakes=(
            *STATISTICS,
            Mistake("LN-15b", {"np.sqrt(var + eps)": "np.sqrt(var)"},
                    "eps is missing: a row of equal numbers has variance 0, and 0 / 0 is NaN."),
            Mistake("LN-16a", {"np.sqrt(var + eps)": "(var + eps)"},
                    "The rows are divided by their variance: the root is missing."),
            Mistake("LN-16b", {"mean(-1": "mean(0", "var(-1": "var(0"},
                    "Mean and variance go over the first axis, as in batch normalization: here each row has its own."),
            Mistake("LN-16c", {"mean(-1": "mean((-2, -1)", "var(-1": "var((-2, -1)"},
                    "Mean and variance go over the last two axes at once, so a token depends on its neighbors: each "
                    "row has its own."),
            Mistake("LN-16d", {"(x - mean) / np": "x / np"}, "The mean is not subtracted."),
            Mistake("LN-16e", {"x.mean(-1, keepdims=True)": "x.mean()", "x.var(-1, keepdims=True)": "x.var()"},
                    "There is one mean and one variance for the whole array: each row has its own."),
            Mistake("LN-16f", {"mean(-1": "mean(-2", "var(-1": "var(-2"},
                    "Mean and variance go over the rows: they belong to the features of each row."),
            Mistake("LN-16g", {"x.var(": "(x ** 2).mean("},
                    "The mean of x^2 is the variance only of rows whose mean is 0: subtract the mean before you "
                    "square."),
            Mistake("LN-16h", {"x.var(": "x.std("},
                    "The root is taken twice: std is a root already, and eps belongs to the variance."),
            Mistake("LN-17a", {"gamma * x_hat + beta": "gamma * (x_hat + beta)"},
                    "beta is multiplied by gamma, too: add it after the product."),
            Mistake("LN-17b", {"gamma * x_hat": "(1 + gamma) * x_hat"},
                    "The factor is 1 + gamma: here it is gamma itself."),
            Mistake("LN-17c", {"gamma * x_hat + beta": "x_hat"},
                    "gamma and beta are missing: they choose a new scale and a new place for each feature."),
            Mistake("LN-17d", {"gamma * x_hat": "x_hat"},
                    "gamma is missing. Before training it is 1, and nobody sees that."),
            Mistake("LN-17e", {"gamma * x_hat + beta": "gamma * x_hat"},
                    "beta is missing. Before training it is 0, and nobody sees that."),
            Mistake("LN-17f", {"gamma * x_hat + beta": "beta * x_hat + gamma"},
                    "gamma and beta have changed places: gamma scales, beta shifts."),
            Mistake("LN-16i", {"x.var(-1, keepdims=True)": "((x - mean) ** 2).sum(-1, keepdims=True)"},
                    "The variance is the mean of the squares, and yours is their sum: divide it by D."),
            Mistake("LN-18", {"x_hat = (x - mean) / np": "x -= mean\n    x_hat = x / np"},
                    "x -= changes the caller's array: make a new one."),
            Mistake("LN-19", {"mean(-1, keepdims=True)": "mean(-1)", "var(-1, keepdims=True)": "var(-1)"}, KEEPDIMS),
        ),
        alternatives={
            "variance from squares": {"x.var(-1, keepdims=True)": "(x ** 2).mean(-1, keepdims=True) - mean ** 2"},
            "by einsum": {"x.var(-1, keepdims=True)":
                          "np.einsum('...i,...i->...', x - mean, x - mean)[..., None] / x.shape[-1]"}}),
    Exercise(
        "08.2", "LayerNorm, backward", minutes=30, lines=9,
        solution=layer_norm_backward, reference=by_layer_norm, outputs=("dx", "dgamma", "dbeta"),
        **chosen(lambda x, gamma, beta, dy: (x, gamma, EPS, dy)),
        invariants=(("rows of dx must sum to 0", lambda inputs, outputs: outputs[0].sum(-1)),),
        hints=("x reaches y on three paths: itself, through the mean, through the standard deviation. How many has "
               "your dx? And how many rows share gamma and beta?",
               "Let g = gamma dy. To add one number to a whole row does not change y, and to stretch a row does not "
               "either, but for eps. So dx is g without its mean and without its part along x_hat, divided by the "
               "standard deviation.",
               "dx = (g - mean(g) - x_hat * mean(g * x_hat)) / std, means over the last axis with keepdims; dgamma and "
               "dbeta are dy * x_hat and dy, summed over all axes but the last."),
        mistakes=(
            *THROUGH_MEAN, *in_dx(IN_DX, "gamma", "std", STD), *STATISTICS,
            Mistake("LN-9a", {"x_hat * (g * x_hat)": "x * (g * x)"},
                    "In the last term of dx stands x where the normalized x_hat belongs."),
            Mistake("LN-9b", {"x_hat * (g * x_hat)": "(x - mean) * (g * (x - mean))"},
                    "In the last term of dx, x - mean is not divided by the standard deviation: x_hat belongs there."),
            Mistake("LN-11a", {"(dy * x_hat).sum": "dy.sum"},
                    "dgamma is the same as dbeta. But gamma was not added, it was multiplied by something, and that "
                    "belongs into its gradient."),
            Mistake("LN-11b", {"(dy * x_hat).sum": "(dy * x).sum"},
                    "dgamma is made with x: gamma was multiplied by the normalized x_hat."),
            Mistake("LN-11d", {"(dy * x_hat).sum": "(g * x_hat).sum"},
                    "dgamma contains gamma: y is linear in gamma, so its gradient does not."),
            Mistake("LN-12a", {"x_hat).sum(axes)": "x_hat).mean(axes)", "dy.sum(axes)": "dy.mean(axes)"},
                    "dgamma and dbeta are sums over the rows, not means: an average already stands in the loss, if "
                    "there is one."),
            Mistake("LN-12b", {"tuple(range(x.ndim - 1))": "0"}, SUMMED + " Here it is the first axis alone."),
            Mistake("LN-12c", {"tuple(range(x.ndim - 1))": "-1"}, SUMMED + " Here it is the last axis."),
            Mistake("LN-12d", {"x_hat).sum(axes)": "x_hat)", "dy.sum(axes)": "dy"},
                    SUMMED + " Here nothing is summed."),
            Mistake("LN-13", {"dgamma, dbeta\n": "dbeta, dgamma\n"},
                    "dgamma and dbeta are returned in the wrong order."),
            Mistake("LN-19", {"g.mean(-1, keepdims=True)": "g.mean(-1)",
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
    Exercise(
        "08.3", "LayerNorm, a class", minutes=20, lines=11,
        solution=LayerNorm, write=("forward", "backward"), given=(Parameter,),
        inputs=lambda rng, n: use_twice(rng, (*n.lead, n.D), 1),
        edges=lambda rng: [("two uses of one length", use_twice(rng, (3, 6), 0))],
        reference=package_layer_norm, outputs=("y", "second y", "second dx", "dx", "gamma.grad", "beta.grad"),
        invariants=(("rows of dx must sum to 0", lambda inputs, outputs: outputs[3].sum(-1)),),
        hints=("What does backward need that forward has computed? Used twice, the layer keeps both.",
               "x_hat and the standard deviation are enough, as a tuple in memory; backward takes the latest. Both "
               "gradients are added to what other uses have left there.",
               "forward: append (x_hat, std). backward: pop them, then as in layer_norm_backward, with self.gamma.data "
               "as gamma; dgamma and dbeta go by += into self.gamma.grad and self.beta.grad."),
        mistakes=(
            *THROUGH_MEAN, *in_dx(IN_DX, "self.gamma.data", "std", STD), *STATISTICS,
            Mistake("LN-9", {"append((x_hat, std))": "append((x, std))"},
                    "x is remembered and used where the normalized x_hat belongs."),
            Mistake("LN-11c", {"append((x_hat, std))": "append((x_hat, std, self.gamma.data * x_hat + self.beta.data))",
                               "x_hat, std = self.memory.pop()": "x_hat, std, y = self.memory.pop()",
                               "(dy * x_hat).sum": "(dy * y).sum"},
                    "gamma.grad is made with y: gamma was multiplied by the normalized x_hat, before beta was added."),
            Mistake("LN-13", {"self.gamma.grad +=": "self.beta.grad +=", "self.beta.grad +=": "self.gamma.grad +="},
                    "gamma.grad and beta.grad have changed places."),
            Mistake("LN-20a", {"self.gamma.grad +=": "self.gamma.grad =", "self.beta.grad +=": "self.beta.grad ="},
                    "The second use overwrites the first one's gradients: add with +=."),
            Mistake("LN-20b", {"self.memory.append((x_hat, std))": "self.memory = [(x_hat, std)]"},
                    "memory has room for one forward only: a layer used twice needs both.", twin="LN-20f"),
            Mistake("LN-20f", {"self.memory.append((x_hat, std))": "pass"},
                    "forward remembers nothing, so backward has nothing to take.", twin="LN-20b"),
            Mistake("LN-20c", {"self.memory.pop()": "self.memory.pop(0)"},
                    "backward takes the oldest forward: it belongs to the latest one that has had no backward yet."),
            Mistake("LN-20e", {"self.memory.pop()": "self.memory[-1]"},
                    "Both backwards use what the latest forward has left: there is one place for it, or it is never "
                    "removed. Two uses need two places, and what has been answered has to go."),
            Mistake("LN-17e", {" + self.beta.data": ""},
                    "forward leaves out beta. Before training it is 0, and nobody sees that."),
            Mistake("LN-20d", {"return self.gamma.data * x_hat + self.beta.data": "x_hat *= self.gamma.data\n"
                               "        x_hat += self.beta.data\n        return x_hat"},
                    "x_hat is changed in place after it was remembered: the array in memory is the same one, so "
                    "backward finds y there."),
        ),
        alternatives={"remembers x alone": {
            "append((x_hat, std))": "append(x)",
            "x_hat, std = self.memory.pop()": "x = self.memory.pop()\n"
            "        std = np.sqrt(x.var(-1, keepdims=True) + self.eps)\n"
            "        x_hat = (x - x.mean(-1, keepdims=True)) / std"}}),
]
