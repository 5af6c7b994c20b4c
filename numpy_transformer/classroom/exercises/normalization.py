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


KEEPDIMS = ("keepdims=True is missing, so NumPy aligns the means of the rows with the features. If there are as many "
            "rows as features, this causes no error.")
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
         f"{term} lacks gamma. Inside its mean, dy must be multiplied by gamma, too."),
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
        ({" - x_hat * (g": " - (g"},
         f"{term} is the same for all features of a row. Its mean must be multiplied by x_hat, because a feature far "
         f"from the others affects the {word} most."),
        ({"(g * x_hat).mean(": "g.mean("},
         f"{term} lacks x_hat inside its mean. The {word} affects each y through its x_hat."),
        ({COUPLING: f"{COUPLING} * {std}"},
         f"{term} has the wrong power of the {word}. The derivative of 1 / sqrt(v) is -1/2 v^(-3/2)."),
        ({COUPLING: f"{COUPLING} / {std}"},
         f"{term} is divided by the {word} once too often."),
        ({whole: f"True)) * {std}"},
         f"You multiply dx by the {word}. forward divides x by it, and so does backward."),
        ({"(g - ": "g - ", whole: f"True) / {std}"},
         f"Only the last term of your dx is divided by the {word}. Parentheses are missing: the whole difference is "
         "divided."),
        ({whole: f"True)) * {gamma} / {std}"},
         "Your dx is multiplied by gamma twice, inside the means and once more outside. Inside is enough."),
        ({f"g = {gamma} * dy": f"g = dy / {gamma}"},
         "You divide dy by gamma. forward multiplies by gamma, and backward does too: it is the slope."),
        ({f"g = {gamma} * dy": f"dy *= {gamma}; g = dy"},
         "dy *= ... changes the caller's array. Make a new array."),
    )
    return tuple(Mistake(name, *mistake) for name, mistake in zip(names, explained))


STD = "standard deviation"
IN_DX = ("LN-3", "LN-4a", "LN-4b", "LN-4c", "LN-5b", "LN-6a", "LN-6b", "LN-7a", "LN-7b", "LN-10",
         "LN-3a", "LN-3b", "LN-6c", "LN-6d", "LN-7c", "LN-7d", "LN-4d", "LN-4e", "LN-4f")
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
    Mistake("LN-8c", {"g.mean(-1": "g.mean(0", "x_hat).mean(-1": "x_hat).mean(0"},
            "The means in your dx run over the first axis. Each row was normalized separately, so they must run over "
            "its features."),
    Mistake("LN-10a", {" - g.mean(": " + g.mean("},
            "The term of the mean in your dx has the wrong sign. A larger mean makes every x_hat of the row smaller, "
            "so the term is subtracted."),
    Mistake("LN-5d", {"g.mean(-1, keepdims=True)": "g.sum(-1, keepdims=True) / len(dy)",
                      "(g * x_hat).mean(-1, keepdims=True)": "(g * x_hat).sum(-1, keepdims=True) / len(dy)"},
            "You divide the sums in your dx by the length of the first axis. They run over the features, so divide by "
            "the number of features D."),
    Mistake("LN-5e", {"True)) / std": "True)) / std * dy.shape[-1]"},
            "Your dx is D times too large. In the form with sums, D dy - sum(dy) - ..., the whole must be divided by "
            "D as well."),
    Mistake("LN-4g", {" - g.mean(": " - dy.mean("},
            "The term of the mean in your dx lacks gamma. Inside its mean, dy must be multiplied by gamma, too."),
    Mistake("LN-19a", {"g.mean(-1, keepdims=True)": "g.mean(-1)"},
            "keepdims=True is missing in the first mean of your dx, so NumPy aligns the means of the rows with the "
            "features. If there are as many rows as features, this causes no error."),
    Mistake("LN-19b", {"x_hat).mean(-1, keepdims=True)": "x_hat).mean(-1)"},
            "keepdims=True is missing in the second mean of your dx, so NumPy aligns the means of the rows with the "
            "features. If there are as many rows as features, this causes no error."),
)
MEAN_X, VAR_X = "x.mean(-1, keepdims=True)", "x.var(-1, keepdims=True)"


