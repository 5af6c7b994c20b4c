"""Residual connections, backward, and stacks of them in the pre-norm order, forward, as functions of their parts."""

import math
from types import SimpleNamespace

from ...models import Encoder
from ..sandbox import Function
from .blocks import Part, normal
from .definition import Exercise, Mistake


def residual_backward(dy, f_b):
    return dy + f_b(dy)


def pre_norm(x, norms, sublayers, final_norm):
    for norm, sublayer in zip(norms, sublayers):
        x = x + sublayer(norm(x))
    return final_norm(x)


SUBLAYERS = 4


def linear_maps(rng, n, count):
    """Backward functions of parts, each of them linear in the gradient that it takes; every second one mixes tokens."""
    return [Function("lambda dy: dy @ w" if i % 2 else "lambda dy: (dy + dy[..., ::-1, :]) @ w",
                     w=normal(rng, n.D, n.D) / n.D ** 0.5) for i in range(count)]


def draw_residual(rng, n):
    return normal(rng, *n.lead, n.D), *linear_maps(rng, n, 1)


def draw_forward(rng, n, count=SUBLAYERS):
    def norm():
        return Function("lambda x: gamma * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.1)",
                        gamma=rng.uniform(0.5, 2, n.D))
    sublayers = [Function("lambda x: np.tanh(x @ w)" if i % 2 else "lambda x: np.tanh((x + x[..., ::-1, :]) @ w)",
                          w=normal(rng, n.D, n.D) / n.D ** 0.5) for i in range(count)]
    mean = math.hypot(*(rng.standard_normal() for _ in range(8))) / 3
    return mean + 2 * normal(rng, *n.lead, n.D), [norm() for _ in sublayers], sublayers, norm()


def other_counts(draw):
    """Returns the edge cases of a stack: an odd number of sublayers, and a single one."""
    n = SimpleNamespace(lead=(2, 3), D=4)
    return lambda rng: [("three_sublayers", draw(rng, n, 3)), ("one_sublayer", draw(rng, n, 1))]


def forward_part(function):
    """A part that computes the function in forward."""
    return Part(0.0, lambda x, weight: function(x), None)


def backward_part(function):
    """A part whose forward is the identity and whose backward is the function."""
    return Part(0.0, lambda x, weight: x, lambda x, weight, dy: (function(dy), 0.0))


SAME = Part(0.0, lambda x, weight: x, lambda x, weight, dy: (dy, 0.0))
NOTHING = Part(0.0, lambda x, weight: 0 * x, lambda x, weight, dy: (0 * dy, 0.0))


