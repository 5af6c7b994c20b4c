"""Exercise 06: The linear layer, a class

About 7 lines, 20 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 02
Check:  numpy-transformer exercise check 06
Hint:   numpy-transformer exercise hint 06
"""

import math

import numpy as np


class Parameter:
    """A trainable array and its gradient, as in the package: backward adds into grad."""

    def __init__(self, data):
        self.data = data
        self.grad = np.zeros_like(data)


class Linear:
    """y = x weight + bias, a layer that can be used several times before its gradients are asked for.

    forward takes x: (..., d_in) and returns y: (..., d_out). backward takes dy: (..., d_out), returns dx: (..., d_in),
    and adds (+=) into weight.grad (d_in, d_out) and bias.grad (d_out,). It belongs to the latest forward that has had
    no backward yet: of two forwards, the second is answered first.
    """

    def __init__(self, weight, bias):
        self.weight, self.bias = Parameter(weight), Parameter(bias)
        self.memory = []                        # what forward remembers, the latest last

    def forward(self, x):
        """x: (..., d_in).  Return y: (..., d_out)."""
        # TODO: replace this line; do not change the arguments in place.
        raise NotImplementedError

    def backward(self, dy):
        """dy: (..., d_out), dL/dy.  Return dx: (..., d_in); add into weight.grad and bias.grad."""
        # TODO: replace this line; do not change the arguments in place.
        raise NotImplementedError
