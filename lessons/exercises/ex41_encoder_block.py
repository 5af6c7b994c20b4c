"""Exercise 41: An encoder block, a class

About 4 lines, 20 minutes.  Lesson: numpy-transformer lesson 10
Check:  numpy-transformer exercise check 41
Hint:   numpy-transformer exercise hint 41
"""

import math

import numpy as np


class Parameter:
    """A trainable array and its gradient, as in the package: backward adds into grad."""

    def __init__(self, data):
        self.data = data
        self.grad = np.zeros_like(data)


class Layer:
    """A layer y = f(x, weight), whose gradients are (dx, dweight) = f_b(x, weight, dy).

    backward belongs to the latest forward that has had no backward yet, returns dx and adds into weight.grad.
    """

    def __init__(self, weight, f, f_b):
        self.weight, self.f, self.f_b = Parameter(weight), f, f_b
        self.memory = []

    def forward(self, x):
        self.memory.append(x)
        return self.f(x, self.weight.data)

    def backward(self, dy):
        dx, dweight = self.f_b(self.memory.pop(), self.weight.data, dy)
        self.weight.grad += dweight
        return dx


class EncoderBlock:
    """A pre-norm block: attention, then feed_forward, each in a residual connection with its norm before it.

    norm1 belongs to attention, norm2 to feed_forward. The four parts are given, each a Layer with forward(x) and
    backward(dy), called once in the block's forward and once in its backward; what they compute is of no matter here.
    They remember what their backward needs, and add into the gradients of their weights; the block itself has nothing
    to remember.
    """

    def __init__(self, norm1, attention, norm2, feed_forward):
        self.norm1, self.attention = Layer(*norm1), Layer(*attention)
        self.norm2, self.feed_forward = Layer(*norm2), Layer(*feed_forward)

    def forward(self, x):
        """x: (B, T, D).  Return y: (B, T, D)."""
        # TODO: replace this line; do not change the arguments in place.
        raise NotImplementedError

    def backward(self, dy):
        """dy: (B, T, D), dL/dy.  Return dx: (B, T, D)."""
        # TODO: replace this line; do not change the arguments in place.
        raise NotImplementedError
