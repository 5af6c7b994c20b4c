"""Reading a lesson's figure: which statements it supports, and one number. The answers are computed, not stored."""

import math

import numpy as np

from ...inspection.recorder import record
from ...layers import GELU, ScaledDotProductAttention, SiLU, SinusoidalPositionalEncoding
from .definition import Exercise, Mistake

OUTPUTS = (*(f"statement {i}" for i in range(1, 7)), "number 7")


def activations_in_the_figure():
    """Look at my-figures/09_activations.png: three activations for u from -4 to 4, their slopes, and a difference.

    Return seven numbers in a tuple: for each of the statements 1 to 6, 1 if the figure supports it and 0 if not; then
    the number of 7.
    1. GELU takes negative values.
    2. SiLU has the lowest value of the three.
    3. The slope of GELU is between 0 and 1 everywhere.
    4. At u = 0, GELU and SiLU have the same slope.
    5. For every u above 0, the value of SiLU is below that of GELU.
    6. Somewhere the two forms of GELU differ by more than 0.001.
    7. At which u is the slope of GELU largest? Round to the nearest half, such as -0.5, 0 or 2.5.
    """
    negative = 1
    lowest = 1
    between = 0
    same_slope = 1
    below = 1
    far_apart = 0
    steepest = 1.5
    return negative, lowest, between, same_slope, below, far_apart, steepest


def read_activations():
    u = np.linspace(-4, 4, 801)
    gelu, silu, tanh = GELU(), SiLU(), GELU("tanh")
    a, s, other = gelu(u), silu(u), tanh(u)
    slope, silu_slope = gelu.backward(np.ones_like(u)), silu.backward(np.ones_like(u))
    return numbers(
        a.min() < 0, s.min() < min(a.min(), 0), 0 <= slope.min() and slope.max() <= 1,
        math.isclose(slope[400], silu_slope[400]), np.all(s[401:] < a[401:]), abs(a - other).max() > 0.001,
        round(2 * u[slope.argmax()]) / 2)


def numbers(*answers):
    """Returns the answers as floats, 1 for True and 0 for False."""
    return tuple(map(float, answers))


def scaling_in_the_figure():
    """Look at my-figures/05_scaling.png: attention to 16 random keys for several d, with and without the division by
    sqrt(d).

    Return seven numbers in a tuple: for each of the statements 1 to 6, 1 if the figure supports it and 0 if not; then
    the number of 7.
    1. Without the division, the variance of the scores is about d.
    2. With the division, the variance of the scores grows with d, but more slowly.
    3. Without the division, at d = 512, one key has more than 0.9 of the weight on average.
    4. With the division, the largest weight stays below 0.3 for every d in the figure.
    5. Without the division, more of the gradient passes through softmax as d grows.
    6. At d = 512, the division lets more than a hundred times as much of the gradient through.
    7. Which is the smallest d of 2, 8, 32, 128 and 512 at which the largest weight without the division exceeds 0.5?
    """
    proportional = 1
    grows = 0
    one_key = 1
    spread = 1
    more_passes = 0
    hundredfold = 1
    first = 8
    return proportional, grows, one_key, spread, more_passes, hundredfold, first


def read_scaling():
    rng = np.random.default_rng(70)
    layer = ScaledDotProductAttention()
    widths = np.array([2, 8, 32, 128, 512])
    rows = {1: [], 0: []}                       # with and without division: variance, largest weight, gradient passed
    for d in widths:
        q, k = rng.standard_normal((400, 1, d)), rng.standard_normal((400, 16, d))
        v, dy = rng.standard_normal((400, 16, 3)), rng.standard_normal((400, 1, 3))
        for divided in rows:
            with record(layer) as tape:
                layer(q if divided else q * math.sqrt(d), k, v)
                layer.backward(dy)
            call = tape["softmax"]
            passes = np.linalg.norm(call.gradients[0], axis=-1) / np.linalg.norm(call.dy, axis=-1)
            rows[divided].append((call.inputs[0].var(), call.output.max(-1).mean(), np.median(passes)))
    variance, largest, passes = np.transpose(rows[1])
    plain_variance, plain_largest, plain_passes = np.transpose(rows[0])
    return numbers(
        np.allclose(plain_variance / widths, 1, atol=0.2), variance[-1] > 1.2 * variance[0], plain_largest[-1] > 0.9,
        largest.max() < 0.3, np.all(np.diff(plain_passes) > 0), passes[-1] > 100 * plain_passes[-1],
        widths[plain_largest > 0.5].min())


