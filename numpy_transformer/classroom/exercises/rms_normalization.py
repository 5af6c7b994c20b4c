"""RMSNorm, forward and backward."""

import numpy as np

from ...layers import RMSNorm
from ..exercise import Exercise, Mistake
from .given import loaded
from .normalization import EPS, KEEPDIMS, chosen, in_dx


def rms_norm(x, gamma, eps):
    """RMS normalization: each row is divided by the root of the mean of its squares, then scaled.

    x: (..., D).  gamma: (D,).  eps: a small number > 0, inside the root.
    Return y: (..., D), y = gamma x / sqrt(mean of x^2 + eps); the mean is that of each row over its D features.
    """
    mean_square = (x ** 2).mean(-1, keepdims=True)
    return gamma * x / np.sqrt(mean_square + eps)


def rms_norm_backward(x, gamma, eps, dy):
    """The gradients of y = gamma x_hat, x_hat = x / sqrt(mean of x^2 + eps).

    x: (..., D).  gamma: (D,).  eps: a small number > 0.  dy: (..., D), dL/dy. The mean is that of each row of x
    over its D features.
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
        **chosen(lambda x, gamma, beta, dy: (x, gamma, EPS)),
        hints=("Which of LayerNorm's steps are left, and over which axis?",
               "Square, then mean over the last axis with keepdims=True, then root: eps is added before the root.",
               "Divide gamma * x by np.sqrt((x ** 2).mean(-1, keepdims=True) + eps)."),
        mistakes=(
            Mistake("RMS-1a", {"(x ** 2).mean(": "x.var(", "gamma * x": "gamma * (x - x.mean(-1, keepdims=True))"},
                    "The mean is subtracted: that is LayerNorm. RMSNorm leaves x where it is."),
            Mistake("RMS-1b", {"gamma * x": "gamma * (x - x.mean(-1, keepdims=True))"},
                    "The mean is subtracted above the fraction line: RMSNorm has no mean."),
            Mistake("RMS-3a", {"(x ** 2).mean(": "(x ** 2).sum("},
                    "That is the length of the row: under the root stands the mean of the squares, not their sum."),
            Mistake("RMS-4a", {"np.sqrt(mean_square + eps)": "(mean_square + eps)"},
                    "The root is missing: the rows are divided by their mean square."),
            Mistake("RMS-4b", {"(x ** 2).mean(": "x.var("},
                    "The rows are divided by their standard deviation: here it is the root of the mean square, and no "
                    "mean is subtracted."),
            Mistake("RMS-4c", {"(x ** 2).mean(-1, keepdims=True)": "x.mean(-1, keepdims=True) ** 2"},
                    "That is the square of the mean: square first, then take the mean."),
            Mistake("RMS-9a", {"np.sqrt(mean_square + eps)": "(np.sqrt(mean_square) + eps)"},
                    "eps stands outside the root: it belongs under it, beside the mean square."),
            Mistake("RMS-9b", {"mean_square + eps": "mean_square"}, "eps is missing: in a row of zeros 0 / 0 is NaN."),
            Mistake("RMS-10a", {"mean(-1": "mean(0"},
                    "The mean goes over the first axis: each row has its own, over its features."),
            Mistake("RMS-10b", {"mean(-1, keepdims=True)": "mean()"},
                    "There is one mean for the whole array: each row has its own."),
            Mistake("RMS-10c", {"mean(-1": "mean(-2"},
                    "The mean goes over the rows: it belongs to the features of each row."),
            Mistake("RMS-10d", {"mean(-1, keepdims=True)": "mean(-1)"}, KEEPDIMS),
            Mistake("RMS-11a", {"gamma * x": "x"}, "gamma is missing. Before training it is 1, and nobody sees that."),
            Mistake("RMS-11b", {"gamma * x": "(1 + gamma) * x"},
                    "The factor is 1 + gamma, as some models have it: here it is gamma itself."),
        ),
        alternatives={"by norms": {"np.sqrt(mean_square + eps)": "np.hypot(np.linalg.norm(x, axis=-1, keepdims=True)\n"
                                   "                                / math.sqrt(len(gamma)), math.sqrt(eps))"}}),
    Exercise(
        "16.2", "RMSNorm, backward", minutes=20, lines=6,
        solution=rms_norm_backward, reference=by_rms_norm, outputs=("dx", "dgamma"),
        **chosen(lambda x, gamma, beta, dy: (x, gamma, EPS, dy)),
        hints=("x reaches y on two paths. Which of LayerNorm's three is gone?",
               "Let g = gamma dy. To stretch a row does not change y, but for eps: dx is g without its part along "
               "x_hat, divided by the root mean square.",
               "dx = (g - x_hat * mean(g * x_hat)) / rms, the mean over the last axis with keepdims; dgamma is "
               "dy * x_hat, summed over all axes but the last."),
        mistakes=(
            *in_dx(("RMS-2", "RMS-5a", "RMS-5d", "RMS-5f", "RMS-3b", "RMS-6a", "RMS-6b", "RMS-7a", "RMS-7b", "RMS-8"),
                   "gamma", "rms", "root mean square"),
            Mistake("RMS-1", {"(g - x_hat *": "(g - g.mean(-1, keepdims=True) - x_hat *"},
                    "mean(g) is subtracted, as in LayerNorm: RMSNorm has no mean, so there is no path through one."),
            Mistake("RMS-5b", {"x_hat * (g * x_hat)": "x * (g * x)"},
                    "In the second term of dx stands x where the normalized x_hat belongs."),
            Mistake("RMS-5c", {"(dy * x_hat).sum": "(dy * x).sum"},
                    "dgamma is made with x: gamma was multiplied by the normalized x_hat."),
            Mistake("RMS-5e", {"(dy * x_hat).sum": "(g * x_hat).sum"},
                    "dgamma contains gamma: y is linear in gamma, so its gradient does not."),
            Mistake("RMS-9a", {"True) + eps)": "True)) + eps"},
                    "eps stands outside the root: it belongs under it, beside the mean square."),
            Mistake("RMS-12a", {"(dy * x_hat).sum(": "(dy * x_hat).mean("},
                    "dgamma is a sum over the rows, not a mean."),
            Mistake("RMS-12b", {"tuple(range(x.ndim - 1))": "0"},
                    "gamma is shared by all rows: dgamma is a sum over every axis but the last, not the first axis "
                    "alone."),
            Mistake("RMS-12c", {"tuple(range(x.ndim - 1))": "-1"},
                    "dgamma is summed over the features: sum over all other axes instead."),
        ),
        alternatives={
            "with x and powers": {"dx = (g - x_hat * (g * x_hat).mean(-1, keepdims=True)) / rms":
                                  "dx = g / rms - x * (g * x).mean(-1, keepdims=True) / rms ** 3"},
            "rows by reshape": {"(dy * x_hat).sum(tuple(range(x.ndim - 1)))":
                                "(dy * x_hat).reshape(-1, len(gamma)).sum(0)"}}),
]
