"""Small numbers: rounding to bfloat16, integers with a scale for each group, and the backward pass of a rounded weight."""

import numpy as np

from ...layers import Linear, StraightThroughLinear, round_to
from ...layers.quantization import quantize_groups
from .definition import Exercise, Mistake


def round_to_bfloat16(x):
    _, e = np.frexp(x)
    shift = e - 8
    return np.ldexp(np.rint(np.ldexp(x, -shift)), shift)


def draw_numbers(rng, n):
    """Draws numbers of several sizes, of which every second one is a tie: an odd number of 9 bits times a power of 2."""
    x = rng.standard_normal((*n.lead, n.D)) * 2.0 ** rng.integers(-6, 7, (*n.lead, n.D))
    odd = 2 * rng.integers(128, 256, x.shape) + 1
    ties = np.ldexp(rng.choice([-1.0, 1.0], x.shape) * odd, rng.integers(-12, 3, x.shape))
    return (np.where(np.arange(n.D) % 2, ties, x),)


def quantize(weight, bits, group):
    n = 2 ** (bits - 1) - 1
    groups = weight.reshape(-1, group, weight.shape[1])
    largest = np.abs(groups).max(1)
    divisor = np.where(largest > 0, largest, 1)
    codes = np.rint(n * groups / divisor[:, None])
    return codes.reshape(weight.shape), largest / n


def draw_weight(rng, n):
    """Draws a weight of several groups. Cases of the same shape have the same group."""
    group = n.B + 1
    return rng.standard_normal((group * (n.H + 1), n.F)), int(rng.choice([3, 4, 8])), group


def special_weights(rng):
    zeros = rng.standard_normal((6, 4))
    zeros[3:, 1] = 0
    halves = np.vstack([[7, -7, 7], rng.integers(-7, 7, (3, 3)) + 0.5])         # with the scale 1, if the first row is 7
    negative = -np.abs(rng.standard_normal((4, 3)))
    return [("group_of_zeros", (zeros, 4, 3)), ("halfway_between_codes", (halves, 4, 4)), ("all_negative", (negative, 4, 2)),
            ("single_group", (rng.standard_normal((5, 3)), 4, 5)), ("groups_of_one", (rng.standard_normal((4, 3)), 8, 1))]


def by_groups(weight, bits, group):
    codes, largest = quantize_groups(weight, bits, group)
    return codes.astype(weight.dtype), largest / (2 ** (bits - 1) - 1)


def off_grid(inputs, outputs):
    """Returns by how much each code differs from a whole number in [-n, n]."""
    n = 2 ** (inputs[1] - 1) - 1
    return outputs[0] - np.clip(np.round(outputs[0]), -n, n)


def rounded_linear_backward(x, weight, scale, dy):
    ratio = weight / scale
    rounded = scale * np.clip(np.rint(ratio), -7, 7)
    rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    dx = drows @ rounded.T
    dweight = rows.T @ drows * (np.abs(ratio) <= 7)
    return dx.reshape(x.shape), dweight


def draw_linear(rng, n):
    return (rng.standard_normal((*n.lead, n.D)), rng.standard_normal((n.D, n.F)), rng.uniform(0.1, 0.25, n.F),
            rng.standard_normal((*n.lead, n.F)))


def special_linears(rng):
    def arrays(scale, lead=(3,)):
        x, dy = rng.standard_normal((*lead, 5)), rng.standard_normal((*lead, 4))
        return x, rng.standard_normal((5, 4)), np.full(4, scale), dy

    at_the_limit = np.array([[3.5, -3.5, 0.5], [-3.75, 3.6, 3.5], [1.0, 0.75, -4.0]])       # codes of exactly 7 are not clipped
    return [("at_the_limit", (rng.standard_normal((2, 3)), at_the_limit, np.full(3, 0.5), rng.standard_normal((2, 3)))),
            ("none_clipped", arrays(10.0)),
            ("single_row_of_x", arrays(0.2, ())), ("most_clipped", arrays(0.02, (2, 3)))]


def by_straight_through(x, weight, scale, dy):
    """The layer, whose gradient is dropped where the rounding clips."""
    layer = StraightThroughLinear(Linear(*weight.shape, bias=False).astype(weight.dtype),
                                  lambda w: scale * np.minimum(np.maximum(np.rint(w / scale), -7), 7))
    layer.weight.data = weight
    layer(x)
    dx = layer.backward(dy)
    return dx, np.where(abs(weight / scale) > 7, 0, layer.weight.grad)


RINT = "np.rint(np.ldexp(x, -shift))"
CODES = "np.rint(n * groups / divisor[:, None])"