def encoder(order, norms, sublayers, final_norm=None):
    """The package's encoder with these parts, two sublayers to a block; the second of the last one may be missing."""
    model = Encoder((len(sublayers) + 1) // 2, 1, 1, 1, 0.0, order)
    if len(sublayers) % 2:
        norms, sublayers = [*norms, SAME], [*sublayers, NOTHING]
    for i, block in enumerate(model.blocks):
        block.norm1, block.norm2 = norms[2 * i:2 * i + 2]
        block.attention, block.feed_forward = sublayers[2 * i:2 * i + 2]
    model.norm = final_norm
    return model


def by_pre_norm(x, norms, sublayers, final_norm):
    model = encoder("pre", list(map(forward_part, norms)), list(map(forward_part, sublayers)), forward_part(final_norm))
    return model(x)


def by_backward(order, dy, norms_b, sublayers_b, final_norm_b=lambda dy: dy):
    norms, sublayers = list(map(backward_part, norms_b)), list(map(backward_part, sublayers_b))
    model = encoder(order, norms, sublayers, backward_part(final_norm_b))
    model(dy)                                   # backward needs a forward; its output does not matter
    return model.backward(dy)


def by_residual(dy, f_b):
    """One sublayer is f, the norms are identities, and the other sublayer returns zeros."""
    return by_backward("pre", dy, [lambda dy: dy] * 2, [f_b, lambda dy: 0 * dy])


EXERCISES = [
    Exercise(
        "10.1", minutes=5, lines=1,
        solution=residual_backward, reference=by_residual, inputs=draw_residual, outputs=("dx",),
        mistakes=(
            Mistake("RES-1", {"dy + f_b(dy)": "f_b(dy)"}),
            Mistake("RES-2", {"dy + f_b(dy)": "dy"}),
            Mistake("RES-3", {"dy + f_b(dy)": "2 * dy + f_b(dy)"}),
            Mistake("RES-4", {"return dy + f_b(dy)": "dy += f_b(dy)\n    return dy"}),
            Mistake("RES-6", {"dy + f_b(dy)": "1 + f_b(dy)"}),
            Mistake("RES-13a", {"dy + f_b(dy)": "dy * (1 + f_b(np.ones_like(dy)))"}),
            Mistake("RES-13b", {"dy + f_b(dy)": "dy * f_b(dy)"}),
            Mistake("RES-15", {"dy + f_b(dy)": "(dy + f_b(dy)) / 2"}),
            Mistake("RES-16", {"dy + f_b(dy)": "dy - f_b(dy)"}),
            Mistake("RES-17c", {"dy + f_b(dy)": "2 * dy"}),
        ),
        alternatives={
            "into its own array": {"return dy + f_b(dy)": "dx = dy.copy()\n    dx += f_b(dy)\n    return dx"}}),
    Exercise(
        "10.2", minutes=10, lines=3, number_sizes=("tiny", "large"),
        solution=pre_norm, reference=by_pre_norm, inputs=draw_forward, edges=other_counts(draw_forward),
        mistakes=(
            Mistake("RES-1", {"x = x + sublayer(norm(x))": "x = sublayer(norm(x))"}),
            Mistake("RES-4", {"x = x + sublayer": "x += sublayer"}),
            Mistake("RES-5a", {"x = x + sublayer(norm(x))": "x = norm(x)\n        x = x + sublayer(x)"}),
            Mistake("RES-5b", {"x = x + sublayer(norm(x))": "x = norm(x + sublayer(x))"}),
            Mistake("RES-5c", {"x = x + sublayer(norm(x))": "x = x + norm(sublayer(x))"}),
            Mistake("RES-10", {"final_norm(x)": "x"}),
            Mistake("RES-11a", {
                "    for norm": "    y = x\n    for norm",
                "x = x + sublayer": "y = y + sublayer",
                "final_norm(x)": "final_norm(y)"}),
            Mistake("RES-14", {"sublayer(norm(x))": "sublayer(norms[0](x))"}),
            Mistake("RES-18a", {"    return final_norm(x)": "        x = final_norm(x)\n    return x"}),
            Mistake("RES-18b", {"    return final_norm(x)": "        return final_norm(x)"}),
            Mistake("RES-19", {"sublayer(norm(x))": "sublayer(x)"}),
            Mistake("RES-2", {"sublayer(norm(x))": "norm(x)"}),
            Mistake("RES-3", {"x = x + sublayer": "x = 2 * x + sublayer"}),
            Mistake("RES-8", {"zip(norms, sublayers)": "zip(reversed(norms), reversed(sublayers))"}),
            Mistake("RES-10b", {
                "    for norm": "    x = final_norm(x)\n    for norm",
                "return final_norm(x)": "return x"}),
            Mistake("RES-5e", {"x = x + sublayer(norm(x))": "x = norm(x) + sublayer(x)"}),
            Mistake("RES-11c", {"x = x + sublayer": "y = x + sublayer", "final_norm(x)": "final_norm(y)"}),
            Mistake("RES-14c", {
                "    for norm, sublayer in zip(norms, sublayers):\n        x = x + sublayer(norm(x))":
                    "    for norm in norms:\n        for sublayer in sublayers:\n"
                    "            x = x + sublayer(norm(x))"}),
            Mistake("RES-14b", {
                "    for norm, sublayer in zip(norms, sublayers):\n        x = x + sublayer(norm(x))":
                    "    for norm in norms:\n        x = norm(x)\n    for sublayer in sublayers:\n"
                    "        x = x + sublayer(x)"}),
        ),
        alternatives={
            "into its own array": {"    for norm": "    x = x.copy()\n    for norm",
                                   "x = x + sublayer": "x += sublayer"}}),
]
