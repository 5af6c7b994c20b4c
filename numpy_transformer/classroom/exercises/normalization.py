"""LayerNorm: forward, backward, and as a class."""

import numpy as np

from ...layers import LayerNorm as PackageLayerNorm
from ..exercise import Exercise, Mistake
from .given import Parameter, loaded

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


class LayerNorm:
    """Layer normalization, a layer that can be used several times before its first backward pass.

    y = gamma x_hat + beta with x_hat = (x - mean) / sqrt(variance + eps). Each row of x has its own mean and variance
    over its D features; the variance divides by D. Each backward pass belongs to the latest forward pass that has not
    had one yet, and adds (+=) into gamma.grad and beta.grad, both (D,).
    """

    def __init__(self, gamma, beta, eps):
        self.gamma = Parameter(gamma)
        self.beta = Parameter(beta)
        self.eps = eps
        self.saved = []                         # values that forward saves for backward: append there, pop in backward

    def forward(self, x):
        """x: (..., D).  Return y: (..., D)."""
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        std = np.sqrt(var + self.eps)
        x_hat = (x - mean) / std
        self.saved.append((x_hat, std))
        return self.gamma.data * x_hat + self.beta.data

    def backward(self, dy):
        """dy: (..., D), dL/dy.  Return dx: (..., D); add into gamma.grad and beta.grad."""
        x_hat, std = self.saved.pop()
        axes = tuple(range(dy.ndim - 1))
        self.gamma.grad += (dy * x_hat).sum(axes)
        self.beta.grad += dy.sum(axes)
        g = self.gamma.data * dy
        return (g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)) / std


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


def use_twice(rng, shape, longer):
    """Two uses of the layer, with the backward calls in reverse order."""
    x, gamma, beta, eps, dy = draw(rng, shape)
    later, *_, dlater = draw(rng, (shape[0] + longer, *shape[1:]))
    return (gamma, beta, eps), (("forward", (x,)), ("forward", (later,)), ("backward", (dlater,)), ("backward", (dy,)))


def package_layer_norm(gamma, beta, eps):
    return loaded(PackageLayerNorm(len(gamma), eps), {"gamma": gamma, "beta": beta})


def by_layer_norm(x, gamma, eps, dy):
    layer = package_layer_norm(gamma, 0 * gamma, eps)
    layer(x)
    return layer.backward(dy), layer.gamma.grad, layer.beta.grad


MEAN_OF_G = " - g.mean(-1, keepdims=True)"
COUPLING = " - x_hat * (g * x_hat).mean(-1, keepdims=True)"


def in_dx(names, gamma, std, word):
    """Returns the mistakes in dx that both norms share.

    Parameters:
        names : names of the mistakes, in this order
        gamma, std : how the solution writes gamma and the divisor
        word : what the divisor is called, such as "standard deviation"
    """
    whole = "True)) / " + std
    term = f"The term of the {word} in your dx"
    explained = (
        ({COUPLING: ""},
         f"Your dx lacks the path through the {word}, which depends on x too."),
        ({f"g = {gamma} * dy": "g = dy"},
         "gamma is missing in your dx: dy must first be multiplied by gamma. The initial value of gamma is 1, so this "
         "mistake has no effect before training."),
        ({f"g = {gamma} * dy": "g = dy", whole: f"True)) * {gamma} / {std}"},
         "You multiply by gamma outside the mean. It belongs inside, because each feature has its own gamma. Outside "
         "is correct only while all entries of gamma are equal, as before training."),
        ({"(g * x_hat)": "(dy * x_hat)"},
         f"{term} lacks gamma. Its mean is over g * x_hat."),
        ({"x_hat).mean(": "x_hat).sum("},
         f"{term} contains a sum where a mean belongs. Divide it by the number of features D."),
        ({COUPLING: COUPLING.replace("- ", "- 2 * ")},
         f"{term} is twice as large as it should be. The derivative of a square is 2 x, but the root "
         "contributes a factor 1/2."),
        ({COUPLING: COUPLING.replace("- ", "- 0.5 * ")},
         f"{term} is half as large as it should be. The root contributes a factor 1/2, but the derivative of "
         "a square is 2 x."),
        ({whole: "True))"},
         f"You do not divide dx by the {word}, although forward divides x by it."),
        ({whole: f"{whole} ** 2"},
         f"You divide dx by the {word} twice, although forward divides x by it once."),
        ({" - x_hat * (g": " + x_hat * (g"},
         f"{term} has the wrong sign. A larger {word} makes x_hat smaller, so the term is subtracted."),
    )
    return tuple(Mistake(name, *mistake) for name, mistake in zip(names, explained))


