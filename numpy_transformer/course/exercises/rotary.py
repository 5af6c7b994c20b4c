"""Rotary positions, forward and backward."""

import numpy as np

from ...layers import RotaryEmbedding
from .definition import Exercise, Mistake


def rotary(x, offset):
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
    return rng.standard_normal((*n.lead, n.d // 2 * 2)), int(rng.integers(2, 60))


def rotary_backward(dy, cos, sin):
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


EXERCISES = [
    Exercise(
        "16.3", minutes=20, lines=9, size_letters="Td",
        solution=rotary, reference=lambda x, offset: RotaryEmbedding(x.shape[-1]).astype(np.float64)(x, offset),
        inputs=draw_rotary, outputs=("y",),
        edges=lambda rng: [("from_position_0", (rng.standard_normal((2, 4, 8)), 0)),
                           ("far_into_text", (rng.standard_normal((3, 2, 8)), 500)),
                           ("long_text", (rng.standard_normal((2, 2, 4)), int(rng.integers(8200, 9000))))],
        further_edges=("long_text",),
        must_be_zero={"length_x_stay": length_change},
        mistakes=(
            Mistake("ROP-1a", {
                "x[..., 0::2], x[..., 1::2]": "x[..., :d // 2], x[..., d // 2:]",
                "y[..., 0::2]": "y[..., :d // 2]",
                "y[..., 1::2]": "y[..., d // 2:]"}),
            Mistake("ROP-1b", {"y[..., 0::2]": "y[..., :d // 2]", "y[..., 1::2]": "y[..., d // 2:]"}),
            Mistake("ROP-2", {"cos - b": "cos + b", "a * sin + b": "-a * sin + b"}),
            Mistake("ROP-3a", {"cos - b": "cos + b"}),
            Mistake("ROP-3b", {
                "a, b = x[..., 0::2], x[..., 1::2]\n    y = np.empty_like(x)":
                    "y = x.copy()\n    a, b = y[..., 0::2], y[..., 1::2]"}),
            Mistake("ROP-3c", {"np.empty_like(x)": "x"}),
            Mistake("ROP-13", {"offset + np.arange(T)[:, None]": "np.array([offset])"}),
            Mistake("ROP-5a", {"np.arange(T)[:, None]": "np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1))"}),
            Mistake("ROP-5b", {"np.arange(0, d, 2) / d": "np.arange(d // 2) / d"}),
            Mistake("ROP-5c", {"np.arange(0, d, 2) / d": "2 * np.arange(0, d, 2) / d"}),
            Mistake("ROP-7", {"offset + np": "np"}),
            Mistake("ROP-15", {
                "cos, sin = np.cos(angles), np.sin(angles)": "cos, sin = np.tile(np.cos(angles), 2), np.tile(np.sin(angles), 2)",
                "a * cos - b * sin": "a * cos[..., 0::2] - b * sin[..., 0::2]",
                "a * sin + b * cos": "a * sin[..., 1::2] + b * cos[..., 1::2]"}),
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
        "16.4", minutes=15, lines=5, size_letters="Td",
        linked=(("cos", "sin"),),
        solution=rotary_backward, reference=by_rotary_backward, inputs=draw_backward, outputs=("dx",),
        must_be_zero={"length_dy_stay": length_change},
        mistakes=(
            Mistake("ROP-1a", {
                "dy[..., 0::2], dy[..., 1::2]": "np.split(dy, 2, -1)",
                "dx[..., 0::2]": "dx[..., :dy.shape[-1] // 2]",
                "dx[..., 1::2]": "dx[..., dy.shape[-1] // 2:]"}),
            Mistake("ROP-1b", {
                "dx[..., 0::2]": "dx[..., :dy.shape[-1] // 2]",
                "dx[..., 1::2]": "dx[..., dy.shape[-1] // 2:]"}),
            Mistake("ROP-6a", {"+ db": "- db", "- da": "+ da"}),
            Mistake("ROP-6b", {"return dx": "return dy.copy()"}),
            Mistake("ROP-3a", {"- da": "+ da"}),
            Mistake("ROP-3b", {
                "da, db = dy[..., 0::2], dy[..., 1::2]\n    dx = np.empty_like(dy)":
                    "dx = dy.copy()\n    da, db = dx[..., 0::2], dx[..., 1::2]"}),
            Mistake("ROP-3c", {"np.empty_like(dy)": "dy"}),
            Mistake("ROP-9", {"(dy, cos, sin)": "(dy, sin, cos)"}),
            Mistake("ROP-15", {
                "    dx = np": "    cos, sin = np.tile(cos, 2), np.tile(sin, 2)\n    dx = np",
                "da * cos + db * sin": "da * cos[..., 0::2] + db * sin[..., 0::2]",
                "db * cos - da * sin": "db * cos[..., 1::2] - da * sin[..., 1::2]"}),
            Mistake("ROP-13", {"da * cos + db * sin": "da * cos", "db * cos - da * sin": "db * cos"}),
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
