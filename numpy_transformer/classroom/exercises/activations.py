"""ReLU and GELU, forward and backward."""

import math

import numpy as np

from ...layers import GELU, ReLU
from ..exercise import Exercise, Mistake


def relu_backward(x, dy):
    """The gradient of y = max(0, x), entry by entry.

    x: any shape, what forward saw.  dy: the same shape, dL/dy.  Return dx: the same shape and dtype, dL/dx.
    At x = 0 there is a corner: a slope of 0, of 1 and all between them pass there.
    """
    return dy * (x > 0)


def draw_pair(rng, n):
    """x and dy, N(0, 1.5²): the tails of GELU are seen too."""
    return 1.5 * rng.standard_normal((*n.lead, n.D)), rng.standard_normal((*n.lead, n.D))


def corners(rng):
    """Exact zeros in x, with dy = 0, since any slope is right there; and zeros in dy alone."""
    x, dy = rng.standard_normal((2, 4, 6))
    x[1, ::2] = dy[1] = dy[2, ::3] = 0
    return [("exact zeros in x and dy", (x, dy))]


def by(layer, x, dy):
    layer(x)
    return layer.backward(dy)


def gelu(x):
    """GELU in its tanh form, y = x (1 + tanh(c (x + 0.044715 x³))) / 2 with c = sqrt(2 / pi), entry by entry.

    x: any shape.  Return y: the same shape and dtype. This is the form of GPT-2; the exact one, x Φ(x), is another
    function.
    """
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x ** 3))
    return x * (1 + t) / 2


def gelu_backward(x, dy):
    """The gradient of GELU in its tanh form, y = x (1 + t) / 2, t = tanh(c (x + 0.044715 x³)), c = sqrt(2 / pi).

    x: any shape, what forward saw.  dy: the same shape, dL/dy.  Return dx: the same shape, dL/dx.
    """
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x ** 3))
    dt = (1 - t ** 2) * c * (1 + 3 * 0.044715 * x ** 2)
    slope = (1 + t) / 2 + x * dt / 2
    return dy * slope


