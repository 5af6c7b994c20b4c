"""The gradient of a function by central differences."""

import numpy as np

from ...checks.gradcheck import Checker, Entries
from ..sandbox import Function
from .definition import Exercise, Mistake


def finite_difference(f, x, h):
    gradient = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = h
        gradient[at] = (f(x + step) - f(x - step)) / (2 * h)
    return gradient


def draw_inputs(rng, n):
    """f couples all entries, so that an entry that is not restored has an effect; a large h tells formulas apart."""
    f = Function("lambda x: np.sum(w * np.tanh(x)) + np.log(np.sum(np.exp(x)))", w=rng.standard_normal(n.lead))
    return f, rng.standard_normal(n.lead), 0.01 * n.B


def small_step(rng):
    f = Function("lambda x: np.sum(w * x ** 3)", w=rng.standard_normal(4))
    return [("small_step", (f, rng.standard_normal(4), 1e-4))]


def by_gradcheck(f, x, h):
    """Computes the central differences with gradcheck, for a module whose output is f(x)."""
    class ScalarFunction:
        def forward(self, x):
            return f(x)

        def backward(self, dy):
            return np.zeros_like(x)

    checker = Checker(ScalarFunction(), (x,), 0, randomize=False)
    checker.weights = 1.0
    return np.reshape([checker.central(checker.arrays[0], entry, h) for entry in Entries(x.shape)], x.shape)


QUOTIENT = "(f(x + step) - f(x - step)) / (2 * h)"
LOOP = "for at in np.ndindex(x.shape):"
STEP = "step = np.zeros_like(x)"
WRITTEN = f"{STEP}\n        step[at] = h\n        gradient[at] = {QUOTIENT}"


EXERCISES = [
    Exercise(
        "02.3", minutes=15, lines=6,
        solution=finite_difference, reference=by_gradcheck, inputs=draw_inputs, edges=small_step, outputs=("gradient",),
        mistakes=(
            Mistake("FD-1a", {"f(x - step)": "f(x)", "(2 * h)": "h"}),
            Mistake("FD-1b", {"f(x - step)": "f(x)"}),
            Mistake("FD-2a", {"(2 * h)": "h"}),
            Mistake("FD-2b", {"(2 * h)": "2 * h"}),
            Mistake("FD-3", {"f(x + step) - f(x - step)": "f(x - step) - f(x + step)"}),
            Mistake("FD-4a", {"step[at] = h": "step[...] = h"}),
            Mistake("FD-4b", {"for at in np.ndindex(x.shape):": "for at in range(len(x)):"}),
            Mistake("FD-5a", {
                "for at in np.ndindex(x.shape):\n        step = np.zeros_like(x)":
                    "step = np.zeros_like(x)\n    for at in np.ndindex(x.shape):"}),
            Mistake("FD-5c", {
                "step = np.zeros_like(x)\n        step[at] = h\n"
                "        gradient[at] = (f(x + step) - f(x - step)) / (2 * h)":
                    "x[at] += h\n        high = f(x)\n        x[at] -= 2 * h\n"
                    "        gradient[at] = (high - f(x)) / (2 * h)\n        x[at] += h"}),
            Mistake("FD-5d", {
                "gradient = np.zeros_like(x)": "x, gradient = x.copy(), np.zeros_like(x)",
                "step = np.zeros_like(x)\n        step[at] = h\n"
                "        gradient[at] = (f(x + step) - f(x - step)) / (2 * h)":
                    "x[at] += h\n        high = f(x)\n        x[at] -= 2 * h\n"
                    "        gradient[at] = (high - f(x)) / (2 * h)"}),
            Mistake("FD-15", {
                "np.ndindex(x.shape)": "range(x.size)",
                "step = np.zeros_like(x)": "step = np.zeros(x.size)",
                "gradient = np.zeros_like(x)": "gradient = np.zeros(x.size)"}),
        ),
        alternatives={
            "moves a copy": {
                WRITTEN: "moved = x.copy()\n        moved[at] = x[at] + h\n        high = f(moved)\n        moved[at] "
                         "= x[at] - h\n        gradient[at] = (high - f(moved)) / (2 * h)"},
            "restores the value": {WRITTEN: "kept = x[at]\n        x[at] = kept + h\n        high = f(x)\n        "
                                    "x[at] = kept - h\n        low = f(x)\n        x[at] = kept\n        gradient[at] "
                                    "= (high - low) / (2 * h)"},
            "the rounded step": {"/ (2 * h)": "/ ((x[at] + h) - (x[at] - h))"},
            "a flat copy": {f"{LOOP}\n        {STEP}\n        step[at] = h\n        gradient[at]":
                            "for at in range(x.size):\n        step = np.zeros_like(x)\n        step.flat[at] = h\n"
                            "        gradient.flat[at]"}}),
]