STD = "standard deviation"
IN_DX = ("LN-3", "LN-4a", "LN-4b", "LN-4c", "LN-5b", "LN-6a", "LN-6b", "LN-7a", "LN-7b", "LN-10")
THROUGH_MEAN = (
    Mistake("LN-1", {MEAN_OF_G + COUPLING: ""},
            "You treat the mean and the standard deviation as constants. Both depend on x, so two terms are missing."),
    Mistake("LN-2", {MEAN_OF_G: ""},
            "Your dx lacks the path through the mean. A larger x raises the mean of its row, which lowers every x_hat "
            "of the row."),
    Mistake("LN-5a", {"g.mean(": "g.sum(", "x_hat).mean(": "x_hat).sum("},
            "Your dx contains sums where means belong. Divide both by the number of features D."),
    Mistake("LN-5c", {"g.mean(": "g.sum("},
            "The term of the mean in your dx contains a sum where a mean belongs. Divide it by the number of features "
            "D."),
    Mistake("LN-8a", {"g.mean(-1": "g.mean(-2", "x_hat).mean(-1": "x_hat).mean(-2"},
            "The means in your dx run over the rows. Each row was normalized separately, so they must run over its "
            "features."),
    Mistake("LN-8b", {"g.mean(-1, keepdims=True)": "g.mean()", "x_hat).mean(-1, keepdims=True)": "x_hat).mean()"},
            "The means in your dx run over the whole array. Each row was normalized separately, so it has its own "
            "means."),
)
STATISTICS = (
    Mistake("LN-14", {"x.var(-1, keep": "x.var(-1, ddof=1, keep"},
            "Your variance divides by D - 1. Layer normalization divides by D, as np.var does by default."),
    Mistake("LN-15a", {"np.sqrt(var +": "(np.sqrt(var) +"},
            "You add eps to the standard deviation, after the root. It must be added to the variance, under the root. "
            "For rows that are almost constant, the difference is large."),
)
KEEPDIMS = ("keepdims=True is missing, so NumPy aligns the means of the rows with the features. If there are as many "
            "rows as features, this causes no error.")
