"""Exercise 57: A pooling head, a class

About 11 lines, 25 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 11
Check:  numpy-transformer exercise check 57
Hint:   numpy-transformer exercise hint 57
"""

import math

import numpy as np


class Parameter:
    """A trainable array and its gradient, as in the package: backward adds into grad."""

    def __init__(self, data):
        self.data = data
        self.grad = np.zeros_like(data)


class PoolingHead:
    """Logits for a whole text: the mean over its real tokens, then logits = mean weight + bias.

    It can be used several times before its gradients are asked for: backward belongs to the latest forward that has
    had no backward yet, and adds (+=) into weight.grad (D, C) and bias.grad (C,). The mean of a text without real
    tokens is 0. NumPy's own integers, such as sums of a mask, would make float64 of float32: count.astype(x.dtype)
    does not.
    """

    def __init__(self, weight, bias):
        self.weight, self.bias = Parameter(weight), Parameter(bias)
        self.memory = []                        # what forward remembers, the latest last

    def forward(self, x, real):
        """x: (..., T, D).  real: (..., T) boolean, True = a real token.  Return logits: (..., C)."""
        # TODO: replace this line; do not change the arguments in place.
        raise NotImplementedError

    def backward(self, dlogits):
        """dlogits: (..., C), dL/dlogits.  Return dx: (..., T, D); add into weight.grad and bias.grad."""
        # TODO: replace this line; do not change the arguments in place.
        raise NotImplementedError
