"""The gradient of a function by central differences."""

import numpy as np

from ...checks.gradcheck import Checker, Entries
from ..sandbox import Function
from .definition import Exercise, Mistake


def finite_difference(f, x, h):
    """Computes the gradient of f at x by central differences.

    Each entry of x in turn is moved up by h and down by h while all other entries stay unchanged.

    f: a function that takes an array of the shape of x and returns one number.
    x: (...), of any shape.
    h: the step, a small number greater than 0.
    Return gradient: (...), of the shape of x, with an approximation of df/dx for each entry of x.
    """
    gradient = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = h
        gradient[at] = (f(x + step) - f(x - step)) / (2 * h)
    return gradient


def draw(rng, n):
    """f couples all entries, so that an entry that is not restored has an effect; a large h tells formulas apart."""
    f = Function("lambda x: np.sum(w * np.tanh(x)) + np.log(np.sum(np.exp(x)))", w=rng.standard_normal(n.lead))
    return f, rng.standard_normal(n.lead), 0.01 * n.B


def small_step(rng):
    f = Function("lambda x: np.sum(w * x ** 3)", w=rng.standard_normal(4))
    return [("a small step", (f, rng.standard_normal(4), 1e-4))]


def by_gradcheck(f, x, h):
    """Computes the central differences with gradcheck, for a module whose output is f(x)."""
    class ScalarFunction:
        def forward(self, x):
            return f(x)

        def backward(self, dy):
            return np.zeros_like(x)

    checker = Checker(ScalarFunction(), (x,), 0, randomize=False)
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
        hints=("An entry of the gradient says how f changes when that entry of x moves. How can you move one entry and "
               "leave the others unchanged?",
               "The entry moves from x - h to x + h. How far is that? Divide the change of f by this distance.",
               "For each index, step is zero except for h at the index, and the gradient's entry is (f(x + step) - f(x "
               "- step)) / (2 * h)."),
        mistakes=(
            Mistake("FD-1a", {"f(x - step)": "f(x)", "(2 * h)": "h"},
                    "This is the forward difference. Its error is proportional to h, while that of the central "
                    "difference is proportional to h². Move the entry in both directions."),
            Mistake("FD-1b", {"f(x + step)": "f(x)", "(2 * h)": "h"},
                    "This is the backward difference. Its error is proportional to h, while that of the central "
                    "difference is proportional to h². Move the entry in both directions."),
            Mistake("FD-2a", {"(2 * h)": "h"},
                    "All your entries are twice as large as they should be. Between the two values of f, the entry has "
                    "moved farther than h."),
            Mistake("FD-2b", {"(2 * h)": "2 * h"},
                    "Your result is multiplied by h, because Python evaluates a / 2 * b as (a / 2) * b. Put the "
                    "divisor in parentheses."),
            Mistake("FD-2c", {" / (2 * h)": ""},
                    "You do not divide the change of f by the distance that the entry moved. A derivative is a change "
                    "per distance."),
            Mistake("FD-3", {"f(x + step) - f(x - step)": "f(x - step) - f(x + step)"},
                    "Your gradient has the wrong sign. Where f grows with x, the derivative is positive."),
            Mistake("FD-4a", {"step[at] = h": "step[...] = h"},
                    "You move all entries of x at once. Each partial derivative measures the effect of one entry while "
                    "the others stay unchanged."),
            Mistake("FD-4b", {LOOP: "for at in range(len(x)):"},
                    "Your loop runs over the first axis only, so it moves whole rows at once. Visit each entry; "
                    "np.ndindex(x.shape) gives all indices."),
            Mistake("FD-4c", {"f(x + step) - f(x - step)": "f(x[at] + h) - f(x[at] - h)"},
                    "You pass a single number to f. f depends on the whole array, so pass the array with one entry "
                    "moved."),
            Mistake("FD-5a", {f"{LOOP}\n        {STEP}": f"{STEP}\n    {LOOP}"},
                    "Entries that you have visited stay moved while you measure the next ones. Restore each entry "
                    "first."),
            Mistake("FD-5b", {WRITTEN: "x[at] += h\n        high = f(x)\n        x[at] -= 2 * h\n        "
                              "gradient[at] = (high - f(x)) / (2 * h)"},
                    "You move the entries of x in place and never restore them. The following entries are then "
                    "measured at a different x, and the caller's array is changed."),
            Mistake("FD-5d", {WRITTEN: "x[at] += h\n        high = f(x)\n        x[at] -= 2 * h\n        "
                              "gradient[at] = (high - f(x)) / h"},
                    "You move the entries of x in place and never restore them, so the following entries are measured "
                    "at a different x. And between the two values of f, the entry has moved farther than h, by which "
                    "you divide."),
            Mistake("FD-5e", {f"    {LOOP}\n": f"    x = x.copy()\n    {LOOP}\n",
                              f"{STEP}\n        step[at] = h\n        gradient[at] = {QUOTIENT}":
                              "x[at] += h\n        high = f(x)\n        x[at] -= 2 * h\n        "
                              "gradient[at] = (high - f(x)) / h"},
                    "You move the entries of your copy of x and never restore them, so the following entries are "
                    "measured at a different x. And between the two values of f, the entry has moved farther than h, "
                    "by which you divide."),
            Mistake("FD-5c", {WRITTEN: "x[at] += h\n        high = f(x)\n        x[at] -= 2 * h\n        "
                              "gradient[at] = (high - f(x)) / (2 * h)\n        x[at] += h"},
                    "You move x in place, and adding and then subtracting h does not restore the last bit, because x + "
                    "h is rounded. Work on a copy, or store the old value and put it back."),
            Mistake("FD-6", {"step[at] = h": "step[at] = 1e-5", "(2 * h)": "2e-5"},
                    "You use a fixed step and ignore h. The best step depends on f and on the precision, so the caller "
                    "chooses it."),
            Mistake("FD-8", {"step[at] = h": "step[at] = h / 2", "(2 * h)": "h"},
                    "You move the entry by h / 2 in each direction. That is a central difference too, but with a "
                    "different step. The exercise asks for h up and h down."),
            Mistake("FD-7", {"(2 * h)": "(2 * h * x.size)"},
                    "You divide the gradient by the number of entries. The gradient is not a mean: each entry is a "
                    "derivative of its own."),
            Mistake("FD-9a", {
                    f"{LOOP}\n        {STEP}\n        step[at] = h\n        gradient[at] = {QUOTIENT}":
                    "gradient = (f(x + h) - f(x - h)) / (2 * h)"},
                    "You move all entries of x at once and return one number. The gradient has an entry for each "
                    "entry of x, measured while the others stay unchanged."),
            Mistake("FD-9b", {"f(x - step)": "f(x - h)"},
                    "f(x - h) moves all entries of x down, but only one entry may move. The others stay unchanged in "
                    "both values of f."),
            Mistake("FD-9c", {"f(x - step)": "f(x)"},
                    "You move the entry in one direction only, but divide by 2 h. The central difference moves it in "
                    "both directions."),
            Mistake("FD-11", {
                    WRITTEN:
                    "x[at] += h\n        high = f(x)\n        x[at] -= h\n        gradient[at] = (high - f(x)) / (2 "
                    "* h)"},
                    "After you have taken h away again, x is where it was before. The second value of f must be "
                    "measured at x - h."),
            Mistake("FD-12", {"(2 * h)": "h ** 2"},
                    "You divide by h². The change of f is divided by the distance that the entry has moved."),
            Mistake("FD-13", {"step[at] = h": "step[at] = 2 * h", "(2 * h)": "(4 * h)"},
                    "You move the entry by 2 h in each direction. That is a central difference too, but with a "
                    "different step. The exercise asks for h up and h down."),
            Mistake("FD-14", {QUOTIENT: "(f(x + step) - 2 * f(x) + f(x - step)) / h ** 2"},
                    "This is the second derivative, which measures how the slope changes. The gradient is the slope "
                    "itself."),
            Mistake("FD-15", {
                    "np.ndindex(x.shape)": "range(x.size)", STEP: "step = np.zeros(x.size)",
                    "gradient = np.zeros_like(x)": "gradient = np.zeros(x.size)"},
                    "Your step is a flat array, which cannot be added to an x with several axes. Give it the shape "
                    "of x."),
            Mistake("FD-16", {"np.ndindex(x.shape)": "np.ndindex(x.shape[0], x.shape[1])"},
                    "Your loops visit two axes. x may have any shape; np.ndindex(x.shape) gives the indices of all "
                    "its entries."),
            Mistake("FD-17", {"gradient = np.zeros_like(x)": "gradient = 0", "gradient[at] =": "gradient +="},
                    "You add up the derivatives of all entries. Each of them is an entry of the gradient."),
            Mistake("FD-18", {"f(x + step) - f": "f(x + step) + f"},
                    "You add the two values of f. The derivative is the change between them."),
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
