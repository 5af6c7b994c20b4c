"""RMSNorm, forward and backward."""

import numpy as np

from ...layers import RMSNorm
from .definition import Exercise, Mistake
from .normalization import inputs_and_edges
from .shared import loaded


def rms_norm(x, gamma, eps):
    mean_square = (x ** 2).mean(-1, keepdims=True)
    return gamma * x / np.sqrt(mean_square + eps)


def rms_norm_backward(x, gamma, eps, dy):
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
        "16.1", minutes=5, lines=2, single_row=True,
        solution=rms_norm, reference=lambda x, gamma, eps: package_rms_norm(gamma, eps)(x),
        **inputs_and_edges(lambda x, gamma, beta, eps, dy: (x, gamma, eps)),
        mistakes=(
            Mistake("RMS-1a", {"(x ** 2).mean(": "x.var(", "gamma * x": "gamma * (x - x.mean(-1, keepdims=True))"}),
            Mistake("RMS-1b", {"gamma * x": "gamma * (x - x.mean(-1, keepdims=True))"}),
            Mistake("RMS-3a", {"(x ** 2).mean(": "(x ** 2).sum("}),
            Mistake("RMS-4a", {"np.sqrt(mean_square + eps)": "(mean_square + eps)"}),
            Mistake("RMS-15", {"gamma * x /": "x / gamma /"}),
            Mistake("RMS-4b", {"(x ** 2).mean(": "x.var("}),
            Mistake("RMS-9a", {"np.sqrt(mean_square + eps)": "(np.sqrt(mean_square) + eps)"}),
            Mistake("RMS-9c", {" / np.sqrt(mean_square + eps)": " / np.sqrt(mean_square) + eps"}),
            Mistake("RMS-13", {
                "    return gamma * x / np.sqrt(mean_square + eps)":
                    "    x /= np.sqrt(mean_square + eps)\n    return gamma * x"}),
        ),
        alternatives={"with norms": {"np.sqrt(mean_square + eps)": "np.hypot(np.linalg.norm(x, axis=-1, "
                                                                   "keepdims=True)\n"
                                   "                                / math.sqrt(len(gamma)), math.sqrt(eps))"}}),
    Exercise(
        "16.2", minutes=20, lines=6, single_row=True,
        solution=rms_norm_backward, reference=by_rms_norm, outputs=("dx", "dgamma"),
        **inputs_and_edges(lambda x, gamma, beta, eps, dy: (x, gamma, eps, dy)),
        mistakes=(
            Mistake("RMS-2", {" - x_hat * (g * x_hat).mean(-1, keepdims=True)": ""}),
            Mistake("RMS-5a", {"g = gamma * dy": "g = dy"}),
            Mistake("RMS-5f", {"(g * x_hat)": "(dy * x_hat)"}),
            Mistake("RMS-14", {"g = gamma * dy": "g = dy", "dx = (": "dx = gamma * ("}),
            Mistake("RMS-3b", {"x_hat).mean(": "x_hat).sum("}),
            Mistake("RMS-2b", {" - x_hat * (g": " - (g"}),
            Mistake("RMS-6c", {
                " - x_hat * (g * x_hat).mean(-1, keepdims=True)":
                    " - x_hat * (g * x_hat).mean(-1, keepdims=True) * rms"}),
            Mistake("RMS-5i", {"g = gamma * dy": "dy *= gamma; g = dy"}),
            Mistake("RMS-1", {"(g - x_hat *": "(g - g.mean(-1, keepdims=True) - x_hat *"}),
            Mistake("RMS-5b", {"x_hat * (g * x_hat)": "x * (g * x)"}),
            Mistake("RMS-5c", {"(dy * x_hat).sum": "(dy * x).sum"}),
            Mistake("RMS-5e", {"(dy * x_hat).sum": "(g * x_hat).sum"}),
            Mistake("RMS-12a", {"(dy * x_hat).sum(": "(dy * x_hat).mean("}),
            Mistake("RMS-5j", {"(dy * x_hat).sum": "dy.sum"}),
            Mistake("RMS-4a", {
                "np.sqrt((x ** 2).mean(-1, keepdims=True) + eps)": "((x ** 2).mean(-1, keepdims=True) + eps)"}),
            Mistake("RMS-4b", {"np.sqrt((x ** 2).mean(": "np.sqrt(x.var("}),
            Mistake("RMS-1b", {"x_hat = x / rms": "x_hat = (x - x.mean(-1, keepdims=True)) / rms"}),
            Mistake("RMS-3a", {"(x ** 2).mean(": "(x ** 2).sum("}),
            Mistake("RMS-10f", {"x_hat).mean(-1, keepdims=True)": "x_hat).mean()"}),
            Mistake("RMS-12b", {"tuple(range(x.ndim - 1))": "0"}),
        ),
        alternatives={
            "with x and powers": {"dx = (g - x_hat * (g * x_hat).mean(-1, keepdims=True)) / rms":
                                  "dx = g / rms - x * (g * x).mean(-1, keepdims=True) / rms ** 3"},
            "rows by reshape": {"(dy * x_hat).sum(tuple(range(x.ndim - 1)))":
                                "(dy * x_hat).reshape(-1, len(gamma)).sum(0)"}}),
]