TANH, PHI = "np.tanh(c * (x + 0.044715 * x ** 3))", "np.vectorize(math.erf)(x / math.sqrt(2))"
EXERCISES = [
    Exercise(
        "09.1", "ReLU, backward", minutes=5, lines=1,
        solution=relu_backward, reference=lambda x, dy: by(ReLU(), x, dy), inputs=draw_pair, edges=corners,
        outputs=("dx",),
        hints=("Move one entry of x a little. Where does y move, and by how much?",
               "The slope is 1 where x > 0 and 0 where x < 0: what forward saw decides, not the sign of dy.",
               "dx = dy * (x > 0): a new array; x and dy stay as they are."),
        mistakes=(
            Mistake("ACT-1", {"(x > 0)": "(dy > 0)"},
                    "That is ReLU of dy. The mask comes from what forward saw, x; dy may have any sign."),
            Mistake("ACT-2a", {"dy * (x > 0)": "dy"},
                    "The mask is missing: where x < 0, y is 0 and does not move with x."),
            Mistake("ACT-2b", {"(x > 0)": "x"}, "The slope of max(0, x) is 0 or 1; here dy is multiplied by x itself."),
            Mistake("ACT-2c", {"(x > 0)": "np.maximum(0, x)"},
                    "The slope of max(0, x) is 0 or 1; here dy is multiplied by the output of forward."),
            Mistake("ACT-2d", {"dy * (x > 0)": "(x > 0).astype(x.dtype)"},
                    "That is the slope alone: the chain rule multiplies it by dy."),
            Mistake("ACT-3", {"(x > 0)": "(np.maximum(x, 0) / x)"},
                    "The slope as y / x is 0 / 0 = NaN where x is exactly 0. Compare instead of dividing."),
            Mistake("ACT-4", {"(x > 0)": "(x < 0)"}, "The mask is reversed: the gradient should pass where x > 0."),
            Mistake("LIN-8", {"return dy * (x > 0)": "dy[x < 0] = 0\n    return dy"},
                    "The values are right, but dy belongs to the caller, who may need it again. Make a new array."),
        ),
        alternatives={"slope 1 at 0": {"x > 0": "x >= 0"}, "where": {"dy * (x > 0)": "np.where(x > 0, dy, 0)"}}),
    Exercise(
        "09.2", "GELU, the tanh form", minutes=5, lines=3,
        solution=gelu, reference=lambda x: GELU("tanh")(x), inputs=lambda rng, n: draw_pair(rng, n)[:1],
        hints=("Write it from the inside out: the cubic, times c, tanh, then what stands around it.",
               "math.sqrt gives a plain number that keeps float32; np.sqrt(2 / np.pi) would make it float64.",
               "t = np.tanh(c * (x + 0.044715 * x ** 3)), and y is x times (1 + t) / 2."),
        mistakes=(
            Mistake("GEL-1a", {TANH: PHI},
                    "That is the exact GELU, with erf: here the tanh form is asked for. They differ by "
                    "up to 5e-4."),
            Mistake("GEL-1b", {TANH: "np.tanh(1.702 * x / 2)"},
                    "That is x sigmoid(1.702 x), a third variant, which differs by up to 0.02. The tanh form is asked "
                    "for."),
            Mistake("GEL-6a", {"0.044715 *": "0.44715 *"},
                    "The constant of the cubic is ten times too large: count the zeros."),
            Mistake("GEL-6b", {"x + 0.044715 * x ** 3": "x"}, "The cubic term is missing."),
            Mistake("GEL-6c", {"math.sqrt(2 / math.pi)": "math.sqrt(2 * math.pi)"},
                    "c is sqrt(2 / pi), not sqrt(2 pi)."),
            Mistake("GEL-6h", {"2 / math.pi)": "math.pi / 2)"}, "c is upside down: it is sqrt(2 / pi)."),
            Mistake("GEL-6d", {"(1 + t) / 2": "(1 + t)"},
                    "The half is missing: for large x the result should be x, and yours is 2 x."),
            Mistake("GEL-6e", {"c * (x + 0.044715 * x ** 3)": "c * x + 0.044715 * x ** 3"},
                    "c multiplies x alone: the cubic stands in the same bracket."),
            Mistake("GEL-6f", {"x ** 3": "x ** 2"},
                    "A square stands where the cube should be: then the inside is not odd in x."),
            Mistake("GEL-6g", {"x * (1 + t)": "(1 + t)"},
                    "That is the factor alone, between 0 and 1: it multiplies x."),
        ),
        alternatives={"by a sigmoid": {"x * (1 + t) / 2": "x / (1 + np.exp(-2 * c * (x + 0.044715 * x * x * x)))"}}),
    Exercise(
        "09.3", "GELU, backward", minutes=15, lines=5,
        solution=gelu_backward, reference=lambda x, dy: by(GELU("tanh"), x, dy), inputs=draw_pair, outputs=("dx",),
        hints=("x stands twice in y: as a factor, and inside of t. Which rule is that?",
               "Product rule: dy/dx = (1 + t) / 2 + x / 2 dt/dx. For dt/dx you need tanh' = 1 - tanh² and the slope of "
               "x + 0.044715 x³.",
               "dt/dx = (1 - t²) c (1 + 3 · 0.044715 x²), and dx is dy times the sum of both terms."),
        mistakes=(
            Mistake("GEL-2", {"0.044715 * x ** 3))\n": f"0.044715 * x ** 3))\n    t = {PHI}\n",
                              "(1 - t ** 2) * c * (1 + 3 * 0.044715 * x ** 2)": "c * np.exp(-x ** 2 / 2)"},
                    "That is the derivative of the exact GELU; forward ran the tanh form. Differentiate what you ran."),
            Mistake("GEL-3", {" + x * dt / 2": ""}, "Only the first term of the product rule: t depends on x, too."),
            Mistake("GEL-4a", {" * (1 + 3 * 0.044715 * x ** 2)": ""},
                    "The chain rule goes one step further: the slope of what stands inside of tanh, x + 0.044715 x³, "
                    "is not 1."),
            Mistake("GEL-4b", {"3 * 0.044715": "0.044715"}, "The slope of x³ is not x²: a factor is missing."),
            Mistake("GEL-5a", {"(1 - t ** 2)": "(1 - t)"}, "tanh has the slope 1 - tanh², with the square."),
            Mistake("GEL-5b", {" * c * (1 +": " * (1 +"},
                    "c multiplies everything inside of tanh, so dt/dx carries it too."),
            Mistake("GEL-5c", {"x * dt / 2": "x * dt"}, "The half belongs to both terms of the product rule."),
            Mistake("GEL-5d", {"c * (1 + 3 * 0.044715 * x ** 2)": "(c + 3 * 0.044715 * x ** 2)"},
                    "c stands at the 1 only: it multiplies everything inside of tanh, the cubic too."),
            Mistake("GEL-7", {"(1 + t) / 2 + ": ""}, "Only the second term of the product rule: x is a factor, too."),
            Mistake("GEL-8", {"+ x * dt": "+ dt"}, "In the second term of the product rule x stays as a factor."),
            Mistake("GEL-9", {"dy * slope": "slope"}, "That is the slope alone: the chain rule multiplies it by dy."),
            Mistake("GEL-10", {"dy * slope": "dy * x * (1 + t) / 2"},
                    "dy is multiplied by the output of forward; it should be multiplied by the slope."),
        )),
]
