"""LayerNorm, forward and backward."""

import math

import numpy as np

from ...layers import LayerNorm as PackageLayerNorm
from .definition import Exercise, Mistake
from .shared import loaded


def layer_norm(x, gamma, beta, eps):
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    x_hat = (x - mean) / np.sqrt(var + eps)
    return gamma * x_hat + beta


def layer_norm_backward(x, gamma, eps, dy):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    std = np.sqrt(var + eps)
    x_hat = (x - mean) / std
    g = gamma * dy
    dx = (g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)) / std
    axes = tuple(range(x.ndim - 1))
    dgamma = (dy * x_hat).sum(axes)
    dbeta = dy.sum(axes)
    return dx, dgamma, dbeta


def draw_inputs(rng, shape):
    """x with mean far from 0 and variance far from 1, a gamma that is not 1, a beta, an eps, and dy.

    eps is large, so that a wrong place of eps has a visible effect.
    """
    x, dy, beta = (rng.standard_normal(size) for size in (shape, shape, shape[-1]))
    mean = math.hypot(*(rng.standard_normal() for _ in range(8))) / 3
    gamma = rng.uniform(0.5, 2, shape[-1])
    eps = round(float(rng.uniform(0.05, 0.2)), 3)
    return mean + 2 * x, gamma, beta, eps, dy


def inputs_and_edges(pick):
    """Returns `inputs` and `edges` of an exercise whose arguments `pick` chooses from what `draw` returns."""
    def edges(rng):
        x, *others = draw_inputs(rng, (3, 6))
        x[1] = 0                                # a row with variance 0
        return [("as_many_rows_as", pick(*draw_inputs(rng, (6, 6)))), ("row_zeros", pick(x, *others))]
    return {"inputs": lambda rng, n: pick(*draw_inputs(rng, (*n.lead, n.D))), "edges": edges}


def package_layer_norm(gamma, beta, eps):
    return loaded(PackageLayerNorm(len(gamma), eps), {"gamma": gamma, "beta": beta})


def by_layer_norm(x, gamma, eps, dy):
    layer = package_layer_norm(gamma, 0 * gamma, eps)
    layer(x)
    return layer.backward(dy), layer.gamma.grad, layer.beta.grad