def in_statistics(eps, divisor):
    """Returns the mistakes in mean, variance and x_hat.

    Parameters:
        eps : how the solution writes eps
        divisor : what follows (x - mean) / in the solution
    """
    quotient = f"(x - mean) / {divisor}"
    own = " Each row has its own mean and variance."
    return (
        Mistake("LN-14", {"x.var(-1, keep": "x.var(-1, ddof=1, keep"},
                "Your variance divides by D - 1. Layer normalization divides by D, as np.var does by default."),
        Mistake("LN-15a", {"np.sqrt(var +": "(np.sqrt(var) +"},
                "You add eps to the standard deviation, after the root. It must be added to the variance, under the "
                "root. For rows that are almost constant, the difference is large."),
        Mistake("LN-15b", {f"np.sqrt(var + {eps})": "np.sqrt(var)"},
                "eps is missing. A row of equal numbers has variance 0, and 0 / 0 is NaN."),
        Mistake("LN-15c", {f"var + {eps}": "var + 1e-5"},
                "Your eps is always 1e-5. It is a number that the caller chooses."),
        Mistake("LN-15d", {f"var + {eps}": f"var + {eps} ** 2"},
                "You square eps. It is added to the variance as it is."),
        Mistake("LN-16a", {f"np.sqrt(var + {eps})": f"(var + {eps})"},
                "You divide the rows by their variance. The root is missing."),
        Mistake("LN-16b", {"x.mean(-1": "x.mean(0", "x.var(-1": "x.var(0"},
                "You compute mean and variance over the first axis." + own),
        Mistake("LN-16c", {"x.mean(-1": "x.mean((-2, -1)", "x.var(-1": "x.var((-2, -1)"},
                "You compute mean and variance over the last two axes at once, so a token depends on its neighbors."
                + own),
        Mistake("LN-16d", {quotient: f"x / {divisor}"}, "Your code does not subtract the mean."),
        Mistake("LN-16e", {MEAN_X: "x.mean()", VAR_X: "x.var()"},
                "You compute one mean and one variance for the whole array." + own),
        Mistake("LN-16f", {"x.mean(-1": "x.mean(-2", "x.var(-1": "x.var(-2"},
                "You compute mean and variance over the rows. Each row has its own, over its features."),
        Mistake("LN-16g", {"x.var(": "(x ** 2).mean("},
                "The mean of x^2 equals the variance only for rows whose mean is 0. Subtract the mean before "
                "squaring."),
        Mistake("LN-16h", {"x.var(": "x.std("},
                "You take the root twice. np.std is already a root, and eps belongs to the variance."),
        Mistake("LN-16i", {VAR_X: "((x - mean) ** 2).sum(-1, keepdims=True)"},
                "Your variance is the sum of the squares. It must be their mean, so divide by D."),
        Mistake("LN-16j", {quotient: f"(x + mean) / {divisor}"},
                "You add the mean. It must be subtracted, so that each row has mean 0."),
        Mistake("LN-16k", {quotient: f"(mean - x) / {divisor}"},
                "You subtract x from the mean, so that x_hat has the wrong sign."),
        Mistake("LN-16l", {"x.mean(-1": "x.mean(tuple(range(1, x.ndim))", "x.var(-1": "x.var(tuple(range(1, x.ndim))"},
                "You compute mean and variance over all axes except the first, so a token depends on its neighbors."
                + own),
        Mistake("LN-16m", {"x.mean(-1": "x.mean(tuple(range(x.ndim - 1))",
                           "x.var(-1": "x.var(tuple(range(x.ndim - 1))"},
                "You compute mean and variance of each feature over all rows, as in batch normalization." + own),
        Mistake("LN-16n", {MEAN_X: "x.sum(-1, keepdims=True) / len(x)",
                           VAR_X: "((x - x.sum(-1, keepdims=True) / len(x)) ** 2).sum(-1, keepdims=True) / len(x)"},
                "You divide the sums over the features by the length of the first axis, len(x). Divide by the number "
                "of features D."),
        Mistake("LN-16o", {VAR_X: f"((x - {MEAN_X}) ** 2).sum(-1, keepdims=True) / len(x)"},
                "Your variance divides by the length of the first axis, len(x). Divide by the number of features D."),
        Mistake("LN-16p", {MEAN_X: "x.mean()"},
                "You subtract the mean of the whole array. Each row has its own mean."),
        Mistake("LN-16q", {VAR_X: "x.var()"},
                "You use the variance of the whole array. Each row has its own variance."),
        Mistake("LN-16r", {VAR_X: f"(x ** 2).mean(-1, keepdims=True) - {MEAN_X}"},
                "The variance is the mean of the squares minus the square of the mean. Your mean is not squared."),
        Mistake("LN-16s", {VAR_X: f"abs(x - {MEAN_X}).mean(-1, keepdims=True)"},
                "You use the mean distance from the mean. The variance is the mean of its square."),
        Mistake("LN-16t", {"x.mean(-1": "x.mean(1", "x.var(-1": "x.var(1"},
                "You compute mean and variance over axis 1. These are the features only if x has two axes; the last "
                "axis is -1."),
        Mistake("LN-19c", {MEAN_X: "x.mean(-1)", VAR_X: "x.var(-1)"}, KEEPDIMS),
        Mistake("LN-19d", {VAR_X: "x.var(-1)"},
                "keepdims=True is missing in the variance, so NumPy aligns the variances of the rows with the "
                "features. If there are as many rows as features, this causes no error."),
        Mistake("LN-19e", {MEAN_X: "x.mean(-1)"},
                "keepdims=True is missing in the mean, so NumPy aligns the means of the rows with the features. If "
                "there are as many rows as features, this causes no error."),
    )


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
            *in_statistics("eps", "np"),
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
            Mistake("LN-7c", {"(x - mean) / np": "(x - mean) * np"},
                    "You multiply by the standard deviation. Divide by it, so that the variance becomes 1."),
            Mistake("LN-7d", {"(x - mean) / np": "x - mean / np"},
                    "You divide only the mean by the standard deviation. Parentheses are missing around x - mean."),
            Mistake("ERR-2", {"np.sqrt(": "math.sqrt("},
                    "The functions of math take a single number. For arrays use NumPy's."),
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
                    "The last term of your dx uses x - mean, which is not divided by the standard deviation. It must "
                    "use x_hat."),
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
        edges=lambda rng: [("two uses of the same length", use_twice(rng, (3, 6), 0)),
                           ("as many rows as features", use_twice(rng, (6, 6), 0))],
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
            *THROUGH_MEAN, *in_dx(IN_DX, "self.gamma.data", "std", STD), *in_statistics("self.eps", "std"),
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
            Mistake("LN-20h", {"self.gamma.grad +=": "self.gamma.grad ="},
                    "gamma.grad holds the gradient of the last backward only, because each call overwrites it. Add "
                    "with +=."),
            Mistake("LN-20i", {"self.beta.grad +=": "self.beta.grad ="},
                    "beta.grad holds the gradient of the last backward only, because each call overwrites it. Add "
                    "with +=."),
            Mistake("LN-11a", {"(dy * x_hat).sum": "dy.sum"},
                    "Your gamma.grad is the same as beta.grad. But gamma was multiplied by x_hat, and its gradient "
                    "must contain that factor."),
            Mistake("LN-11b", {"append((x_hat, std))": "append((x_hat, std, x))",
                               "x_hat, std = self.saved.pop()": "x_hat, std, x = self.saved.pop()",
                               "(dy * x_hat).sum": "(dy * x).sum"},
                    "You compute gamma.grad from x. gamma was multiplied by the normalized x_hat."),
            Mistake("LN-11d", {"(dy * x_hat).sum": "(self.gamma.data * dy * x_hat).sum"},
                    "Your gamma.grad contains gamma. y is linear in gamma, so its gradient does not contain gamma."),
            Mistake("LN-12a", {"x_hat).sum(axes)": "x_hat).mean(axes)", "dy.sum(axes)": "dy.mean(axes)"},
                    "Your gradients of gamma and beta are means over the rows. They must be sums. If the loss is a "
                    "mean, dy already contains that factor."),
            Mistake("LN-12b", {"tuple(range(dy.ndim - 1))": "0"}, SUMMED + " You sum over the first axis only."),
            Mistake("LN-12c", {"tuple(range(dy.ndim - 1))": "-1"}, SUMMED + " You sum over the last axis."),
            Mistake("LN-12g", {"x_hat).sum(axes)": "x_hat).sum()", "dy.sum(axes)": "dy.sum()"},
                    SUMMED + " You sum over the last axis too, so only one number is left."),
            Mistake("LN-12h", {"tuple(range(dy.ndim - 1))": "-2"},
                    SUMMED + " You sum over the axis before the last one only."),
            Mistake("LN-12i", {"tuple(range(dy.ndim - 1))": "(0, 1)"},
                    SUMMED + " You sum over axes 0 and 1, which is right only if x has three axes."),
            Mistake("LN-17a", {"self.gamma.data * x_hat + self.beta.data":
                               "self.gamma.data * (x_hat + self.beta.data)"},
                    "Your forward multiplies beta by gamma too. Add beta after the product."),
            Mistake("LN-17c", {"self.gamma.data * x_hat + self.beta.data": "x_hat"},
                    "Your forward leaves out gamma and beta, so this mistake has no effect before training."),
            Mistake("LN-17d", {"self.gamma.data * x_hat": "x_hat"},
                    "Your forward leaves out gamma. Its initial value is 1, so this mistake has no effect before "
                    "training."),
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
