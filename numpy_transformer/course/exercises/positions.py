"""Sinusoidal positions."""

import numpy as np

from ...layers import SinusoidalPositionalEncoding
from .definition import Exercise, Mistake


def sinusoidal_positions(T, D):
    """Computes the sinusoidal table that is added to the embeddings.

    PE[t, 2i] = sin(t / 10000^(2i/D)) and PE[t, 2i+1] = cos(t / 10000^(2i/D)).

    T: the number of positions, t = 0, ..., T - 1.
    D: the number of features. If D is odd, the last feature is a sine.
    Return PE: (T, D).
    """
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
    return [("an odd number of features", (int(rng.integers(4, 12)), 2 * int(rng.integers(3, 20)) + 1)),
            ("many positions", (int(rng.integers(100, 300)), 2 * int(rng.integers(10, 40))))]


def by_layer(T, D):
    return SinusoidalPositionalEncoding(D, max_len=T).astype(np.float64).table


def circles(inputs, outputs):
    pairs = inputs[1] // 2
    return outputs[0][:, 0:2 * pairs:2] ** 2 + outputs[0][:, 1::2] ** 2 - 1


EXPONENT = "np.arange(0, D, 2) / D"
SINES = "table[:, 0::2]"
COSINES = "table[:, 1::2]"
SLOW_HALF = ("Your frequencies are 1 / 10000^(i/D), as with the exponent i / D or the base 100. The base is 10000, "
             "and the exponent 2i / D is the index of the pair's first feature divided by D.")
TWICE = ("Your exponent is 4i / D. It must be 2i / D: a range in steps of 2 already gives 2i.")
OWN = ("Each of your features has its own frequency. The two features of a pair must share one, so that they are a "
       "point on a circle.")

