"""Stage 4: the activation GELU and the feed-forward layer."""

import math

import numpy as np

from .module import Module
from .stage02_linear import Linear

C = math.sqrt(2 / math.pi)                      # of GELU's tanh form
CUBIC = 0.044715


class GELU(Module):
    """y = x (1 + tanh(u)) / 2, where u = C (x + CUBIC x^3). Shape: x (any) -> y (the same)."""

    def forward(self, x):
        t = np.tanh(C * (x + CUBIC * x * x * x))
        self.remember(x, t)
        return x * (1 + t) / 2

    def backward(self, dy):
        x, t = self.recall()
        du = C * (1 + 3 * CUBIC * x * x)
        return dy * ((1 + t) / 2 + x * (1 - t * t) * du / 2)


class FeedForward(Module):
    """y = down(GELU(up(x))): two linear layers, d_model -> d_ff -> d_model. Shape: x (..., d_model) -> y (the same)."""

    def __init__(self, d_model, d_ff, rng):
        self.up = Linear(d_model, d_ff, rng)
        self.activation = GELU()
        self.down = Linear(d_ff, d_model, rng)

    def forward(self, x):
        return self.down(self.activation(self.up(x)))

    def backward(self, dy):
        return self.up.backward(self.activation.backward(self.down.backward(dy)))