def positions_in_the_figure():
    """Look at my-figures/04_dot_products.png: dot products PE(t) · PE(s) of rows of the sinusoid, 100 positions,
    D = 128.

    Return seven numbers in a tuple: for each of the statements 1 to 6, 1 if the figure supports it and 0 if not; then
    the number of 7.
    1. The dot product depends only on the distance between t and s.
    2. Each position has its largest dot product with itself.
    3. The dot product decreases with every further step of distance.
    4. The dot product shows whether s is before or after t.
    5. Positions more than 50 steps apart have dot products near 0, that is, between -10 and 10.
    6. From distance 0 to distance 1, the dot product falls by less than a tenth.
    7. What is the dot product of a position with itself? It is an integer.
    """
    distance_alone = 1
    with_itself = 1
    always_falls = 0
    direction = 0
    near_zero = 0
    less_than_tenth = 1
    itself = 64
    return distance_alone, with_itself, always_falls, direction, near_zero, less_than_tenth, itself


def read_positions():
    table = SinusoidalPositionalEncoding(128, 100).astype(np.float64).table
    dots = table @ table.T
    t = np.arange(100)
    distance = abs(t[:, None] - t)
    return numbers(
        np.allclose(dots, dots[0][distance]), np.all(dots.argmax(1) == t), np.all(np.diff(dots[0]) < 0),
        not np.allclose(dots[50, 50:0:-1], dots[50, 50:]), np.all(abs(dots[distance > 50]) < 10),
        dots[0, 1] > 0.9 * dots[0, 0], round(dots[0, 0]))


