"""Positions: the sinusoidal table, and rotary positions forward and backward."""

import numpy as np

from ...layers import RotaryEmbedding, SinusoidalPositionalEncoding
from ..exercise import Exercise, Mistake


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


def rotary(x, offset):
    """Rotates each pair of neighboring features, (a, b) = (x[..., 2i], x[..., 2i+1]), by the angle t / 10000^(2i/d).

    Rotating the pair by θ replaces a by a cos θ - b sin θ, and b by a sin θ + b cos θ.

    x: (..., T, d), queries or keys, with d even.
    offset: the position of the first token, so t = offset, offset + 1, ...
    Return y: (..., T, d), of the dtype of x.
    """
    T, d = x.shape[-2:]
    t = offset + np.arange(T)[:, None]
    angles = t / 10000 ** (np.arange(0, d, 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = x[..., 0::2], x[..., 1::2]
    y = np.empty_like(x)
    y[..., 0::2] = a * cos - b * sin
    y[..., 1::2] = a * sin + b * cos
    return y


def draw_rotary(rng, n):
    return rng.standard_normal((*n.lead, n.d // 2 * 2)), n.B


def rotary_backward(dy, cos, sin):
    """Computes the gradient of rotary positions.

    The forward pass rotated each pair of neighboring features, (a, b) = (x[..., 2i], x[..., 2i+1]), by the angle θ of
    its position and pair. In y, a is replaced by a cos θ - b sin θ, and b by a sin θ + b cos θ.

    dy: (..., T, d), dL/dy, with d even.
    cos, sin: (T, d/2), cos θ and sin θ for each position and pair.
    Return dx: (..., T, d).
    """
    da, db = dy[..., 0::2], dy[..., 1::2]
    dx = np.empty_like(dy)
    dx[..., 0::2] = da * cos + db * sin
    dx[..., 1::2] = db * cos - da * sin
    return dx


def draw_backward(rng, n):
    dy, offset = draw_rotary(rng, n)
    return dy, *RotaryEmbedding(dy.shape[-1]).astype(np.float64).angles(dy, offset, None)


def by_rotary_backward(dy, cos, sin):
    layer = RotaryEmbedding(dy.shape[-1])
    layer.remember(cos, sin)
    return layer.backward(dy)


def length_change(inputs, outputs):
    return (outputs[0] ** 2).sum(-1) - (inputs[0] ** 2).sum(-1)


def circles(inputs, outputs):
    pairs = inputs[1] // 2
    return outputs[0][:, 0:2 * pairs:2] ** 2 + outputs[0][:, 1::2] ** 2 - 1


EXPONENT = "np.arange(0, D, 2) / D"
SINES = "table[:, 0::2]"
COSINES = "table[:, 1::2]"
HALVES = ("You pair each feature of the first half with one of the second half. That is another convention. Here "
          "neighboring features form a pair: 0 and 1, 2 and 3.")
ONE_SIGN = ("Both of your sines have the same sign, so the lengths change. In a rotation, the two have opposite signs.")
OVERWRITTEN = ("Your second line reads the first member of each pair after it was overwritten. Both new members are "
               "computed from the old pair, so keep it until both are done.")
IN_PLACE = ("You write the result into the argument, which belongs to the caller. Your second line also reads the "
            "first member of each pair after it was overwritten. Make a new array.")
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
    Exercise(
        "16.3", "Rotary positions", minutes=20, lines=9,
        solution=rotary, reference=lambda x, offset: RotaryEmbedding(x.shape[-1]).astype(np.float64)(x, offset),
        inputs=draw_rotary, outputs=("y",),
        edges=lambda rng: [("from position 0 on", (rng.standard_normal((2, 4, 8)), 0)),
                           ("far into a text", (rng.standard_normal((3, 2, 8)), 500))],
        invariants=(("the length of each x must stay unchanged", length_change),),
        hints=("There is one angle for each position and each pair. Which shape is that, and along which axis of x do "
               "the positions run?",
               "The angles have shape (T, d/2): the positions as a column, divided by 10000 ** (np.arange(0, d, 2) / "
               "d). x[..., 0::2] contains all a, and x[..., 1::2] all b.",
               "y[..., 0::2] = a cos - b sin and y[..., 1::2] = a sin + b cos, written into a new array, with t = "
               "offset + np.arange(T)[:, None]."),
        mistakes=(
            Mistake("ROP-1a", {"x[..., 0::2], x[..., 1::2]": "x[..., :d // 2], x[..., d // 2:]",
                               "y[..., 0::2]": "y[..., :d // 2]", "y[..., 1::2]": "y[..., d // 2:]"}, HALVES),
            Mistake("ROP-1b", {"y[..., 0::2]": "y[..., :d // 2]", "y[..., 1::2]": "y[..., d // 2:]"},
                    "You take the pairs from neighboring features but write them as two halves. Write each member back "
                    "to its own place."),
            Mistake("ROP-2", {"cos - b": "cos + b", "a * sin + b": "-a * sin + b"},
                    "You rotate every pair in the wrong direction, by -θ."),
            Mistake("ROP-3a", {"cos - b": "cos + b"}, ONE_SIGN),
            Mistake("ROP-3b", {"a, b = x[..., 0::2], x[..., 1::2]\n    y = np.empty_like(x)":
                               "y = x.copy()\n    a, b = y[..., 0::2], y[..., 1::2]"}, OVERWRITTEN),
            Mistake("ROP-3c", {"np.empty_like(x)": "x"}, IN_PLACE),
            Mistake("ROP-3d", {"a * sin + b * cos": "b * cos - a * sin"}, ONE_SIGN),
            Mistake("ROP-3e", {"a * sin + b * cos": "a * sin - b * cos"},
                    "Your second line has the wrong sign before b cos θ, so each pair is also reflected. At θ = 0, "
                    "nothing may change."),
            Mistake("ROP-13", {"offset + np.arange(T)[:, None]": "np.array([offset])"},
                    "All your tokens have the same position. It grows by 1 from token to token."),
            Mistake("ROP-14", {"10000 **": "1000 **"}, "Your base is 1000. It must be 10000."),
            Mistake("ROP-15", {"d, 2) / d)": "d, 2) // d)"},
                    "// rounds every exponent down to 0, so all pairs have the same frequency. Divide with /."),
            Mistake("ROP-16", {"t / 10000 **": "2 * np.pi * t / 10000 **"},
                    "You multiply by 2π. t / 10000^(2i/d) is already an angle in radians."),
            Mistake("ROP-17", {"offset + np": "offset * np"},
                    "You multiply by offset. It is the position of the first token, so it is added."),
            Mistake("ROP-18", {"    return y": "    pairs = np.concatenate([-x[..., d // 2:], x[..., :d // 2]], "
                               "-1)\n    return (x * np.repeat(cos, 2, -1) + pairs * np.repeat(sin, 2, -1)).astype(x.dtype)"},
                    "Your angles belong to pairs of neighbors, but your features are paired as first and second half. "
                    "Here neighboring features form a pair: 0 and 1, 2 and 3."),
            Mistake("ROP-5a", {"np.arange(T)[:, None]": "np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1))"},
                    "Your angle depends on the index along the first axis of x. The positions run along the "
                    "second-to-last axis, however many axes precede it."),
            Mistake("ROP-5b", {"np.arange(0, d, 2) / d": "np.arange(d // 2) / d"},
                    SLOW_HALF.replace("D", "d")),
            Mistake("ROP-5c", {"np.arange(0, d, 2) / d": "2 * np.arange(0, d, 2) / d"}, TWICE.replace("D", "d")),
            Mistake("ROP-7", {"offset + np": "np"},
                    "Your code ignores offset. The first token of x is not always the first of the text: with a "
                    "key-value cache, x contains only the new tokens."),
            Mistake("ROP-8", {"offset + np": "1 + offset + np"},
                    "Your positions are too large by one. The first position is offset itself."),
            Mistake("ROP-9", {"np.cos(angles), np.sin(angles)": "np.sin(angles), np.cos(angles)"},
                    "You have swapped sine and cosine. At position 0 the angle is 0, so nothing may change, because "
                    "cos 0 = 1."),
            Mistake("ROP-10", {"t / 10000 **": "t * 10000 **"},
                    "You multiply t by 10000^(2i/d) instead of dividing. The frequency must decrease from pair to "
                    "pair."),
            Mistake("ROP-11", {"return y": "return x + y"},
                    "You add the rotated x to x. Rotary positions rotate and add nothing, so y is the rotated x "
                    "itself."),
        ),
        alternatives={
            "complex numbers": {"a, b = x[..., 0::2], x[..., 1::2]": "turned = (x[..., 0::2] + 1j * x[..., 1::2]) * "
                                "np.exp(1j * angles)", "a * cos - b * sin": "turned.real",
                                "a * sin + b * cos": "turned.imag"},
            "stacked": {"return y": "return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)"
                        ".astype(x.dtype)"},
            "repeated angles": {"    return y": "    c, s = np.repeat(cos, 2, -1), np.repeat(sin, 2, -1)\n"
                                "    turned = np.stack([-b, a], -1).reshape(x.shape)\n"
                                "    return (x * c + turned * s).astype(x.dtype)"}}),
    Exercise(
        "16.4", "Rotary positions, backward", minutes=15, lines=5,
        solution=rotary_backward, reference=by_rotary_backward, inputs=draw_backward, outputs=("dx",),
        invariants=(("the length of each dy must stay unchanged", length_change),),
        hints=("y is linear in x: each pair is multiplied by a 2 x 2 matrix. Which matrix does backward multiply by?",
               "It multiplies by the transpose, which is the rotation by the angle -θ.",
               "dx[..., 0::2] = da cos + db sin and dx[..., 1::2] = db cos - da sin, where (da, db) are the pairs of "
               "dy."),
        mistakes=(
            Mistake("ROP-1a", {"dy[..., 0::2], dy[..., 1::2]": "np.split(dy, 2, -1)",
                               "dx[..., 0::2]": "dx[..., :dy.shape[-1] // 2]",
                               "dx[..., 1::2]": "dx[..., dy.shape[-1] // 2:]"}, HALVES),
            Mistake("ROP-1b", {"dx[..., 0::2]": "dx[..., :dy.shape[-1] // 2]",
                               "dx[..., 1::2]": "dx[..., dy.shape[-1] // 2:]"},
                    "You take the pairs from neighboring features but write them as two halves. Write each member back "
                    "to its own place."),
            Mistake("ROP-6a", {"+ db": "- db", "- da": "+ da"},
                    "You rotate the gradient by +θ, as forward rotated x. Backward multiplies by the transposed "
                    "matrix."),
            Mistake("ROP-6b", {"return dx": "return dy.copy()"},
                    "You return dy unchanged. That is correct for positions that are added, but here forward rotated "
                    "x."),
            Mistake("ROP-3a", {"- da": "+ da"}, ONE_SIGN),
            Mistake("ROP-3d", {"+ db": "- db"}, ONE_SIGN),
            Mistake("ROP-3b", {"da, db = dy[..., 0::2], dy[..., 1::2]\n    dx = np.empty_like(dy)":
                               "dx = dy.copy()\n    da, db = dx[..., 0::2], dx[..., 1::2]"}, OVERWRITTEN),
            Mistake("ROP-3c", {"np.empty_like(dy)": "dy"}, IN_PLACE),
            Mistake("ROP-9", {"(dy, cos, sin)": "(dy, sin, cos)"},
                    "You have swapped sine and cosine: at position 0 the angle is 0, where dx must equal dy."),
            Mistake("ROP-13", {"da * cos + db * sin": "da * cos", "db * cos - da * sin": "db * cos"},
                    "You leave out the sines. Each member of a pair affects both members of the rotated pair, so its "
                    "gradient has two terms."),
            Mistake("ROP-14", {"dx[..., 0::2]": "dx[..., 1::2]", "dx[..., 1::2]": "dx[..., 0::2]"},
                    "You have swapped the two members of each pair in dx."),
            Mistake("ROP-15", {"da * cos + db * sin": "da * cos + da * sin",
                               "db * cos - da * sin": "db * cos - db * sin"},
                    "Each of your lines uses one member of the pair only. Each member of x affects both members of y, "
                    "so its gradient has a term with each of them."),
            Mistake("ROP-16", {"da * cos + db * sin": "-da * sin - db * cos", "db * cos - da * sin":
                               "da * cos - db * sin"},
                    "You differentiate with respect to the angle. The angle is fixed; x is what the gradient is for."),
            Mistake("ROP-12", {"da * cos + db * sin": "da / cos + db / sin",
                               "db * cos - da * sin": "db / cos - da / sin"},
                    "You divide dy by the factors of forward. Backward does not undo the products of forward. It "
                    "multiplies dy by their derivatives."),
        ),
        alternatives={
            "complex numbers": {"da, db = dy[..., 0::2], dy[..., 1::2]":
                                "back = (dy[..., 0::2] + 1j * dy[..., 1::2]) * (cos - 1j * sin)",
                                "da * cos + db * sin": "back.real", "db * cos - da * sin": "back.imag"},
            "matrices": {"    return dx":
                         "    turn = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], -2)\n"
                         "    pairs = dy.reshape(*dy.shape[:-1], -1, 2)\n"
                         "    return (turn @ pairs[..., None]).reshape(dy.shape).astype(dy.dtype)"}}),
]
