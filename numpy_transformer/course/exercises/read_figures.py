"""Reading a lesson's figure: which statements it supports, and one number. The answers are computed, not stored."""

import math

import numpy as np

from ...inspection.recorder import record
from ...layers import GELU, ScaledDotProductAttention, SiLU, SinusoidalPositionalEncoding
from .definition import Exercise, Mistake

OUTPUTS = (*(f"statement {i}" for i in range(1, 7)), "number 7")


def activations_in_the_figure():
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
        "09.7", minutes=5, lines=8, kind="explain",
        solution=activations_in_the_figure, reference=read_activations, outputs=OUTPUTS,
        mistakes=(
            Mistake("FIG-09.7a", {"negative = 1": "negative = 0"}),
            Mistake("FIG-09.7b", {"lowest = 1": "lowest = 0"}),
            Mistake("FIG-09.7c", {"between = 0": "between = 1"}),
            Mistake("FIG-09.7d", {"same_slope = 1": "same_slope = 0"}),
            Mistake("FIG-09.7e", {"below = 1": "below = 0"}),
            Mistake("FIG-09.7f", {"far_apart = 0": "far_apart = 1"}),
            Mistake("FIG-09.7g", {"steepest = 1.5": "steepest = 4"}),
            Mistake("FIG-09.7h", {"steepest = 1.5": "steepest = 2.5"}),
            Mistake("FIG-09.7j", {"steepest = 1.5": "steepest = 1"}),
            Mistake("FIG-09.7k", {"steepest = 1.5": "steepest = 2"}),
            Mistake("FIG-09.7l", {"steepest = 1.5": "steepest = -1.5"}),
            Mistake("FIG-09.7i", {"steepest = 1.5": "steepest = 0"}),
        )),
    Exercise(
        "05.3", minutes=5, lines=8, kind="explain",
        solution=scaling_in_the_figure, reference=read_scaling, outputs=OUTPUTS,
        mistakes=(
            Mistake("FIG-05.3a", {"proportional = 1": "proportional = 0"}),
            Mistake("FIG-05.3b", {"grows = 0": "grows = 1"}),
            Mistake("FIG-05.3c", {"one_key = 1": "one_key = 0"}),
            Mistake("FIG-05.3d", {"spread = 1": "spread = 0"}),
            Mistake("FIG-05.3e", {"more_passes = 0": "more_passes = 1"}),
            Mistake("FIG-05.3f", {"hundredfold = 1": "hundredfold = 0"}),
            Mistake("FIG-05.3g", {"first = 8": "first = 32"}),
            Mistake("FIG-05.3h", {"first = 8": "first = 2"}),
            Mistake("FIG-05.3i", {"first = 8": "first = 128"}),
            Mistake("FIG-05.3j", {"first = 8": "first = 512"}),
        )),
    Exercise(
        "04.2", minutes=5, lines=8, kind="explain",
        solution=positions_in_the_figure, reference=read_positions, outputs=OUTPUTS,
        mistakes=(
            Mistake("FIG-04.2a", {"distance_alone = 1": "distance_alone = 0"}),
            Mistake("FIG-04.2b", {"with_itself = 1": "with_itself = 0"}),
            Mistake("FIG-04.2c", {"always_falls = 0": "always_falls = 1"}),
            Mistake("FIG-04.2d", {"direction = 0": "direction = 1"}),
            Mistake("FIG-04.2e", {"near_zero = 0": "near_zero = 1"}),
            Mistake("FIG-04.2f", {"less_than_tenth = 1": "less_than_tenth = 0"}),
            Mistake("FIG-04.2g", {"itself = 64": "itself = 1"}),
            Mistake("FIG-04.2h", {"itself = 64": "itself = 128"}),
        )),
]
