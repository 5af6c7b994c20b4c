"""Exercise 24: LayerNorm, a class

About 11 lines, 20 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 08
Check:  numpy-transformer exercise check 24
Hint:   numpy-transformer exercise hint 24
"""

import math

import numpy as np


class Parameter:
    """A trainable array and its gradient, as in the package: backward adds into grad."""

    def __init__(self, data):
        self.data = data
        self.grad = np.zeros_like(data)


class LayerNorm:
    """y = gamma x_hat + beta, x_hat = (x - mean) / sqrt(variance + eps), a layer that can be used several times.

    Mean and variance are those of each row of x over its D features; the variance divides by D. backward belongs to the
    latest forward that has had no backward yet, and adds (+=) into gamma.grad and beta.grad, both (D,).
    """

    def __init__(self, gamma, beta, eps):
        self.gamma, self.beta, self.eps = Parameter(gamma), Parameter(beta), eps
        self.memory = []                        # what forward remembers: append there, pop in backward

    def forward(self, x):
        """x: (..., D).  Return y: (..., D)."""
        # TODO: replace this line; do not change the arguments in place.
        raise NotImplementedError

    def backward(self, dy):
        """dy: (..., D), dL/dy.  Return dx: (..., D); add into gamma.grad and beta.grad."""
        # TODO: replace this line; do not change the arguments in place.
        raise NotImplementedError
