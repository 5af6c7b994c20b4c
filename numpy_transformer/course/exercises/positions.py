"""Sinusoidal positions."""

import numpy as np

from ...layers import SinusoidalPositionalEncoding
from .definition import Exercise, Mistake


def sinusoidal_positions(T, D):
    t = np.arange(T)[:, None]
    lengths = 10000 ** (np.arange(0, D, 2) / D)
    table = np.zeros((T, D))
    table[:, 0::2] = np.sin(t / lengths)
    table[:, 1::2] = np.cos(t / lengths[:D // 2])
    return table


def draw_sizes(rng, n):
    """Draws T and an even D, so widely that no table of the answers to one seed fits another seed."""
    return int(rng.integers(4, 40)), 2 * int(rng.integers(3, 20))


def odd_and_long(rng):
    return [("odd_number_features", (int(rng.integers(4, 12)), 2 * int(rng.integers(3, 20)) + 1)),
            ("many_positions", (int(rng.integers(100, 300)), 2 * int(rng.integers(10, 40)))),
            ("long_text", (int(rng.integers(5010, 5500)), 4))]


def by_layer(T, D):
    return SinusoidalPositionalEncoding(D, max_len=T).astype(np.float64).table


def circles(inputs, outputs):
    pairs = inputs[1] // 2
    return outputs[0][:, 0:2 * pairs:2] ** 2 + outputs[0][:, 1::2] ** 2 - 1


EXERCISES = [
    Exercise(
        "04.1", minutes=15, lines=6,
        solution=sinusoidal_positions, reference=by_layer, inputs=draw_sizes, outputs=("PE",),
        edges=odd_and_long, further_edges=("long_text",),
        must_be_zero={"sin_cos_pair": circles},
        mistakes=(
            Mistake("PE-1", {"np.arange(0, D, 2) / D": "np.arange((D + 1) // 2) / D"}),
            Mistake("PE-2", {"np.arange(0, D, 2) / D": "2 * np.arange(0, D, 2) / D"}),
            Mistake("PE-3", {
                "np.arange(0, D, 2) / D": "np.arange(D) / D",
                "np.sin(t / lengths)": "np.sin(t / lengths[0::2])",
                "lengths[:D // 2]": "lengths[1::2]"}),
            Mistake("PE-4a", {
                "table[:, 0::2]": "table[:, :(D + 1) // 2]",
                "table[:, 1::2]": "table[:, (D + 1) // 2:]"}),
            Mistake("PE-4b", {"np.sin(": "np.cos(", "np.cos(": "np.sin("}),
            Mistake("PE-5a", {"np.arange(T)[:, None]": "np.arange(1, T + 1)[:, None]"}),
            Mistake("PE-5b", {"t / lengths)": "t * lengths)", "t / lengths[": "t * lengths["}),
            Mistake("PE-5c", {"10000 ": "1000 "}),
            Mistake("PE-7", {"lengths[:D // 2]": "lengths"}),
            Mistake("PE-8", {"np.arange(0, D, 2) / D": "np.arange(0, D, 2) // D"}),
            Mistake("PE-9", {"np.arange(0, D, 2) / D": "np.arange((D + 1) // 2) / (D // 2 - 1)"}),
        ),
        alternatives={
            "loops": {"t / lengths)": "t / lengths)\n    for place in range(T):\n        for feature in range(D):\n   "
                                      "         angle = place / 10000 ** (2 * (feature // 2) / D)\n            "
                                      "table[place, feature] = math.cos(angle) if feature % 2 else math.sin(angle)"},
            "exp and log": {"10000 ** (np.arange(0, D, 2) / D)": "np.exp(np.arange(0, D, 2) * math.log(10000) / D)"},
            "shifted sine": {"np.cos(t / lengths[:D // 2])": "np.sin(t / lengths[:D // 2] + math.pi / 2)"}}),
]
