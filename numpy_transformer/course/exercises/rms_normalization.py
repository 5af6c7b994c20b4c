"""RMSNorm, forward and backward."""

import numpy as np

from ...layers import RMSNorm
from .definition import Exercise, Mistake
from .given import loaded
from .normalization import inputs_and_edges
from .normalization_mistakes import KEEPDIMS, in_dx


def rms_norm(x, gamma, eps):
    """Computes RMSNorm, which divides each row by the root of the mean of its squares and then scales it by gamma.

    y = gamma x / sqrt(mean of x^2 + eps), where each row has its own mean over its D features.

    x: (..., D).
    gamma: (D,).
    eps: a small number > 0, added under the root.
    Return y: (..., D).
    """
    mean_square = (x ** 2).mean(-1, keepdims=True)
    return gamma * x / np.sqrt(mean_square + eps)


def rms_norm_backward(x, gamma, eps, dy):
    """Computes the gradients of y = gamma x_hat with x_hat = x / sqrt(mean of x^2 + eps).

    Each row of x has its own mean over its D features.

    x: (..., D).
    gamma: (D,).
    eps: a small number > 0.
    dy: (..., D), dL/dy.
    Return dx: (..., D), dgamma: (D,).
    """
    rms = np.sqrt((x ** 2).mean(-1, keepdims=True) + eps)
    x_hat = x / rms
    g = gamma * dy
    dx = (g - x_hat * (g * x_hat).mean(-1, keepdims=True)) / rms
    dgamma = (dy * x_hat).sum(tuple(range(x.ndim - 1)))
    return dx, dgamma


def package_rms_norm(gamma, eps):
    return loaded(RMSNorm(len(gamma), eps), {"gamma": gamma})


def by_rms_norm(x, gamma, eps, dy):
    layer = package_rms_norm(gamma, eps)
    layer(x)
    return layer.backward(dy), layer.gamma.grad


