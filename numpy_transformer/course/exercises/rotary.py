"""Rotary positions, forward and backward."""

import numpy as np

from ...layers import RotaryEmbedding
from .definition import Exercise, Mistake
from .positions import SLOW_HALF, TWICE


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


HALVES = ("You pair each feature of the first half with one of the second half. That is another convention. Here "
          "neighboring features form a pair: 0 and 1, 2 and 3.")
ONE_SIGN = ("Both of your sines have the same sign, so the lengths change. In a rotation, the two have opposite signs.")
OVERWRITTEN = ("Your second line reads the first member of each pair after it was overwritten. Both new members are "
               "computed from the old pair, so keep it until both are done.")
IN_PLACE = ("You write the result into the argument, which belongs to the caller. Your second line also reads the "
            "first member of each pair after it was overwritten. Make a new array.")

EXERCISES = [
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
                    "Your sines and cosines belong to pairs of neighbors, but you combine features of the two halves. "
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
