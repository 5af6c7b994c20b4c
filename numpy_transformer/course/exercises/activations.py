"""ReLU and GELU, forward and backward."""

import math

import numpy as np

from ...layers import GELU, ReLU
from .definition import Exercise, Mistake


def relu_backward(x, dy):
    """Computes the gradient of ReLU, y = max(0, x), for each entry.

    At x = 0 the function has a corner, where any slope from 0 to 1 is accepted.

    x: any shape, the input of forward.
    dy: the same shape, dL/dy.
    Return dx: the same shape and dtype, dL/dx.
    """
    return dy * (x > 0)


def draw_pair(rng, n):
    """x and dy; x is drawn from N(0, 1.5²), so that the tails of GELU are covered too."""
    return 1.5 * rng.standard_normal((*n.lead, n.D)), rng.standard_normal((*n.lead, n.D))


def corners(rng):
    """Exact zeros in x where dy = 0, because any slope is correct there, and zeros only in dy."""
    x, dy = rng.standard_normal((2, 4, 6))
    x[1, ::2] = dy[1] = dy[2, ::3] = 0
    return [("exact zeros in x and dy", (x, dy))]


def run_backward(layer, x, dy):
    layer(x)
    return layer.backward(dy)


def gelu(x):
    """Computes the tanh approximation of GELU, y = x (1 + tanh(c (x + 0.044715 x³))) / 2 with c = sqrt(2 / pi).

    GPT-2 uses this form. The exact GELU, x Φ(x), is a different function.

    x: any shape.
    Return y: the same shape and dtype.
    """
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x ** 3))
    return x * (1 + t) / 2


def gelu_backward(x, dy):
    """Computes the gradient of the tanh approximation of GELU.

    The forward pass was y = x (1 + t) / 2 with t = tanh(c (x + 0.044715 x³)) and c = sqrt(2 / pi).

    x: any shape, the input of forward.
    dy: the same shape, dL/dy.
    Return dx: the same shape, dL/dx.
    """
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x ** 3))
    dt = (1 - t ** 2) * c * (1 + 3 * 0.044715 * x ** 2)
    slope = (1 + t) / 2 + x * dt / 2
    return dy * slope


TANH = "np.tanh(c * (x + 0.044715 * x ** 3))"
PHI = "np.vectorize(math.erf)(x / math.sqrt(2))"