EXERCISES = [
    Exercise(
        "04.1", "Sinusoidal positions", minutes=15, lines=6,
        solution=sinusoidal_positions, reference=by_layer, inputs=draw_sizes, outputs=("PE",),
        edges=odd_and_long,
        invariants=(("sin² + cos² of each pair must be 1", circles),),
        hints=("Which features share a frequency? Write down the exponents of the features 0, 1, 2, 3 for D = 4.",
               "The exponents 2i / D are np.arange(0, D, 2) / D, one for every two features. With t as a column and "
               "the exponents as a row, broadcasting gives all angles at once.",
               "angles = np.arange(T)[:, None] / 10000 ** (np.arange(0, D, 2) / D). Put their sines into table[:, "
               "0::2], and the cosines of the first D // 2 columns into table[:, 1::2]."),
        mistakes=(
            Mistake("PE-1", {EXPONENT: "np.arange((D + 1) // 2) / D"}, SLOW_HALF),
            Mistake("PE-2", {EXPONENT: "2 * np.arange(0, D, 2) / D"}, TWICE),
            Mistake("PE-3", {EXPONENT: "np.arange(D) / D", "np.sin(t / lengths)": "np.sin(t / lengths[0::2])",
                             "lengths[:D // 2]": "lengths[1::2]"}, OWN),
            Mistake("PE-4a", {SINES: "table[:, :(D + 1) // 2]", COSINES: "table[:, (D + 1) // 2:]"},
                    "All your sines stand before all cosines. They must alternate: even features are sines, odd ones "
                    "are cosines."),
            Mistake("PE-4b", {"np.sin(": "np.cos(", "np.cos(": "np.sin("},
                    "You have swapped sine and cosine. Position 0 must be 0, 1, 0, 1, ..."),
            Mistake("PE-5a", {"np.arange(T)[:, None]": "np.arange(1, T + 1)[:, None]"},
                    "Your positions start at 1. The first token has t = 0."),
            Mistake("PE-5b", {"t / lengths)": "t * lengths)", "t / lengths[": "t * lengths["},
                    "You multiply t by 10000^(2i/D) instead of dividing. The frequency must decrease from pair to "
                    "pair."),
            Mistake("PE-5c", {"10000 ": "1000 "}, "Your base is 1000. It must be 10000."),
            Mistake("PE-7", {"lengths[:D // 2]": "lengths"},
                    "If D is odd, there is one cosine fewer than sines. Leave out the last frequency for the cosines."),
            Mistake("PE-8", {EXPONENT: "np.arange(0, D, 2) // D"},
                    "// rounds every exponent down to 0, so all features have the same frequency. Divide with /."),
            Mistake("PE-9", {EXPONENT: "np.arange((D + 1) // 2) / (D // 2 - 1)"},
                    "Your exponents are i / (D/2 - 1), which end at 1. Some implementations do this, but the exercise "
                    "asks for 2i / D, which stays below 1."),
            Mistake("PE-10", {"np.sin(": "np.sin(2 * np.pi * ", "np.cos(": "np.cos(2 * np.pi * "},
                    "You multiply the angles by 2π. t / 10000^(2i/D) is already an angle in radians."),
            Mistake("PE-11", {"return table": "return table.T"},
                    "Your table is transposed. It must have a row for each position and a column for each feature."),
            Mistake("PE-5d", {"10000 ": "100000 "}, "Your base is 100000. It must be 10000."),
            Mistake("PE-12", {"np.arange(0, D, 2) / D": "np.arange(0, D, 2) / (D // 2)"},
                    "You divide the exponent by D / 2. With a range in steps of 2, which already gives 2i, it must "
                    "be D."),
            Mistake("PE-13", {"np.cos(": "np.sin("}, "All your features are sines. The odd features must be cosines."),
            Mistake("PE-15", {
                    "    return":
                    "    for feature in range(D):\n        angle = t[:, 0] / 10000 ** (2 * feature / D)\n        "
                    "table[:, feature] = np.cos(angle) if feature % 2 else np.sin(angle)\n    return"},
                    "You use the number of the feature as i. i is the number of the pair: the features 2i and 2i + 1 "
                    "share the exponent 2i / D."),
            Mistake("PE-16", {"10000 ** (": "10000 * ("},
                    "You multiply 10000 by the exponent instead of raising it to a power."),
            Mistake("PE-17", {
                    "10000 ** (np.arange(0, D, 2) / D)": "(np.arange(0, D, 2) / D)",
                    "np.sin(t / lengths)": "np.sin((t / 10000) ** lengths)",
                    "np.cos(t / lengths[": "np.cos((t / 10000) ** lengths["},
                    "Python evaluates t / 10000 ** ... with the power first, but your parentheses raise t / 10000 to "
                    "the power. Only 10000 has the exponent."),
            Mistake("PE-18", {"np.arange(0, D, 2) / D": "np.arange(0, D, 2) / (D - 1)"},
                    "You divide the exponent by D - 1. It is 2i / D."),
            Mistake("PE-19", {"np.arange(T)[:, None]": "np.arange(T)[:, None] / T"},
                    "You divide the positions by T. t is the number of the token, however long the text is."),
            Mistake("PE-20", {
                    "np.sin(t / lengths)": "np.sin(np.deg2rad(t / lengths))",
                    "np.cos(t / lengths[:D // 2])": "np.cos(np.deg2rad(t / lengths[:D // 2]))"},
                    "You convert the angles from degrees. t / 10000^(2i/D) is already an angle in radians."),
            Mistake("PE-21", {"return table": "return table / math.sqrt(D)"},
                    "You divide the table by sqrt(D). Its entries are the sines and cosines themselves."),
        ),
        alternatives={
            "loops": {"t / lengths)": "t / lengths)\n    for place in range(T):\n        for feature in range(D):\n   "
                                      "         angle = place / 10000 ** (2 * (feature // 2) / D)\n            "
                                      "table[place, feature] = math.cos(angle) if feature % 2 else math.sin(angle)"},
            "exp and log": {"10000 ** (np.arange(0, D, 2) / D)": "np.exp(np.arange(0, D, 2) * math.log(10000) / D)"},
            "shifted sine": {"np.cos(t / lengths[:D // 2])": "np.sin(t / lengths[:D // 2] + math.pi / 2)"}}),
]
