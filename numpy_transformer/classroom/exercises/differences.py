"""The gradient of a function by central differences."""

import numpy as np

from ...checks.gradcheck import Checker, Entries
from ..exercise import Exercise, Mistake
from ..worker import Function


def finite_difference(f, x, h):
    """The gradient of f at x by central differences: each entry is moved by h up and by h down, all others stay.

    f: takes an array of x's shape, returns one number.  x: (...), any shape.  h: the step, a small number above 0.
    Return gradient: (...), the shape of x, its entries (approximately) the derivatives of f in the entries of x.
    """
    gradient = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = h
        gradient[at] = (f(x + step) - f(x - step)) / (2 * h)
    return gradient


def draw(rng, n):
    """f couples all entries, so one that was not put back shows; h is so large that every other formula shows, too."""
    f = Function("lambda x: np.sum(w * np.tanh(x)) + np.log(np.sum(np.exp(x)))", w=rng.standard_normal(n.lead))
    return f, rng.standard_normal(n.lead), 0.01 * n.B


def small_step(rng):
    f = Function("lambda x: np.sum(w * x ** 3)", w=rng.standard_normal(4))
    return [("a small step", (f, rng.standard_normal(4), 1e-4))]


def by_gradcheck(f, x, h):
    """The central differences of gradcheck, asked of a module whose output is f(x)."""
    class Asked:
        def forward(self, x):
            return f(x)

        def backward(self, dy):
            return np.zeros_like(x)

    checker = Checker(Asked(), (x,), 0, randomize=False)
    checker.dy = 1.0
    return np.reshape([checker.central(checker.arrays[0], entry, h) for entry in Entries(x.shape)], x.shape)


QUOTIENT = "(f(x + step) - f(x - step)) / (2 * h)"
LOOP = "for at in np.ndindex(x.shape):"
STEP = "step = np.zeros_like(x)"
WRITTEN = f"{STEP}\n        step[at] = h\n        gradient[at] = {QUOTIENT}"

EXERCISES = [
    Exercise(
        "02.3", "Central differences", minutes=15, lines=6,
        solution=finite_difference, reference=by_gradcheck, inputs=draw, edges=small_step, outputs=("gradient",),
        hints=("An entry of the gradient says how f changes when that entry of x moves. How do you move one and leave "
               "the others?",
               "The entry goes from x - h to x + h: how far is that? Divide the change of f by it.",
               "For each index: step is zeros but h at the index; the entry is (f(x + step) - f(x - step)) / (2 * h)."),
        mistakes=(
            Mistake("FD-1a", {"f(x - step)": "f(x)", "(2 * h)": "h"},
                    "That is the forward difference. Its error shrinks like h, that of the central difference like h²: "
                    "move the entry to both sides."),
            Mistake("FD-1b", {"f(x + step)": "f(x)", "(2 * h)": "h"},
                    "That is the backward difference. Its error shrinks like h, that of the central difference like "
                    "h²: move the entry to both sides."),
            Mistake("FD-2a", {"(2 * h)": "h"},
                    "All entries are twice as large as they should be: between the two values of f the entry has moved "
                    "farther than h."),
            Mistake("FD-2b", {"(2 * h)": "2 * h"},
                    "The result is multiplied by h: a / 2 * b is (a / 2) * b in Python. Put the divisor in "
                    "parentheses."),
            Mistake("FD-2c", {" / (2 * h)": ""},
                    "The difference of f is not divided by the distance: a derivative is a change per distance."),
            Mistake("FD-3", {"f(x + step) - f(x - step)": "f(x - step) - f(x + step)"},
                    "The sign is reversed: where f grows with x the derivative is positive."),
            Mistake("FD-4a", {"step[at] = h": "step[...] = h"},
                    "All entries of x are moved at once. Each derivative asks what its own entry does while the "
                    "others stay."),
            Mistake("FD-4b", {LOOP: "for at in range(len(x)):"},
                    "The loop goes over the first axis alone, so whole rows are moved at once. Visit each entry; "
                    "np.ndindex(x.shape) gives all indices."),
            Mistake("FD-4c", {"f(x + step) - f(x - step)": "f(x[at] + h) - f(x[at] - h)"},
                    "f is given a single number. It depends on the whole array: give it the array with one entry "
                    "moved."),
            Mistake("FD-5a", {f"{LOOP}\n        {STEP}": f"{STEP}\n    {LOOP}"},
                    "Entries that have been visited stay moved while the next ones are measured. Put each back first."),
            Mistake("FD-5b", {WRITTEN: "x[at] += h\n        high = f(x)\n        x[at] -= 2 * h\n        "
                              "gradient[at] = (high - f(x)) / (2 * h)"},
                    "The entries of x are moved in place and never put back: what follows is measured at another x, "
                    "and the caller's array is changed."),
            Mistake("FD-5c", {WRITTEN: "x[at] += h\n        high = f(x)\n        x[at] -= 2 * h\n        "
                              "gradient[at] = (high - f(x)) / (2 * h)\n        x[at] += h"},
                    "x is moved in place, and adding and subtracting h does not lead back to the last bit: (x + h) - "
                    "h is rounded. Work on a copy, or keep the old value and put it back."),
            Mistake("FD-6", {"step[at] = h": "step[at] = 1e-5", "(2 * h)": "2e-5"},
                    "The step is fixed in the code, and h is ignored. Which step is best depends on f and on the "
                    "precision, so the caller chooses it."),
            Mistake("FD-8", {"step[at] = h": "step[at] = h / 2", "(2 * h)": "h"},
                    "The entry is moved by h / 2 to each side. That is a central difference too, but of another step: "
                    "h up and h down is asked for."),
            Mistake("FD-7", {"(2 * h)": "(2 * h * x.size)"},
                    "The gradient is divided by the number of entries. It is no mean: each entry is a derivative of "
                    "its own."),
        ),
        alternatives={
            "moves "
            "a copy": {WRITTEN: "moved = x.copy()\n        moved[at] = x[at] + h\n        high = f(moved)\n        "
                             "moved[at] = x[at] - h\n        gradient[at] = (high - f(moved)) / (2 * h)"},
            "puts the value back": {WRITTEN: "kept = x[at]\n        x[at] = kept + h\n        high = f(x)\n        "
                                    "x[at] = kept - h\n        low = f(x)\n        x[at] = kept\n        "
                                    "gradient[at] = (high - low) / (2 * h)"},
            "the step as rounded": {"/ (2 * h)": "/ ((x[at] + h) - (x[at] - h))"},
            "a flat copy": {f"{LOOP}\n        {STEP}\n        step[at] = h\n        gradient[at]":
                            "for at in range(x.size):\n        step = np.zeros_like(x)\n        step.flat[at] = h\n"
                            "        gradient.flat[at]"}}),
]