EXERCISES = [
    Exercise(
        "09.7", "Read a figure: activations", minutes=5, lines=8, kind="explain",
        solution=activations_in_the_figure, reference=read_activations, outputs=OUTPUTS,
        hints=("The left panel shows values, the middle one slopes, the right one a difference. What is its unit?",
               "Look for the lowest points in the left panel, and for lines above 1 and below 0 in the middle panel.",
               "GELU's slope falls below 0, rises above 1, and is largest at u = sqrt(2). The right panel is in units "
               "of 1e-4."),
        mistakes=(
            Mistake("FIG-09.7a", {"negative = 1": "negative = 0"},
                    "Statement 1: only ReLU is never below 0. Look at the line of GELU to the left of u = 0."),
            Mistake("FIG-09.7b", {"lowest = 1": "lowest = 0"},
                    "Statement 2: compare the lowest points in the left panel."),
            Mistake("FIG-09.7c", {"between = 0": "between = 1"},
                    "Statement 3: this is true of ReLU. In the middle panel, GELU goes above 1 and below 0."),
            Mistake("FIG-09.7d", {"same_slope = 1": "same_slope = 0"},
                    "Statement 4: in the middle panel, the lines of GELU and SiLU cross at u = 0."),
            Mistake("FIG-09.7e", {"below = 1": "below = 0"},
                    "Statement 5: to the right of 0, the line of SiLU is the lowest one."),
            Mistake("FIG-09.7f", {"far_apart = 0": "far_apart = 1"},
                    "Statement 6: the right panel shows the difference multiplied by ten thousand, as its title says."),
            Mistake("FIG-09.7g", {"steepest = 1.5": "steepest = 4"},
                    "Number 7: this is where the value is largest. The slope is in the middle panel."),
            Mistake("FIG-09.7h", {"steepest = 1.5": "steepest = 2.5"},
                    "Number 7: this is the peak of SiLU, not of GELU."),
            Mistake("FIG-09.7j", {"steepest = 1.5": "steepest = 1"},
                    "Number 7: near, but GELU's slope still rises at 1. Read where its line in the middle panel is "
                    "highest."),
            Mistake("FIG-09.7k", {"steepest = 1.5": "steepest = 2"},
                    "Number 7: near, but GELU's slope falls again before 2. Read where its line in the middle panel is "
                    "highest."),
            Mistake("FIG-09.7l", {"steepest = 1.5": "steepest = -1.5"},
                    "Number 7: GELU's slope is symmetric about the point (0, 1/2), so this is about its lowest point, "
                    "not its highest."),
            Mistake("FIG-09.7i", {"steepest = 1.5": "steepest = 0"},
                    "Number 7: at 0 the slope of ReLU jumps. That of GELU is one half there and continues to rise."),
        )),
    Exercise(
        "05.3", "Read a figure: why sqrt(d)", minutes=5, lines=8, kind="explain",
        solution=scaling_in_the_figure, reference=read_scaling, outputs=OUTPUTS,
        hints=("Which axes are logarithmic? On those, equal steps are equal factors.",
               "Follow one line at a time: orange squares are without the division, blue dots with it. Which lines are "
               "level?",
               "Blue is level in all three panels, at 1, about 0.24 and about 0.07. Orange is d in the left panel, "
               "rises towards 1 in the middle, and falls to 1e-4 in the right one."),
        mistakes=(
            Mistake("FIG-05.3a", {"proportional = 1": "proportional = 0"},
                    "Statement 1: read the orange line at d = 8 and d = 128. Both axes are logarithmic."),
            Mistake("FIG-05.3b", {"grows = 0": "grows = 1"},
                    "Statement 2: the blue line in the left panel is level."),
            Mistake("FIG-05.3c", {"one_key = 1": "one_key = 0"},
                    "Statement 3: read the last orange square in the middle panel."),
            Mistake("FIG-05.3d", {"spread = 1": "spread = 0"}, "Statement 4: read the blue line in the middle panel."),
            Mistake("FIG-05.3e", {"more_passes = 0": "more_passes = 1"},
                    "Statement 5: the orange line in the right panel falls. Where softmax is nearly one-hot, its "
                    "derivative is close to 0."),
            Mistake("FIG-05.3f", {"hundredfold = 1": "hundredfold = 0"},
                    "Statement 6: the vertical axis of the right panel is logarithmic. At d = 512 the lines are almost "
                    "three powers of ten apart."),
            Mistake("FIG-05.3g", {"first = 8": "first = 32"},
                    "Number 7: at d = 32 the largest weight is already 0.8. Look at the marker before."),
            Mistake("FIG-05.3h", {"first = 8": "first = 2"}, "Number 7: at d = 2 the largest weight is 0.3."),
            Mistake("FIG-05.3i", {"first = 8": "first = 128"},
                    "Number 7: at d = 128 the largest weight is already close to 1. Read the orange markers from the "
                    "left."),
            Mistake("FIG-05.3j", {"first = 8": "first = 512"},
                    "Number 7: this is where the largest weight is nearest to 1. Read the orange markers from the "
                    "left."),
        )),
    Exercise(
        "04.2", "Read a figure: dot products of positions", minutes=5, lines=8, kind="explain",
        solution=positions_in_the_figure, reference=read_positions, outputs=OUTPUTS,
        hints=("Each diagonal of the left panel belongs to one distance. Does the color change along a diagonal?",
               "In the right panel, is the dashed line symmetric about 0, and does it fall all the way? Check where "
               "the vertical axis begins.",
               "The dot product is a sum of cosines of the distance. It is symmetric, has its maximum D / 2 = 64 at "
               "distance 0, goes in waves further out, and stays above 20."),
        mistakes=(
            Mistake("FIG-04.2a", {"distance_alone = 1": "distance_alone = 0"},
                    "Statement 1: in the left panel, the color is constant along each diagonal, and the two lines in "
                    "the right panel agree."),
            Mistake("FIG-04.2b", {"with_itself = 1": "with_itself = 0"},
                    "Statement 2: the brightest cell of each row is on the diagonal."),
            Mistake("FIG-04.2c", {"always_falls = 0": "always_falls = 1"},
                    "Statement 3: the dot product falls on the whole, but the line in the right panel has waves."),
            Mistake("FIG-04.2d", {"direction = 0": "direction = 1"},
                    "Statement 4: the dashed line is symmetric about 0, because cosine is an even function."),
            Mistake("FIG-04.2e", {"near_zero = 0": "near_zero = 1"},
                    "Statement 5: the vertical axis of the right panel does not begin at 0. Read its numbers."),
            Mistake("FIG-04.2f", {"less_than_tenth = 1": "less_than_tenth = 0"},
                    "Statement 6: one step is a hundredth of the left panel's width, and the bright band is wider than "
                    "that."),
            Mistake("FIG-04.2g", {"itself = 64": "itself = 1"},
                    "Number 7: the rows do not have length 1. Each of the D / 2 pairs of sine and cosine adds 1."),
            Mistake("FIG-04.2h", {"itself = 64": "itself = 128"},
                    "Number 7: D is 128, but a pair of sine and cosine adds 1, not 2. Read the color bar."),
        )),
]
