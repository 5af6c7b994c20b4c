"""Dropout with given random numbers, forward and backward."""

import numpy as np

from ...layers import Dropout
from .definition import Exercise, Mistake


def dropout(x, u, p, training):
    if not training:
        return x
    keep = u >= p
    return x * keep / (1 - p)


def dropout_backward(x, u, p, training, dy):
    if not training:
        return dy
    keep = u >= p
    return dy * keep / (1 - p)


def uniform(rng, shape):
    """Multiples of 2^-16, which is the precision with which the package draws them."""
    return rng.integers(2 ** 16, size=shape) / 2 ** 16


def draw_inputs(rng, n):
    """p is a multiple of 1/16 and never 1/2, where confusing p and 1 - p would have no effect."""
    x = rng.standard_normal((*n.lead, n.D))
    x[..., ::5] = 0
    return x, uniform(rng, x.shape), float(rng.choice([3, 4, 5])) / 16, True


def edge_cases(rng):
    x, u = rng.standard_normal((4, 5)), uniform(rng, (4, 5))
    first = u.copy()
    first[1, ::2] = 0                           # u = p = 0: u < p does not hold, so nothing is dropped
    edge = u.copy()
    edge[2] = 0.25                              # u = p
    return [("not_training", (x, u, 0.25, False)), ("p_0_u", (x, first, 0.0, True)),
            ("u_p_occurs", (x, edge, 0.25, True))]


class Given:
    """Replaces a generator; returns the bits of these uniform numbers."""

    def __init__(self, u):
        self.u = u

    def integers(self, high, size, dtype, endpoint):
        bits = np.zeros(4 * size, np.uint16)
        bits[:self.u.size] = self.u.ravel() * 2 ** 16
        return bits.view(dtype)


def make_layer(u, p, training):
    layer = Dropout(p)
    layer.rng = Given(u)
    return layer.train() if training else layer.eval(remember=True)


def by_dropout_backward(x, u, p, training, dy):
    layer = make_layer(u, p, training)
    layer(x)
    return layer.backward(dy)


def with_dy(rng, arguments):
    return *arguments, rng.standard_normal(arguments[0].shape)


def dropped(inputs, outputs):
    x, u, p, training, *_ = inputs
    return np.where(training & (u < p), outputs[0], 0)


EXERCISES = [
    Exercise(
        "13.1", minutes=5, lines=4,
        solution=dropout, reference=lambda x, u, p, training: make_layer(u, p, training)(x),
        inputs=draw_inputs, edges=edge_cases,
        must_be_zero={"training_y_0": dropped},
        mistakes=(
            Mistake("DRP-1", {" / (1 - p)": ""}),
            Mistake("DRP-2a", {"/ (1 - p)": "/ p"}),
            Mistake("DRP-2b", {"/ (1 - p)": "* (1 - p)"}),
            Mistake("DRP-2c", {"/ (1 - p)": "* p"}),
            Mistake("DRP-12", {" / (1 - p)": " / max(float(keep.mean()), 1e-9)"}),
            Mistake("DRP-3a", {"u >= p": "u < p"}),
            Mistake("DRP-3d", {"u >= p": "u < 1 - p"}),
            Mistake("DRP-4a", {"        return x\n": "        return x / (1 - p)\n"}),
            Mistake("DRP-4b", {"        return x\n": "        return x * (1 - p)\n"}),
            Mistake("DRP-5c", {" * keep": ""}),
            Mistake("DRP-10", {"    return x * keep": "    x[~keep] = 0\n    return x"}),
            Mistake("DRP-9", {"    if not training:\n        return x\n": ""}),
        ),
        alternatives={"where": {"x * keep / (1 - p)": "np.where(keep, x / (1 - p), 0)"}}),
    Exercise(
        "13.2", minutes=5, lines=4,
        solution=dropout_backward, reference=by_dropout_backward, outputs=("dx",),
        inputs=lambda rng, n: with_dy(rng, draw_inputs(rng, n)),
        must_be_zero={"training_dx_0": dropped},
        edges=lambda rng: [(note, with_dy(rng, arguments)) for note, arguments in edge_cases(rng)],
        mistakes=(
            Mistake("DRP-1", {" / (1 - p)": ""}),
            Mistake("DRP-2a", {"/ (1 - p)": "/ p"}),
            Mistake("DRP-2b", {"/ (1 - p)": "* (1 - p)"}),
            Mistake("DRP-2c", {"/ (1 - p)": "* p"}),
            Mistake("DRP-12", {" / (1 - p)": " / max(float(keep.mean()), 1e-9)"}),
            Mistake("DRP-3a", {"u >= p": "u < p"}),
            Mistake("DRP-3d", {"u >= p": "u < 1 - p"}),
            Mistake("DRP-4a", {"        return dy\n": "        return dy / (1 - p)\n"}),
            Mistake("DRP-4b", {"        return dy\n": "        return dy * (1 - p)\n"}),
            Mistake("DRP-4c", {"        return dy\n": "        return np.zeros_like(dy)\n"}),
            Mistake("DRP-5c", {" * keep": ""}),
            Mistake("DRP-10", {"    return dy * keep": "    dy[~keep] = 0\n    return dy"}),
            Mistake("DRP-9", {"    if not training:\n        return dy\n": ""}),
            Mistake("DRP-5a", {"u >= p": "np.random.default_rng(0).random(x.shape) >= p"}),
            Mistake("DRP-5b", {"u >= p": "x * (u >= p) != 0"}),
            Mistake("DRP-5d", {"u >= p": "x != 0"}),
        )),
]