EXERCISES = [
    Exercise(
        "16.1", "RMSNorm, forward", minutes=5, lines=2,
        solution=rms_norm, reference=lambda x, gamma, eps: package_rms_norm(gamma, eps)(x),
        **inputs_and_edges(lambda x, gamma, beta, eps, dy: (x, gamma, eps)),
        hints=("Which steps of LayerNorm remain, and over which axis?",
               "Square x, take the mean over the last axis with keepdims=True, add eps, and then take the root.",
               "Divide gamma * x by np.sqrt((x ** 2).mean(-1, keepdims=True) + eps)."),
        mistakes=(
            Mistake("RMS-1a", {"(x ** 2).mean(": "x.var(", "gamma * x": "gamma * (x - x.mean(-1, keepdims=True))"},
                    "You subtract the mean, as LayerNorm does. RMSNorm does not center x."),
            Mistake("RMS-1b", {"gamma * x": "gamma * (x - x.mean(-1, keepdims=True))"},
                    "You subtract the mean in the numerator. RMSNorm does not use the mean of x."),
            Mistake("RMS-3a", {"(x ** 2).mean(": "(x ** 2).sum("},
                    "You divide by the length of the row. Under the root, you need the mean of the squares, not their "
                    "sum."),
            Mistake("RMS-4a", {"np.sqrt(mean_square + eps)": "(mean_square + eps)"},
                    "The root is missing, so you divide the rows by their mean square."),
            Mistake("RMS-4d", {"gamma * x / np": "gamma * x * np"},
                    "You multiply by the root mean square. Divide by it, so that the rows have the same size."),
            Mistake("RMS-4e", {"(x ** 2).mean(-1, keepdims=True)": "np.abs(x).mean(-1, keepdims=True) ** 2"},
                    "You use the mean of the absolute values. Square first, take the mean, and then the root."),
            Mistake(""
                    "RMS-3c", {"(x ** 2).mean(-1, "
                               "keepdims=True)": "(x ** 2).sum(-1, keepdims=True) / (len(gamma) - 1)"},
                    "You divide the sum of the squares by D - 1. A mean over D features divides by D."),
            Mistake("RMS-3d", {"(x ** 2).mean(-1, keepdims=True)": "(x ** 2).sum(-1, keepdims=True) / len(x)"},
                    "You divide the sum of the squares by the length of the first axis. The mean runs over the "
                    "features, so divide by their number D."),
            Mistake("RMS-4b", {"(x ** 2).mean(": "x.var("},
                    "You divide the rows by their standard deviation. RMSNorm divides by the root of the mean square, "
                    "without subtracting the mean."),
            Mistake("RMS-4c", {"(x ** 2).mean(-1, keepdims=True)": "x.mean(-1, keepdims=True) ** 2"},
                    "You compute the square of the mean. Square first, then take the mean."),
            Mistake("RMS-9a", {"np.sqrt(mean_square + eps)": "(np.sqrt(mean_square) + eps)"},
                    "You add eps after taking the root. It must be added to the mean square, under the root."),
            Mistake("RMS-9b", {"mean_square + eps": "mean_square"},
                    "eps is missing. For a row of zeros, 0 / 0 is NaN."),
            Mistake("RMS-9d", {"mean_square + eps": "mean_square + eps ** 2"},
                    "You square eps. It is added to the mean square as it is."),
            Mistake("RMS-9c", {" / np.sqrt(mean_square + eps)": " / np.sqrt(mean_square) + eps"},
                    "You add eps to the result. It must be added to the mean square, under the root."),
            Mistake("RMS-10a", {"mean(-1": "mean(0"},
                    "Your mean runs over the first axis. Each row has its own mean, over its features."),
            Mistake("RMS-10b", {"mean(-1, keepdims=True)": "mean()"},
                    "You compute one mean for the whole array. Each row has its own mean."),
            Mistake("RMS-10c", {"mean(-1": "mean(-2"},
                    "Your mean runs over the rows. Each row has its own mean, over its features."),
            Mistake("RMS-10d", {"mean(-1, keepdims=True)": "mean(-1)"}, KEEPDIMS),
            Mistake("RMS-11a", {"gamma * x": "x"},
                    "gamma is missing. Its initial value is 1, so this mistake has no effect before training."),
            Mistake("RMS-11b", {"gamma * x": "(1 + gamma) * x"},
                    "Your factor is 1 + gamma, as in some models. Here it is gamma itself."),
            Mistake("RMS-11c", {"(x ** 2).mean(": "((gamma * x) ** 2).mean("},
                    "You multiply by gamma before the mean of the squares is taken. gamma scales the normalized row."),
            Mistake("RMS-13", {"    return gamma * x / np.sqrt(mean_square + eps)":
                               "    x /= np.sqrt(mean_square + eps)\n    return gamma * x"},
                    "x /= ... writes into the caller's array. x / ... makes a new one."),
        ),
        alternatives={"with norms": {"np.sqrt(mean_square + eps)": "np.hypot(np.linalg.norm(x, axis=-1, "
                                                                   "keepdims=True)\n"
                                   "                                / math.sqrt(len(gamma)), math.sqrt(eps))"}}),
    Exercise(
        "16.2", "RMSNorm, backward", minutes=20, lines=6,
        solution=rms_norm_backward, reference=by_rms_norm, outputs=("dx", "dgamma"),
        **inputs_and_edges(lambda x, gamma, beta, eps, dy: (x, gamma, eps, dy)),
        hints=("x affects y on two paths. Which of LayerNorm's three paths is missing?",
               "Let g = gamma dy. Scaling a row of x leaves y unchanged, apart from eps. So dx is g without its "
               "component along x_hat, divided by the root mean square.",
               "dx = (g - x_hat * mean(g * x_hat)) / rms, where the mean runs over the last axis with keepdims=True. "
               "dgamma is dy * x_hat summed over all axes except the last."),
        mistakes=(
            *in_dx(("RMS-2", "RMS-5a", "RMS-5d", "RMS-5f", "RMS-3b", "RMS-6a", "RMS-6b", "RMS-7a", "RMS-7b", "RMS-8",
                    "RMS-2b", "RMS-2c", "RMS-6c", "RMS-6d", "RMS-7c", "RMS-7d", "RMS-5g", "RMS-5h", "RMS-5i"),
                   "gamma", "rms", "root mean square"),
            Mistake("RMS-1", {"(g - x_hat *": "(g - g.mean(-1, keepdims=True) - x_hat *"},
                    "You subtract the mean of gamma dy, as in LayerNorm. RMSNorm does not use the mean of x, so there "
                    "is no path through it."),
            Mistake("RMS-5b", {"x_hat * (g * x_hat)": "x * (g * x)"},
                    "The second term of your dx uses x where the normalized x_hat belongs."),
            Mistake("RMS-5c", {"(dy * x_hat).sum": "(dy * x).sum"},
                    "You compute dgamma from x. gamma was multiplied by the normalized x_hat."),
            Mistake("RMS-5e", {"(dy * x_hat).sum": "(g * x_hat).sum"},
                    "Your dgamma contains gamma. y is linear in gamma, so its gradient does not contain gamma."),
            Mistake("RMS-9a", {"True) + eps)": "True)) + eps"},
                    "You add eps after taking the root. It must be added to the mean square, under the root."),
            Mistake("RMS-12a", {"(dy * x_hat).sum(": "(dy * x_hat).mean("},
                    "Your dgamma is a mean over the rows. It must be a sum."),
            Mistake("RMS-5j", {"(dy * x_hat).sum": "dy.sum"},
                    "Your dgamma is a sum of dy alone. gamma was multiplied by x_hat, so its gradient contains x_hat."),
            Mistake("RMS-9b", {"True) + eps)": "True))"},
                    "eps is missing. It belongs under the root, as in forward."),
            Mistake("RMS-4a", {"np.sqrt((x ** 2).mean(-1, keepdims=True) + eps)":
                               "((x ** 2).mean(-1, keepdims=True) + eps)"},
                    "The root is missing, so you divide by the mean square."),
            Mistake("RMS-4b", {"np.sqrt((x ** 2).mean(": "np.sqrt(x.var("},
                    "You divide by the standard deviation, as LayerNorm does. RMSNorm divides by the root of the mean "
                    "square."),
            Mistake("RMS-1b", {"x_hat = x / rms": "x_hat = (x - x.mean(-1, keepdims=True)) / rms"},
                    "You subtract the mean of x in x_hat. RMSNorm does not center x."),
            Mistake("RMS-3a", {"(x ** 2).mean(": "(x ** 2).sum("},
                    "Under the root, you use the sum of the squares. It must be their mean."),
            Mistake("RMS-10a", {"(x ** 2).mean(-1": "(x ** 2).mean(0"},
                    "Your mean square runs over the first axis. Each row has its own, over its features."),
            Mistake("RMS-10b", {"(x ** 2).mean(-1, keepdims=True)": "(x ** 2).mean()"},
                    "You compute one mean square for the whole array. Each row has its own."),
            Mistake("RMS-10e", {"x_hat).mean(-1": "x_hat).mean(-2"},
                    "The mean in your dx runs over the rows. Each row was normalized separately, so it must run over "
                    "its features."),
            Mistake("RMS-10f", {"x_hat).mean(-1, keepdims=True)": "x_hat).mean()"},
                    "The mean in your dx runs over the whole array. Each row was normalized separately, so it has its "
                    "own mean."),
            Mistake("RMS-10g", {"x_hat).mean(-1": "x_hat).mean(0"},
                    "The mean in your dx runs over the first axis. Each row was normalized separately, so it must run "
                    "over its features."),
            Mistake("RMS-10d", {"x_hat).mean(-1, keepdims=True)": "x_hat).mean(-1)"}, KEEPDIMS),
            Mistake("RMS-12d", {"(dy * x_hat).sum(tuple(range(x.ndim - 1)))": "dy * x_hat"},
                    "You do not sum dgamma. All rows share gamma, so its gradient is the sum over all of them."),
            Mistake("RMS-12e", {"(dy * x_hat).sum(tuple(range(x.ndim - 1)))": "(dy * x_hat).sum()"},
                    "You sum dgamma over the features too, so only one number is left. Each feature has its own."),
            Mistake("RMS-12f", {"tuple(range(x.ndim - 1))": "-2"},
                    "You sum dgamma over the axis before the last one only. All rows share gamma, so the sum runs over "
                    "every axis except the last."),
            Mistake("RMS-12g", {"tuple(range(x.ndim - 1))": "(0, 1)"},
                    "You sum dgamma over axes 0 and 1, which is right only if x has three axes. The sum runs over "
                    "every axis except the last."),
            Mistake("RMS-14", {"return dx, dgamma": "return dgamma, dx"},
                    "You return the two gradients in the wrong order. dx comes first."),
            Mistake("RMS-12b", {"tuple(range(x.ndim - 1))": "0"},
                    "You sum dgamma over the first axis only. All rows share gamma, so the sum runs over every axis "
                    "except the last."),
            Mistake("RMS-12c", {"tuple(range(x.ndim - 1))": "-1"},
                    "You sum dgamma over the features. Sum over all other axes instead."),
        ),
        alternatives={
            "with x and powers": {"dx = (g - x_hat * (g * x_hat).mean(-1, keepdims=True)) / rms":
                                  "dx = g / rms - x * (g * x).mean(-1, keepdims=True) / rms ** 3"},
            "rows by reshape": {"(dy * x_hat).sum(tuple(range(x.ndim - 1)))":
                                "(dy * x_hat).reshape(-1, len(gamma)).sum(0)"}}),
]
