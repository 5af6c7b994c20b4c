"""Positions: the sinusoidal table, and rotary positions forward and backward."""

import numpy as np

from ...layers import RotaryEmbedding, SinusoidalPositionalEncoding
from ..exercise import Exercise, Mistake


def sinusoidal_positions(T, D):
    """The table that is added to the embeddings: PE[t, 2i] = sin(t / 10000^(2i/D)), PE[t, 2i+1] = cos(the same).

    T: the number of positions, t = 0, ..., T - 1.  D: the number of features; an odd D ends in a sine.
    Return PE: (T, D).
    """
    t = np.arange(T)[:, None]
    lengths = 10000 ** (np.arange(0, D, 2) / D)
    table = np.zeros((T, D))
    table[:, 0::2] = np.sin(t / lengths)
    table[:, 1::2] = np.cos(t / lengths[:D // 2])
    return table


def by_layer(T, D):
    return SinusoidalPositionalEncoding(D, max_len=T).astype(np.float64).table


def rotary(x, offset):
    """Each pair of neighbours (a, b) = (x[..., 2i], x[..., 2i+1]) is turned by the angle t / 10000^(2i/d).

    Turned by θ means: a cos θ - b sin θ stands where a stood, and a sin θ + b cos θ where b stood.
    x: (..., T, d), d even: queries or keys.  offset: the position of the first token; t = offset, offset + 1, ...
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
    """The gradient of rotary positions.

    Forward turned each pair of neighbours (a, b) = (x[..., 2i], x[..., 2i+1]) by the angle θ of its position and pair:
    y has a cos θ - b sin θ where a stood, and a sin θ + b cos θ where b stood.
    dy: (..., T, d), dL/dy, d even.  cos, sin: (T, d/2), cos θ and sin θ of each position and pair.
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
SINES, COSINES = "table[:, 0::2]", "table[:, 1::2]"
HALVES = ("The pairs are made of the two halves of the features. That is another convention; here neighbours are a "
          "pair, 0 and 1, 2 and 3.")
ONE_SIGN = "Both sines have the same sign, so lengths change. In a rotation one of them is the other's negative."
OVERWRITTEN = ("The second line already sees the new first member of each pair. Both come from the old pair: keep it "
               "until both are computed.")
IN_PLACE = ("The result is written into the argument, which belongs to the caller, and the second line already sees "
            "the new first member of each pair. Make a new array.")
SLOW_HALF = "The exponent here is i / D. It has to be 2i / D: the number of the pair's first feature, over D."
TWICE = "The exponent here is 4i / D, and it has to be 2i / D: a range in steps of 2 counts 2i already."
OWN = "Every feature has its own frequency. A pair shares one, or it is no point on a circle."

EXERCISES = [
    Exercise(
        "04.1", "Sinusoidal positions", minutes=15, lines=6,
        solution=sinusoidal_positions, reference=by_layer, inputs=lambda rng, n: (n.T, n.D), outputs=("PE",),
        edges=lambda rng: [("an odd number of features", (6, 7)), ("more positions", (300, 16))],
        invariants=(("sin² + cos² of each pair must be 1", circles),),
        hints=("Which features share one frequency? Write down the exponents of the features 0, 1, 2, 3 for D = 4.",
               "The exponents 2i / D are np.arange(0, D, 2) / D, one for two features. t as a column and they as a "
               "row give all angles at once.",
               "angles = np.arange(T)[:, None] / 10000 ** (np.arange(0, D, 2) / D); table[:, 0::2] is their sine, "
               "table[:, 1::2] their cosine, of the first D // 2."),
        mistakes=(
            Mistake("PE-1", {EXPONENT: "np.arange((D + 1) // 2) / D"}, SLOW_HALF),
            Mistake("PE-2", {EXPONENT: "2 * np.arange(0, D, 2) / D"}, TWICE),
            Mistake("PE-3", {EXPONENT: "np.arange(D) / D", "np.sin(t / lengths)": "np.sin(t / lengths[0::2])",
                             "lengths[:D // 2]": "lengths[1::2]"}, OWN),
            Mistake("PE-4a", {SINES: "table[:, :(D + 1) // 2]", COSINES: "table[:, (D + 1) // 2:]"},
                    "All sines stand before all cosines. They alternate: even features are sines, odd ones cosines."),
            Mistake("PE-4b", {"np.sin(": "np.cos(", "np.cos(": "np.sin("},
                    "Sine and cosine are swapped: position 0 gives 0, 1, 0, 1, ..."),
            Mistake("PE-5a", {"np.arange(T)[:, None]": "np.arange(1, T + 1)[:, None]"},
                    "The positions begin with 1. The first token has t = 0."),
            Mistake("PE-5b", {"t / lengths)": "t * lengths)", "t / lengths[": "t * lengths["},
                    "t is multiplied by 10000^(2i/D) instead of divided: later pairs must turn more slowly."),
            Mistake("PE-5c", {"10000 ": "1000 "}, "The base here is 1000. It has to be 10000."),
            Mistake("PE-7", {"lengths[:D // 2]": "lengths"},
                    "An odd D has one cosine fewer than sines: leave out the last frequency there."),
            Mistake("PE-8", {EXPONENT: "np.arange(0, D, 2) // D"},
                    "// rounds every exponent down to 0, so all features have one frequency. Divide with /."),
            Mistake("PE-9", {EXPONENT: "np.arange((D + 1) // 2) / (D // 2 - 1)"},
                    "The exponents are i / (D/2 - 1) and end at 1. Some code does that; asked for is 2i / D, which "
                    "stays below 1."),
            Mistake("PE-10", {"np.sin(": "np.sin(2 * np.pi * ", "np.cos(": "np.cos(2 * np.pi * "},
                    "The angles are multiplied by 2π. t / 10000^(2i/D) is an angle in radians already."),
            Mistake("PE-11", {"return table": "return table.T"},
                    "The table comes out transposed: it must have a row for each position, a column for each feature."),
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
        invariants=(("lengths must stay as they are", length_change),),
        hints=("There is one angle for each position and each pair: which shape is that, and along which axis of x do "
               "the positions run?",
               "angles (T, d/2): positions as a column over 10000 ** (np.arange(0, d, 2) / d). x[..., 0::2] are all a, "
               "x[..., 1::2] all b.",
               "y[..., 0::2] = a cos - b sin and y[..., 1::2] = a sin + b cos, into a new array, with t = offset + "
               "np.arange(T)[:, None]."),
        mistakes=(
            Mistake("ROP-1a", {"x[..., 0::2], x[..., 1::2]": "x[..., :d // 2], x[..., d // 2:]",
                               "y[..., 0::2]": "y[..., :d // 2]", "y[..., 1::2]": "y[..., d // 2:]"}, HALVES),
            Mistake("ROP-1b", {"y[..., 0::2]": "y[..., :d // 2]", "y[..., 1::2]": "y[..., d // 2:]"},
                    "The pairs are taken from neighbours, but written as two halves. Each member goes back to its "
                    "place."),
            Mistake("ROP-2", {"cos - b": "cos + b", "a * sin + b": "-a * sin + b"},
                    "Every pair is turned in the wrong direction: that is the rotation by -θ."),
            Mistake("ROP-3a", {"cos - b": "cos + b"}, ONE_SIGN),
            Mistake("ROP-3b", {"a, b = x[..., 0::2], x[..., 1::2]\n    y = np.empty_like(x)":
                               "y = x.copy()\n    a, b = y[..., 0::2], y[..., 1::2]"}, OVERWRITTEN),
            Mistake("ROP-3c", {"np.empty_like(x)": "x"}, IN_PLACE),
            Mistake("ROP-5a", {"np.arange(T)[:, None]": "np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1))"},
                    "The angle follows the first axis of x. Positions run along the axis before the features, "
                    "whatever stands in front of it."),
            Mistake("ROP-5b", {"np.arange(0, d, 2) / d": "np.arange(d // 2) / d"},
                    SLOW_HALF.replace("D", "d")),
            Mistake("ROP-5c", {"np.arange(0, d, 2) / d": "2 * np.arange(0, d, 2) / d"}, TWICE.replace("D", "d")),
            Mistake("ROP-7", {"offset + np": "np"},
                    "offset is ignored. The first token of x is not always the first of the text: a cache holds those "
                    "before."),
            Mistake("ROP-8", {"offset + np": "1 + offset + np"},
                    "The positions begin one too high: the first is offset itself."),
            Mistake("ROP-9", {"np.cos(angles), np.sin(angles)": "np.sin(angles), np.cos(angles)"},
                    "Sine and cosine are swapped. At position 0 the angle is 0 and nothing may change: cos 0 = 1."),
            Mistake("ROP-10", {"t / 10000 **": "t * 10000 **"},
                    "t is multiplied by 10000^(2i/d) instead of divided: later pairs must turn more slowly."),
            Mistake("ROP-11", {"return y": "return x + y"},
                    "The turned x is added to x. Rotary positions turn and add nothing: y is the turned x itself."),
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
        invariants=(("lengths must stay as they are", length_change),),
        hints=("y is linear in x: each pair is multiplied by a 2 x 2 matrix. What does backward multiply by?",
               "By its transpose, which is the rotation by the angle -θ.",
               "dx[..., 0::2] = da cos + db sin and dx[..., 1::2] = db cos - da sin, with (da, db) the pairs of dy."),
        mistakes=(
            Mistake("ROP-1a", {"dy[..., 0::2], dy[..., 1::2]": "np.split(dy, 2, -1)",
                               "dx[..., 0::2]": "dx[..., :dy.shape[-1] // 2]",
                               "dx[..., 1::2]": "dx[..., dy.shape[-1] // 2:]"}, HALVES),
            Mistake("ROP-1b", {"dx[..., 0::2]": "dx[..., :dy.shape[-1] // 2]",
                               "dx[..., 1::2]": "dx[..., dy.shape[-1] // 2:]"},
                    "The pairs are taken from neighbours, but written as two halves. Each member goes back to its "
                    "place."),
            Mistake("ROP-6a", {"+ db": "- db", "- da": "+ da"},
                    "The gradient is turned by +θ, as forward turned x. Going back multiplies by the transposed "
                    "matrix."),
            Mistake("ROP-6b", {"return dx": "return dy.copy()"},
                    "dy is passed on unchanged. That is right where positions are added; here forward turned x."),
            Mistake("ROP-3a", {"- da": "+ da"}, ONE_SIGN),
            Mistake("ROP-3d", {"+ db": "- db"}, ONE_SIGN),
            Mistake("ROP-3b", {"da, db = dy[..., 0::2], dy[..., 1::2]\n    dx = np.empty_like(dy)":
                               "dx = dy.copy()\n    da, db = dx[..., 0::2], dx[..., 1::2]"}, OVERWRITTEN),
            Mistake("ROP-3c", {"np.empty_like(dy)": "dy"}, IN_PLACE),
            Mistake("ROP-9", {"(dy, cos, sin)": "(dy, sin, cos)"}, "Sine and cosine are swapped."),
            Mistake("ROP-12", {"da * cos + db * sin": "da / cos + db / sin",
                               "db * cos - da * sin": "db / cos - da / sin"},
                    "dy is divided by what forward multiplied with. Backward does not undo the products of forward: "
                    "it multiplies dy by their slopes."),
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