EXERCISES = [
    Exercise(
        "09.1", "ReLU, backward", minutes=5, lines=1,
        solution=relu_backward, reference=lambda x, dy: run_backward(ReLU(), x, dy), inputs=draw_pair, edges=corners,
        outputs=("dx",),
        hints=("Move one entry of x a little. Which entry of y moves, and by how much?",
               "The slope is 1 where x > 0 and 0 where x < 0. It depends on the input of forward, not on the sign of "
               "dy.",
               "dx = dy * (x > 0), as a new array that leaves x and dy unchanged."),
        mistakes=(
            Mistake("ACT-1", {"(x > 0)": "(dy > 0)"},
                    "You compute the ReLU of dy. The mask depends on the input of forward, x, while dy may have any "
                    "sign."),
            Mistake("ACT-2a", {"dy * (x > 0)": "dy"},
                    "The mask is missing, or it lets everything pass. Where x < 0, y is 0 and does not change with "
                    "x."),
            Mistake("ACT-2b", {"(x > 0)": "x"}, "The slope of max(0, x) is 0 or 1. You multiply dy by x itself."),
            Mistake("ACT-2c", {"(x > 0)": "np.maximum(0, x)"},
                    "The slope of max(0, x) is 0 or 1. You multiply dy by the output of forward."),
            Mistake("ACT-2d", {"dy * (x > 0)": "(x > 0).astype(x.dtype)"},
                    "You return only the slope. By the chain rule, dx is the slope times dy."),
            Mistake("ACT-3", {"(x > 0)": "(np.maximum(x, 0) / x)"},
                    "You compute the slope as y / x, which is 0 / 0 = NaN where x is exactly 0. Compare instead of "
                    "dividing."),
            Mistake("ACT-4", {"(x > 0)": "(x < 0)"}, "Your mask is reversed. The gradient must pass where x > 0."),
            Mistake("ACT-2e", {"(x > 0)": "np.sign(x)"},
                    "Your slope is -1 where x < 0, which is the slope of |x|. That of max(0, x) is 0 there."),
            Mistake("ACT-2f", {"(x > 0)": "np.where(x > 0, 1, 0.01)"},
                    "Your slope is 0.01 where x < 0, as for a leaky ReLU. That of max(0, x) is 0 there."),
            Mistake("ACT-5", {"dy * (x > 0)": "dy * x > 0"},
                    "You compare dy * x with 0, because * comes before >. Put the comparison of x in parentheses."),
            Mistake("ACT-6", {"dy * (x > 0)": "np.maximum(0, x)"},
                    "You return the output of forward. Backward multiplies dy by the slope."),
            Mistake("ACT-7", {"(x > 0)": "(x > 0) * (dy > 0)"},
                    "You let only positive gradients pass. The mask depends on x alone, while dy may have any sign."),
            Mistake("ACT-8", {"dy * (x > 0)": "dy + (x > 0)"},
                    "You add the slope to dy. By the chain rule, dx is the slope times dy."),
            Mistake("ACT-9", {"return dy * (x > 0)": "return dy if x > 0 else 0 * dy"},
                    "if needs one truth value, but x > 0 is an array with one for each entry. Use this array as a "
                    "mask."),
            Mistake("ACT-12", {"dy * (x > 0)": "dy[x > 0]"},
                    "Indexing with a mask returns only the entries that it selects, in one row. dx has the shape of "
                    "x."),
            Mistake("LIN-8b", {"return dy * (x > 0)": "x[x <= 0] = 0\n    x[x > 0] = 1\n    return dy * x"},
                    "Your values are correct, but you change x, which belongs to the caller. Make a new array."),
            Mistake("LIN-8", {"return dy * (x > 0)": "dy[x < 0] = 0\n    return dy"},
                    "Your values are correct, but you change dy, which belongs to the caller. Make a new array."),
        ),
        alternatives={"slope 1 at 0": {"x > 0": "x >= 0"}, "where": {"dy * (x > 0)": "np.where(x > 0, dy, 0)"}}),
    Exercise(
        "09.2", "GELU, the tanh form", minutes=5, lines=3,
        solution=gelu, reference=lambda x: GELU("tanh")(x), inputs=lambda rng, n: draw_pair(rng, n)[:1],
        hints=("Write it from the inside out: first the cubic polynomial, then c, tanh, and the factors around it.",
               "math.sqrt gives a Python float, which keeps float32. np.sqrt(2 / np.pi) would convert to float64.",
               "t = np.tanh(c * (x + 0.044715 * x ** 3)), and y is x times (1 + t) / 2."),
        mistakes=(
            Mistake("GEL-1a", {TANH: PHI},
                    "This is the exact GELU, with erf. The exercise asks for the tanh approximation, which differs "
                    "from it by up to 5e-4."),
            Mistake("GEL-1b", {TANH: "np.tanh(1.702 * x / 2)"},
                    "This is x sigmoid(1.702 x), a third variant, which differs by up to 0.02. The exercise asks for "
                    "the tanh approximation."),
            Mistake("GEL-6a", {"0.044715 *": "0.44715 *"},
                    "Your coefficient of the cubic term is ten times too large. Count the zeros."),
            Mistake("GEL-6b", {"x + 0.044715 * x ** 3": "x"}, "The cubic term is missing."),
            Mistake("GEL-6c", {"math.sqrt(2 / math.pi)": "math.sqrt(2 * math.pi)"},
                    "Your c is sqrt(2 pi). It must be sqrt(2 / pi)."),
            Mistake("GEL-6h", {"2 / math.pi)": "math.pi / 2)"}, "Your c is inverted. It must be sqrt(2 / pi)."),
            Mistake("GEL-6d", {"(1 + t) / 2": "(1 + t)"},
                    "The factor 1/2 is missing. For large x the result should be close to x, but yours is 2 x."),
            Mistake("GEL-6e", {"c * (x + 0.044715 * x ** 3)": "c * x + 0.044715 * x ** 3"},
                    "You multiply only x by c. The cubic term belongs inside the same parentheses."),
            Mistake("GEL-6f", {"x ** 3": "x ** 2"},
                    "You use a square instead of the cube, so the argument of tanh is not an odd function of x."),
            Mistake("GEL-6g", {"x * (1 + t)": "(1 + t)"},
                    "You return only the factor (1 + tanh(...)) / 2, which lies between 0 and 1. It must be multiplied "
                    "by x."),
            Mistake("GEL-1c", {TANH: "np.tanh(x / 2)"},
                    "This is SiLU, x sigmoid(x). The exercise asks for the tanh approximation of GELU."),
            Mistake("GEL-1d", {"x * (1 + t) / 2": "np.maximum(0, x)"},
                    "This is ReLU. The exercise asks for the tanh approximation of GELU."),
            Mistake("GEL-6i", {"math.sqrt(2 / math.pi)": "2 / math.pi"}, "Your c is 2 / pi. The root is missing."),
            Mistake("GEL-6j", {"math.sqrt(2 / math.pi)": "math.sqrt(2) / math.pi"},
                    "Your c is sqrt(2) / pi. pi belongs under the root, too."),
            Mistake("GEL-6k", {"(1 + t)": "(1 - t)"},
                    "The sign of tanh is wrong, so large positive x give 0. They should give almost x."),
            Mistake("GEL-6l", {"x + 0.044715 * x ": "x - 0.044715 * x "}, "You subtract the cubic term. It is added."),
            Mistake("GEL-6m", {"0.044715 * x ** 3": "(0.044715 * x) ** 3"},
                    "You raise the coefficient of the cubic term to the third power as well. Only x is cubed."),
            Mistake("GEL-6n", {"(x + 0.044715 * x ** 3)": "(x + 0.044715 * x) ** 3"},
                    "You raise the whole sum to the third power. Only the x of its second term is cubed."),
            Mistake("GEL-6o", {"0.044715 *": "0.0044715 *"},
                    "Your coefficient of the cubic term is ten times too small. Count the zeros."),
            Mistake("GEL-6p", {"0.044715 *": "0.0447 *"},
                    "Your coefficient of the cubic term is rounded. Write all of its digits."),
            Mistake("GEL-6q", {"x ** 3": "x * 3"}, "You write x * 3. The cube is x ** 3."),
            Mistake("ERR-1", {"0.044715 * x ** 3": "0.044715 * x ^ 3"},
                    "In Python, ^ is not a power but the exclusive or of two integers. Powers are written **."),
            Mistake("ERR-2", {"np.tanh(": "math.tanh("},
                    "The functions of math take a single number. For arrays use NumPy's."),
            Mistake("GEL-6r", {"x * (1 + t)": "(x + t)"},
                    "You add x and the tanh. x is multiplied by the whole factor (1 + tanh(...)) / 2."),
            Mistake("GEL-6A", {"x * (1 + t) / 2": "x + t / 2"},
                    "You add half of the tanh to x. x is multiplied by the whole factor (1 + tanh(...)) / 2."),
            Mistake("GEL-6s", {"(1 + t) / 2": "(1 + t / 2)"},
                    "You halve only the tanh. The sum 1 + tanh(...) is halved."),
            Mistake("GEL-6t", {"(1 + t)": "t"}, "The 1 is missing. x is multiplied by (1 + tanh(...)) / 2."),
            Mistake("GEL-11", {TANH: "c * (x + 0.044715 * x ** 3)"},
                    "You leave out tanh and use its argument instead."),
            Mistake("GEL-12", {"0.044715 * x ** 3": "x ** 3"}, "The coefficient of the cubic term is missing."),
            Mistake("GEL-13", {"(x + 0.044715 * x ** 3)": "(0.044715 * x ** 3)"},
                    "In the argument of tanh, the x before the cubic term is missing."),
            Mistake("GEL-7a", {TANH: "np.tanh(c) * (x + 0.044715 * x ** 3)"},
                    "You take the tanh of c only. Its argument is the whole product c (x + 0.044715 x³)."),
            Mistake("GEL-6u", {"c * (x + 0.044715 * x ** 3)": "x + 0.044715 * x ** 3"},
                    "The factor c is missing. It multiplies the whole argument of tanh."),
            Mistake("GEL-6v", {"c * (x + 0.044715 * x ** 3)": "x + c * 0.044715 * x ** 3"},
                    "You multiply only the cubic term by c. It multiplies the whole argument of tanh."),
            Mistake("GEL-6w", {TANH: "1 / (1 + np.exp(-c * (x + 0.044715 * x ** 3)))"},
                    "You use a sigmoid, which lies between 0 and 1. The formula has tanh, between -1 and 1."),
            Mistake("GEL-6x", {"x * (1 + t) / 2": "x / (1 + np.exp(-c * (x + 0.044715 * x ** 3)))"},
                    "x (1 + tanh(a)) / 2 is x sigmoid(2 a). Your form with a sigmoid lacks the 2."),
            Mistake("GEL-6y", {"math.sqrt(2 / math.pi)": "0.8"},
                    "Your c is rounded to 0.8. Compute it: the answers are compared to seven digits."),
            Mistake("GEL-6z", {"math.sqrt(2 / math.pi)": "0.7979"},
                    "Your c is rounded to 0.7979. Compute it: the answers are compared to seven digits."),
        ),
        alternatives={"with a sigmoid": {"x * (1 + t) / 2": "x / (1 + np.exp(-2 * c * (x + 0.044715 * x * x * x)))"}}),
    Exercise(
        "09.3", "GELU, backward", minutes=15, lines=5,
        solution=gelu_backward, reference=lambda x, dy: run_backward(GELU("tanh"), x, dy), inputs=draw_pair,
        outputs=("dx",),
        hints=("x appears twice in y: as a factor and inside t. Which rule of differentiation applies?",
               "By the product rule, dy/dx = (1 + t) / 2 + x / 2 dt/dx. For dt/dx you need tanh' = 1 - tanh² and the "
               "derivative of x + 0.044715 x³.",
               "dt/dx = (1 - t²) c (1 + 3 · 0.044715 x²), and dx is dy times the sum of both terms."),
        mistakes=(
            Mistake("GEL-2", {"0.044715 * x ** 3))\n": f"0.044715 * x ** 3))\n    t = {PHI}\n",
                              "(1 - t ** 2) * c * (1 + 3 * 0.044715 * x ** 2)": "c * np.exp(-x ** 2 / 2)"},
                    "This is the derivative of the exact GELU, but forward computed the tanh approximation. "
                    "Differentiate the function that forward computed."),
            Mistake("GEL-3", {" + x * dt / 2": ""},
                    "You have only the first term of the product rule, but t depends on x too."),
            Mistake("GEL-4a", {" * (1 + 3 * 0.044715 * x ** 2)": ""},
                    "One factor of the chain rule is missing: the derivative of the argument of tanh, x + 0.044715 x³, "
                    "is not 1."),
            Mistake("GEL-4b", {"3 * 0.044715": "0.044715"}, "The derivative of x³ is not x². A factor is missing."),
            Mistake("GEL-5a", {"(1 - t ** 2)": "(1 - t)"}, "The derivative of tanh is 1 - tanh², with the square."),
            Mistake("GEL-5b", {" * c * (1 +": " * (1 +"},
                    "The factor c is missing in the derivative of t. It multiplies the whole argument of tanh."),
            Mistake("GEL-5c", {"x * dt / 2": "x * dt"}, "The factor 1/2 belongs to both terms of the product rule."),
            Mistake("GEL-5d", {"c * (1 + 3 * 0.044715 * x ** 2)": "(c + 3 * 0.044715 * x ** 2)"},
                    "You multiply only the 1 by c. It multiplies the whole argument of tanh, including the cubic "
                    "term."),
            Mistake("GEL-7", {"(1 + t) / 2 + ": ""},
                    "You have only the second term of the product rule, but x is also a factor of y."),
            Mistake("GEL-8", {"+ x * dt": "+ dt"}, "In the second term of the product rule, x remains as a factor."),
            Mistake("GEL-9", {"dy * slope": "slope"},
                    "You return only the slope. By the chain rule, dx is the slope times dy."),
            Mistake("GEL-10", {"dy * slope": "dy * x * (1 + t) / 2"},
                    "You multiply dy by the output of forward. It must be multiplied by the slope."),
            Mistake("GEL-2b", {"dy * slope": "dy * (1 + x / (1 + np.exp(x))) / (1 + np.exp(-x))"},
                    "This is the derivative of SiLU, x sigmoid(x). Differentiate the function that forward computed."),
            Mistake("GEL-2c", {"dy * slope": "dy * (x > 0)"},
                    "This is the derivative of ReLU. Differentiate the function that forward computed."),
            Mistake("GEL-4c", {"* x ** 2)\n": "* x)\n"},
                    "The derivative of x³ contains x², but you have x without the square."),
            Mistake("GEL-4d", {"3 * 0.044715 * x ** 2": "3 * 0.044715 * x ** 3"},
                    "The derivative of x³ contains x², but you keep the cube."),
            Mistake("GEL-4e", {"3 * 0.044715": "2 * 0.044715"},
                    "The derivative of x³ has the factor 3, the exponent. You have 2."),
            Mistake("GEL-4f", {"(1 + 3 * 0.044715 * x ** 2)": "(3 * 0.044715 * x ** 2)"},
                    "The argument of tanh is a sum. You differentiate its cubic term, but not the x before it."),
            Mistake("GEL-4g", {"(1 + 3 * 0.044715": "(x + 3 * 0.044715"},
                    "The argument of tanh is a sum. You differentiate its cubic term, but keep the x before it."),
            Mistake("GEL-4h", {"3 * 0.044715": "3"},
                    "The coefficient of the cubic term is missing in your derivative. It remains when x³ is "
                    "differentiated."),
            Mistake("GEL-6k", {"(1 + t) / 2 +": "(1 - t) / 2 +"},
                    "In the first term of the product rule, the factor of forward remains as it is: (1 + t) / 2, with "
                    "a plus."),
            Mistake("GEL-5e", {"(1 - t ** 2)": "(1 + t ** 2)"},
                    "The derivative of tanh is 1 - tanh². You have a plus."),
            Mistake("GEL-5f", {"+ x * dt": "- x * dt"},
                    "The second term of the product rule has the wrong sign. tanh rises everywhere: its derivative, "
                    "1 - tanh², is positive."),
            Mistake("GEL-5g", {"(1 + t) / 2 +": "(1 + t) +"},
                    "The factor 1/2 belongs to both terms of the product rule. The first one lacks it."),
            Mistake("GEL-5h", {"(1 + t) / 2 + x * dt / 2": "(1 + t) + x * dt"},
                    "The factor 1/2 of forward is missing in both terms."),
            Mistake("GEL-5i", {"(1 + t) / 2 +": "t / 2 +"},
                    "In the first term of the product rule, the derivative of x is 1 and the other factor, "
                    "(1 + t) / 2, remains. You lose its 1."),
            Mistake("GEL-5j", {"(1 - t ** 2)": "t * (1 - t)"},
                    "t (1 - t) is the derivative of a sigmoid. That of tanh is 1 - tanh²."),
            Mistake("GEL-5k", {"(1 - t ** 2)": "(1 - t) ** 2"},
                    "You square the difference. In the derivative of tanh, 1 - tanh², only the tanh is squared."),
            Mistake("GEL-5l", {"(1 - t ** 2) * c": "c"},
                    "You differentiate the argument of tanh, but not tanh itself."),
            Mistake("GEL-5m", {"(1 - t ** 2)": "np.sqrt(1 - t ** 2)"},
                    "The derivative of tanh is 1 / cosh², with the square."),
            Mistake("GEL-5n", {"(1 - t ** 2)": "(1 - np.tanh(x) ** 2)"},
                    "You evaluate the derivative of tanh at x. It is evaluated at the argument that tanh had in "
                    "forward."),
            Mistake("GEL-5o", {"(1 - t ** 2)": "(1 - (c * (x + 0.044715 * x ** 3)) ** 2)"},
                    "The derivative of tanh is 1 - tanh². You square its argument instead."),
            Mistake("GEL-5p", {" * c * (1 +": " * c ** 2 * (1 +"},
                    "c occurs twice in your derivative of t. It multiplies the argument of tanh once."),
            Mistake("GEL-5q", {"(1 + t) / 2 +": "1 + t / 2 +"},
                    "You halve only t. The sum 1 + t is halved, so parentheses are missing."),
            Mistake("GEL-5r", {"x * dt / 2": "x * dt / 4"},
                    "The second term of the product rule is halved twice. The factor 1/2 of forward counts once."),
            Mistake("GEL-7b", {"(1 + t) / 2 + x": "(1 + t) / 2 * x"},
                    "You multiply the two terms of the product rule. They are added."),
            Mistake("GEL-9b", {"dy * slope": "dy * (1 + t) / 2 + x * dt / 2"},
                    "You multiply only the first term by dy. Both terms of the slope are multiplied by it."),
            Mistake("GEL-6a", {"0.044715 * x ** 3": "0.44715 * x ** 3", "3 * 0.044715": "3 * 0.44715"},
                    "Your coefficient of the cubic term is ten times too large. Count the zeros."),
            Mistake("GEL-6c", {"math.sqrt(2 / math.pi)": "math.sqrt(2 * math.pi)"},
                    "Your c is sqrt(2 pi). It must be sqrt(2 / pi)."),
            Mistake("GEL-6i", {"math.sqrt(2 / math.pi)": "2 / math.pi"}, "Your c is 2 / pi. The root is missing."),
            Mistake("GEL-6u", {"math.sqrt(2 / math.pi)": "1"}, "The factor c is missing, as if c were 1."),
            Mistake("GEL-6y", {"math.sqrt(2 / math.pi)": "0.8"},
                    "Your c is rounded to 0.8. Compute it: the answers are compared to seven digits."),
            Mistake("GEL-6b", {"x + 0.044715 * x ** 3": "x", " * (1 + 3 * 0.044715 * x ** 2)": ""},
                    "You leave out the cubic term altogether. forward has it."),
        )),
]