SUMMED = "All rows share gamma and beta, so their gradients are sums over every axis except the last."

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
            *STATISTICS,
            Mistake("LN-15b", {"np.sqrt(var + eps)": "np.sqrt(var)"},
                    "eps is missing. A row of equal numbers has variance 0, and 0 / 0 is NaN."),
            Mistake("LN-16a", {"np.sqrt(var + eps)": "(var + eps)"},
                    "You divide the rows by their variance. The root is missing."),
            Mistake("LN-16b", {"mean(-1": "mean(0", "var(-1": "var(0"},
                    "You compute mean and variance over the first axis, as in batch normalization. Here each row has "
                    "its own."),
            Mistake("LN-16c", {"mean(-1": "mean((-2, -1)", "var(-1": "var((-2, -1)"},
                    "You compute mean and variance over the last two axes at once, so a token depends on its "
                    "neighbors. Each row has its own mean and variance."),
            Mistake("LN-16d", {"(x - mean) / np": "x / np"}, "Your code does not subtract the mean."),
            Mistake("LN-16e", {"x.mean(-1, keepdims=True)": "x.mean()", "x.var(-1, keepdims=True)": "x.var()"},
                    "You compute one mean and one variance for the whole array. Each row has its own."),
            Mistake("LN-16f", {"mean(-1": "mean(-2", "var(-1": "var(-2"},
                    "You compute mean and variance over the rows. Each row has its own, over its features."),
            Mistake("LN-16g", {"x.var(": "(x ** 2).mean("},
                    "The mean of x^2 equals the variance only for rows whose mean is 0. Subtract the mean before "
                    "squaring."),
            Mistake("LN-16h", {"x.var(": "x.std("},
                    "You take the root twice. std is already a root, and eps belongs to the variance."),
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
            Mistake("LN-16i", {"x.var(-1, keepdims=True)": "((x - mean) ** 2).sum(-1, keepdims=True)"},
                    "Your variance is the sum of the squares. It must be their mean, so divide by D."),
            Mistake("LN-18", {"x_hat = (x - mean) / np": "x -= mean\n    x_hat = x / np"},
                    "x -= ... changes the caller's array. Compute the difference into a new array."),
            Mistake("LN-19", {"mean(-1, keepdims=True)": "mean(-1)", "var(-1, keepdims=True)": "var(-1)"}, KEEPDIMS),
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
            *THROUGH_MEAN, *in_dx(IN_DX, "gamma", "std", STD), *STATISTICS,
            Mistake("LN-9a", {"x_hat * (g * x_hat)": "x * (g * x)"},
                    "The last term of your dx uses x where the normalized x_hat belongs."),
            Mistake("LN-9b", {"x_hat * (g * x_hat)": "(x - mean) * (g * (x - mean))"},
                    "The last term of your dx uses x - mean, which is not divided by the standard deviation. It must "
                    "use x_hat."),
            Mistake("LN-11a", {"(dy * x_hat).sum": "dy.sum"},
                    "Your dgamma is the same as dbeta. But gamma was multiplied by something, and its gradient must "
                    "contain that factor."),
            Mistake("LN-11b", {"(dy * x_hat).sum": "(dy * x).sum"},
                    "You compute dgamma from x. gamma was multiplied by the normalized x_hat."),
            Mistake("LN-11d", {"(dy * x_hat).sum": "(g * x_hat).sum"},
                    "Your dgamma contains gamma. y is linear in gamma, so its gradient does not contain gamma."),
            Mistake("LN-12a", {"x_hat).sum(axes)": "x_hat).mean(axes)", "dy.sum(axes)": "dy.mean(axes)"},
                    "Your dgamma and dbeta are means over the rows. They must be sums. If the loss is a mean, dy "
                    "already contains that factor."),
            Mistake("LN-12b", {"tuple(range(x.ndim - 1))": "0"}, SUMMED + " You sum over the first axis only."),
            Mistake("LN-12c", {"tuple(range(x.ndim - 1))": "-1"}, SUMMED + " You sum over the last axis."),
            Mistake("LN-12d", {"x_hat).sum(axes)": "x_hat)", "dy.sum(axes)": "dy"},
                    SUMMED + " You do not sum at all."),
            Mistake("LN-13", {"dgamma, dbeta\n": "dbeta, dgamma\n"},
                    "You return dgamma and dbeta in the wrong order."),
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
        edges=lambda rng: [("two uses of the same length", use_twice(rng, (3, 6), 0))],
        reference=package_layer_norm, outputs=("y", "second y", "second dx", "dx", "gamma.grad", "beta.grad"),
        invariants=(("rows of dx must sum to 0", lambda inputs, outputs: outputs[3].sum(-1)),),
        hints=("Which values that forward computes does backward need? If the layer is used twice, it must keep those "
               "of both uses.",
               "x_hat and the standard deviation are enough; save them as a tuple. backward takes the latest tuple, "
               "and adds its gradients to those of other uses.",
               "forward appends (x_hat, std). backward pops them and continues as in layer_norm_backward (exercise "
               "08.2), with self.gamma.data as gamma. Add dgamma into self.gamma.grad and dbeta into self.beta.grad "
               "with +=."),
        mistakes=(
            *THROUGH_MEAN, *in_dx(IN_DX, "self.gamma.data", "std", STD), *STATISTICS,
            Mistake("LN-9", {"append((x_hat, std))": "append((x, std))"},
                    "You save x and use it where the normalized x_hat belongs."),
            Mistake("LN-11c", {"append((x_hat, std))": "append((x_hat, std, self.gamma.data * x_hat + self.beta.data))",
                               "x_hat, std = self.saved.pop()": "x_hat, std, y = self.saved.pop()",
                               "(dy * x_hat).sum": "(dy * y).sum"},
                    "You compute gamma.grad from y. gamma was multiplied by the normalized x_hat, before beta was "
                    "added."),
            Mistake("LN-13", {"self.gamma.grad +=": "self.beta.grad +=", "self.beta.grad +=": "self.gamma.grad +="},
                    "You have swapped gamma.grad and beta.grad."),
            Mistake("LN-20a", {"self.gamma.grad +=": "self.gamma.grad =", "self.beta.grad +=": "self.beta.grad ="},
                    "Your second backward pass overwrites the gradients of the first. Add with +=."),
            Mistake("LN-20b", {"self.saved.append((x_hat, std))": "self.saved = [(x_hat, std)]"},
                    "Your layer keeps the values of one forward pass only. A layer that is used twice needs those of "
                    "both.",
                    twin="LN-20f"),
            Mistake("LN-20f", {"self.saved.append((x_hat, std))": "pass"},
                    "Your forward saves nothing, so backward has no values to use.", twin="LN-20b"),
            Mistake("LN-20c", {"self.saved.pop()": "self.saved.pop(0)"},
                    "Your backward uses the values of the oldest forward pass. It belongs to the latest one that has "
                    "not had a backward pass yet."),
            Mistake("LN-20e", {"self.saved.pop()": "self.saved[-1]"},
                    "Both backward passes use the values of the latest forward pass. Either your layer has room for "
                    "one forward pass only, or backward never removes the values. Save them in each forward pass, and "
                    "remove them in the backward pass that uses them."),
            Mistake("LN-17e", {" + self.beta.data": ""},
                    "Your forward leaves out beta. Its initial value is 0, so this mistake has no effect before "
                    "training."),
            Mistake("LN-20d", {"return self.gamma.data * x_hat + self.beta.data": "x_hat *= self.gamma.data\n"
                               "        x_hat += self.beta.data\n        return x_hat"},
                    "You change x_hat in place after saving it. The saved array is the same one, so backward finds y "
                    "there."),
        ),
        alternatives={"saves only x": {
            "append((x_hat, std))": "append(x)",
            "x_hat, std = self.saved.pop()": "x = self.saved.pop()\n"
            "        std = np.sqrt(x.var(-1, keepdims=True) + self.eps)\n"
            "        x_hat = (x - x.mean(-1, keepdims=True)) / std"}}),
]
