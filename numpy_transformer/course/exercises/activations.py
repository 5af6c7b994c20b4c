"""ReLU and GELU, forward and backward."""

import math

import numpy as np

from ...layers import GELU, ReLU
from .definition import Exercise, Mistake


def relu_backward(x, dy):
    return dy * (x > 0)


def draw_pair(rng, n):
    """x and dy; x is drawn from N(0, 1.5²), so that the tails of GELU are covered too."""
    return 1.5 * rng.standard_normal((*n.lead, n.D)), rng.standard_normal((*n.lead, n.D))


def corners(rng):
    """Exact zeros in x where dy = 0, because any slope is correct there, and zeros only in dy."""
    x, dy = rng.standard_normal((2, 4, 6))
    x[1, ::2] = dy[1] = dy[2, ::3] = 0
    return [("exact_zeros_x", (x, dy))]


def run_backward(layer, x, dy):
    layer(x)
    return layer.backward(dy)


def gelu(x):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x ** 3))
    return x * (1 + t) / 2


def gelu_backward(x, dy):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x ** 3))
    dt = (1 - t ** 2) * c * (1 + 3 * 0.044715 * x ** 2)
    slope = (1 + t) / 2 + x * dt / 2
    return dy * slope


EXERCISES = [
    Exercise(
        "09.1", minutes=5, lines=1,
        number_sizes=("tiny", "large"),
        solution=relu_backward, reference=lambda x, dy: run_backward(ReLU(), x, dy), inputs=draw_pair, edges=corners,
        outputs=("dx",),
        mistakes=(
            Mistake("ACT-1", {"(x > 0)": "(dy > 0)"}),
            Mistake("ACT-2a", {"dy * (x > 0)": "dy"}),
            Mistake("ACT-2b", {"(x > 0)": "x"}),
            Mistake("ACT-2c", {"(x > 0)": "np.maximum(0, x)"}),
            Mistake("ACT-2d", {"dy * (x > 0)": "(x > 0).astype(x.dtype)"}),
            Mistake("ACT-3", {"(x > 0)": "(np.maximum(x, 0) / x)"}),
            Mistake("ACT-4", {"(x > 0)": "(x < 0)"}),
            Mistake("ACT-2e", {"(x > 0)": "np.sign(x)"}),
            Mistake("ACT-5", {"dy * (x > 0)": "dy * x > 0"}),
            Mistake("ACT-6", {"dy * (x > 0)": "np.maximum(0, x)"}),
            Mistake("LIN-8b", {"return dy * (x > 0)": "x[x <= 0] = 0\n    x[x > 0] = 1\n    return dy * x"}),
            Mistake("LIN-8", {"return dy * (x > 0)": "dy[x < 0] = 0\n    return dy"}),
        ),
        alternatives={"slope 1 at 0": {"x > 0": "x >= 0"}, "where": {"dy * (x > 0)": "np.where(x > 0, dy, 0)"}}),
    Exercise(
        "09.2", minutes=5, lines=3,
        number_sizes=("tiny",), powers=({"x": 0.6},),
        solution=gelu, reference=lambda x: GELU("tanh")(x), inputs=lambda rng, n: draw_pair(rng, n)[:1],
        mistakes=(
            Mistake("GEL-1a", {"np.tanh(c * (x + 0.044715 * x ** 3))": "np.vectorize(math.erf)(x / math.sqrt(2))"}),
            Mistake("GEL-1b", {"np.tanh(c * (x + 0.044715 * x ** 3))": "np.tanh(1.702 * x / 2)"}),
            Mistake("GEL-6a", {"0.044715 *": "0.44715 *"}),
            Mistake("GEL-6b", {"x + 0.044715 * x ** 3": "x"}),
            Mistake("GEL-6c", {"math.sqrt(2 / math.pi)": "math.sqrt(2 * math.pi)"}),
            Mistake("GEL-6d", {"(1 + t) / 2": "(1 + t)"}),
            Mistake("GEL-6e", {"c * (x + 0.044715 * x ** 3)": "c * x + 0.044715 * x ** 3"}),
            Mistake("GEL-6f", {"x ** 3": "x ** 2"}),
            Mistake("GEL-1c", {"np.tanh(c * (x + 0.044715 * x ** 3))": "np.tanh(x / 2)"}),
            Mistake("GEL-1d", {"x * (1 + t) / 2": "np.maximum(0, x)"}),
            Mistake("GEL-6i", {"math.sqrt(2 / math.pi)": "2 / math.pi"}),
            Mistake("GEL-6n", {"(x + 0.044715 * x ** 3)": "(x + 0.044715 * x) ** 3"}),
            Mistake("GEL-11", {"np.tanh(c * (x + 0.044715 * x ** 3))": "c * (x + 0.044715 * x ** 3)"}),
        ),
        alternatives={"with a sigmoid": {"x * (1 + t) / 2": "x / (1 + np.exp(-2 * c * (x + 0.044715 * x * x * x)))"}}),
    Exercise(
        "09.3", minutes=15, lines=5,
        number_sizes=("tiny",), powers=({"x": 0.4, "dy": 3},),
        solution=gelu_backward, reference=lambda x, dy: run_backward(GELU("tanh"), x, dy), inputs=draw_pair,
        outputs=("dx",),
        mistakes=(
            Mistake("GEL-2", {
                "0.044715 * x ** 3))\n": "0.044715 * x ** 3))\n    t = np.vectorize(math.erf)(x / math.sqrt(2))\n",
                "(1 - t ** 2) * c * (1 + 3 * 0.044715 * x ** 2)": "c * np.exp(-x ** 2 / 2)"}),
            Mistake("GEL-3", {" + x * dt / 2": ""}),
            Mistake("GEL-4a", {" * (1 + 3 * 0.044715 * x ** 2)": ""}),
            Mistake("GEL-4b", {"3 * 0.044715": "0.044715"}),
            Mistake("GEL-5a", {"(1 - t ** 2)": "(1 - t)"}),
            Mistake("GEL-5b", {" * c * (1 +": " * (1 +"}),
            Mistake("GEL-5c", {"x * dt / 2": "x * dt"}),
            Mistake("GEL-7", {"(1 + t) / 2 + ": ""}),
            Mistake("GEL-8", {"+ x * dt": "+ dt"}),
            Mistake("GEL-9", {"dy * slope": "slope"}),
            Mistake("GEL-2b", {"dy * slope": "dy * (1 + x / (1 + np.exp(x))) / (1 + np.exp(-x))"}),
            Mistake("GEL-2c", {"dy * slope": "dy * (x > 0)"}),
            Mistake("GEL-9b", {"dy * slope": "dy * (1 + t) / 2 + x * dt / 2"}),
            Mistake("GEL-6a", {"0.044715 * x ** 3": "0.44715 * x ** 3", "3 * 0.044715": "3 * 0.44715"}),
            Mistake("GEL-6c", {"math.sqrt(2 / math.pi)": "math.sqrt(2 * math.pi)"}),
            Mistake("GEL-6u", {"math.sqrt(2 / math.pi)": "1"}),
            Mistake("GEL-6b", {"x + 0.044715 * x ** 3": "x", " * (1 + 3 * 0.044715 * x ** 2)": ""}),
        )),
]