def special_numbers(rng):
    powers = 2.0 ** rng.permutation(np.arange(-8, 8))
    zeros = np.where(rng.permutation(6) < 3, 0.0, rng.standard_normal(6))
    return [("powers_of_two", (powers,)), ("zeros_among_them", (zeros,)),
            ("just_below", (powers[:5] * rng.choice([-1.0, 1.0], 5) * (1 - rng.uniform(1e-5, 1e-3, 5)),))]


EXERCISES = [
    Exercise(
        "27.1", minutes=10, lines=3,
        solution=round_to_bfloat16, reference=lambda x: round_to(x, "bfloat16"), inputs=draw_numbers,
        edges=special_numbers,
        mistakes=(
            Mistake("BFR-1", {"np.rint(np.ldexp(x, -shift))": "np.floor(np.ldexp(x, -shift) + 0.5)"}),
            Mistake("BFR-2", {"np.rint(": "np.trunc("}),
            Mistake("BFR-3", {"e - 8": "e - 7"}),
            Mistake("BFR-4", {"e - 8": "e - 9"}),
            Mistake("BFR-5", {"e - 8": "e.max() - 8"}),
            Mistake("BFR-6", {"np.rint(np.ldexp(x, -shift))": "np.sign(x) * np.floor(np.ldexp(np.abs(x), -shift) + 0.5)"}),
        ),
        alternatives={
            "powers": {"shift = e - 8": "step = 2.0 ** (e - 8).astype(x.dtype)", f"np.ldexp({RINT}, shift)": "np.rint(x / step) * step"},
            "logarithm": {"_, e = np.frexp(x)": "e = np.where(x == 0, 0, np.floor(np.log2(np.abs(np.where(x == 0, 1, x)))) + 1)"
                          ".astype(int)"}}),
    Exercise(
        "27.2", minutes=15, lines=6, linked=(("weight", "group"),),
        solution=quantize, reference=by_groups, inputs=draw_weight, edges=special_weights, outputs=("codes", "scales"),
        must_be_zero={"codes_are_whole": off_grid},
        mistakes=(
            Mistake("QNT-1", {"np.abs(groups).max(1)": "np.full((len(groups), weight.shape[1]), np.abs(weight).max())"}),
            Mistake("QNT-2", {"np.abs(groups).max(1)": "groups.max(1)"}),
            Mistake("QNT-3", {"2 ** (bits - 1) - 1": "2 ** (bits - 1)"}),
            Mistake("QNT-4", {"np.where(largest > 0, largest, 1)": "largest"}),
            Mistake("QNT-5", {"np.rint(n * groups / divisor[:, None])": "np.floor(n * groups / divisor[:, None] + 0.5)"}),
            Mistake("QNT-6", {"np.rint(": "np.trunc("}),
            Mistake("QNT-7", {"largest / n": "largest"}),
            Mistake("QNT-8", {"np.abs(groups).max(1)": "np.tile(np.abs(weight).max(0), (len(groups), 1))"}),
        ),
        alternatives={
            "dividing by the scale": {"np.where(largest > 0, largest, 1)": "np.where(largest > 0, largest, 1) / n",
                                      CODES: "np.round(groups / divisor[:, None])"},
            "repeated scales": {CODES: "np.rint(n * weight / np.repeat(divisor, group, axis=0))"}}),
    Exercise(
        "27.3", minutes=15, lines=6,
        solution=rounded_linear_backward, reference=by_straight_through, inputs=draw_linear, edges=special_linears,
        outputs=("dx", "dweight"),
        mistakes=(
            Mistake("STE-1", {" * (np.abs(ratio) <= 7)": ""}),
            Mistake("STE-2", {"drows @ rounded.T": "drows @ weight.T"}),
            Mistake("STE-3", {"np.clip(np.rint(ratio), -7, 7)": "np.rint(ratio)"}),
            Mistake("STE-4", {"(np.abs(ratio) <= 7)": "(np.abs(ratio) > 7)"}),
            Mistake("STE-5", {"scale * np.clip": "np.clip"}),
            Mistake("STE-6", {"np.rint(ratio)": "np.floor(ratio)"}),
            Mistake("STE-7", {"drows @ rounded.T": "drows @ (rounded * (np.abs(ratio) <= 7)).T"}),
        ),
        alternatives={
            "minimum and maximum": {"np.clip(np.rint(ratio), -7, 7)": "np.minimum(np.maximum(np.rint(ratio), -7), 7)"},
            "einsum": {"rows.T @ drows": 'np.einsum("ni,no->io", rows, drows)'}}),
]