EXERCISES = [
    Exercise(
        "08.1", minutes=10, lines=4, single_row=True,
        solution=layer_norm, **inputs_and_edges(lambda x, gamma, beta, eps, dy: (x, gamma, beta, eps)),
        reference=lambda x, gamma, beta, eps: package_layer_norm(gamma, beta, eps)(x),
        must_be_zero={"row_mean_y": lambda inputs, outputs: ((outputs[0] - inputs[2]) / inputs[1]).mean(-1)},
        mistakes=(
            Mistake("LN-14", {"x.var(-1, keep": "x.var(-1, ddof=1, keep"}),
            Mistake("LN-15a", {"np.sqrt(var +": "(np.sqrt(var) +"}),
            Mistake("LN-16a", {"np.sqrt(var + eps)": "(var + eps)"}),
            Mistake("LN-16b", {"x.mean(-1": "x.mean(0", "x.var(-1": "x.var(0"}),
            Mistake("LN-16c", {"x.mean(-1": "x.mean((-2, -1)", "x.var(-1": "x.var((-2, -1)"}),
            Mistake("LN-16d", {"(x - mean) / np.sqrt(var + eps)": "x / np.sqrt(var + eps)"}),
            Mistake("LN-16e", {"x.mean(-1, keepdims=True)": "x.mean()", "x.var(-1, keepdims=True)": "x.var()"}),
            Mistake("LN-16f", {"x.mean(-1": "x.mean(-2", "x.var(-1": "x.var(-2"}),
            Mistake("LN-16g", {"x.var(": "(x ** 2).mean("}),
            Mistake("LN-16l", {
                "x.mean(-1": "x.mean(tuple(range(1, x.ndim))",
                "x.var(-1": "x.var(tuple(range(1, x.ndim))"}),
            Mistake("LN-16m", {
                "x.mean(-1": "x.mean(tuple(range(x.ndim - 1))",
                "x.var(-1": "x.var(tuple(range(x.ndim - 1))"}),
            Mistake("LN-16n", {
                "x.mean(-1, keepdims=True)": "x.sum(-1, keepdims=True) / len(x)",
                "x.var(-1, keepdims=True)":
                    "((x - x.sum(-1, keepdims=True) / len(x)) ** 2).sum(-1, keepdims=True) / len(x)"}),
            Mistake("LN-16t", {"x.mean(-1": "x.mean(1", "x.var(-1": "x.var(1"}),
            Mistake("LN-16w", {"(x - mean) / np.sqrt(var + eps)": "x - mean"}),
            Mistake("LN-19c", {"x.mean(-1, keepdims=True)": "x.mean(-1)", "x.var(-1, keepdims=True)": "x.var(-1)"}),
            Mistake("LN-17a", {"gamma * x_hat + beta": "gamma * (x_hat + beta)"}),
            Mistake("LN-17b", {"gamma * x_hat": "(1 + gamma) * x_hat"}),
            Mistake("LN-17c", {"gamma * x_hat + beta": "x_hat"}),
            Mistake("LN-18", {"x_hat = (x - mean) / np": "x -= mean\n    x_hat = x / np"}),
            Mistake("LN-17i", {
                "    mean = ": "    x = gamma * x + beta\n    mean = ",
                "gamma * x_hat + beta": "x_hat"}),
        ),
        alternatives={
            "variance from squares": {"x.var(-1, keepdims=True)": "(x ** 2).mean(-1, keepdims=True) - mean ** 2"},
            "by einsum": {"x.var(-1, keepdims=True)":
                          "np.einsum('...i,...i->...', x - mean, x - mean)[..., None] / x.shape[-1]"}}),
    Exercise(
        "08.2", minutes=30, lines=9, single_row=True,
        solution=layer_norm_backward, reference=by_layer_norm, outputs=("dx", "dgamma", "dbeta"),
        **inputs_and_edges(lambda x, gamma, beta, eps, dy: (x, gamma, eps, dy)),
        must_be_zero={"rows_dx_sum": lambda inputs, outputs: outputs[0].sum(-1)},
        mistakes=(
            Mistake("LN-1", {" - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)": ""}),
            Mistake("LN-2", {" - g.mean(-1, keepdims=True)": ""}),
            Mistake("LN-5a", {"g.mean(": "g.sum(", "x_hat).mean(": "x_hat).sum("}),
            Mistake("LN-8a", {"g.mean(-1": "g.mean(-2", "x_hat).mean(-1": "x_hat).mean(-2"}),
            Mistake("LN-10a", {" - g.mean(": " + g.mean("}),
            Mistake("LN-5d", {
                "g.mean(-1, keepdims=True)": "g.sum(-1, keepdims=True) / len(dy)",
                "(g * x_hat).mean(-1, keepdims=True)": "(g * x_hat).sum(-1, keepdims=True) / len(dy)"}),
            Mistake("LN-3", {" - x_hat * (g * x_hat).mean(-1, keepdims=True)": ""}),
            Mistake("LN-4a", {"g = gamma * dy": "g = dy"}),
            Mistake("LN-4b", {"g = gamma * dy": "g = dy", "True)) / std": "True)) * gamma / std"}),
            Mistake("LN-6a", {
                " - x_hat * (g * x_hat).mean(-1, keepdims=True)":
                    " - 2 * x_hat * (g * x_hat).mean(-1, keepdims=True)"}),
            Mistake("LN-6b", {
                " - x_hat * (g * x_hat).mean(-1, keepdims=True)":
                    " - 0.5 * x_hat * (g * x_hat).mean(-1, keepdims=True)"}),
            Mistake("LN-7a", {"True)) / std": "True))"}),
            Mistake("LN-7b", {"True)) / std": "True)) / std ** 2"}),
            Mistake("LN-10", {" - x_hat * (g": " + x_hat * (g"}),
            Mistake("LN-3a", {" - x_hat * (g": " - (g"}),
            Mistake("LN-3b", {"(g * x_hat).mean(": "g.mean("}),
            Mistake("LN-7c", {"True)) / std": "True)) * std"}),
            Mistake("LN-14", {"x.var(-1, keep": "x.var(-1, ddof=1, keep"}),
            Mistake("LN-15a", {"np.sqrt(var +": "(np.sqrt(var) +"}),
            Mistake("LN-16a", {"np.sqrt(var + eps)": "(var + eps)"}),
            Mistake("LN-16b", {"x.mean(-1": "x.mean(0", "x.var(-1": "x.var(0"}),
            Mistake("LN-16c", {"x.mean(-1": "x.mean((-2, -1)", "x.var(-1": "x.var((-2, -1)"}),
            Mistake("LN-16d", {"(x - mean) / std": "x / std"}),
            Mistake("LN-16e", {"x.mean(-1, keepdims=True)": "x.mean()", "x.var(-1, keepdims=True)": "x.var()"}),
            Mistake("LN-16w", {"(x - mean) / std": "x - mean"}),
            Mistake("LN-19c", {"x.mean(-1, keepdims=True)": "x.mean(-1)", "x.var(-1, keepdims=True)": "x.var(-1)"}),
            Mistake("LN-9a", {"x_hat * (g * x_hat)": "x * (g * x)"}),
            Mistake("LN-9b", {"x_hat * (g * x_hat)": "(x - mean) * (g * (x - mean))"}),
            Mistake("LN-11a", {"(dy * x_hat).sum": "dy.sum"}),
            Mistake("LN-11b", {"(dy * x_hat).sum": "(dy * x).sum"}),
            Mistake("LN-12a", {"x_hat).sum(axes)": "x_hat).mean(axes)", "dy.sum(axes)": "dy.mean(axes)"}),
            Mistake("LN-12b", {"tuple(range(x.ndim - 1))": "0"}),
            Mistake("LN-12c", {"tuple(range(x.ndim - 1))": "-1"}),
            Mistake("LN-12f", {"dy.sum(axes)": "dy.mean(axes)"}),
            Mistake("LN-13", {"dgamma, dbeta\n": "dbeta, dgamma\n"}),
            Mistake("LN-13a", {"return dx, dgamma, dbeta": "return dgamma, dbeta, dx"}),
            Mistake("LN-19f", {
                "x.mean(-1, keepdims=True), x.var(-1, keepdims=True)": "x.mean(-1), x.var(-1)",
                "g.mean(-1, keepdims=True)": "g.mean(-1)",
                "x_hat).mean(-1, keepdims=True)": "x_hat).mean(-1)"}),
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
