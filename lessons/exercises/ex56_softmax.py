"""Exercise 56: Softmax with a temperature, a class

About 6 lines, 15 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 01
Check:  numpy-transformer exercise check 56
Hint:   numpy-transformer exercise hint 56
"""

import math

import numpy as np


class Softmax:
    """p = softmax(z / temperature) of each row, a layer that can be used several times before its backward.

    temperature is a number above 0. forward takes z: (..., n) and returns p: (..., n). backward takes dp: (..., n) and
    returns dz: (..., n). It belongs to the latest forward that has had no backward yet: of two forwards, the second is
    answered first. Of a forward it knows only what that has remembered.
    """

    def __init__(self, temperature):
        self.temperature = temperature
        self.memory = []                        # what forward remembers, the latest last

    def forward(self, z):
        """z: (..., n) logits, in the thousands too.  Return p: (..., n), each row sums to 1."""
        # TODO: replace this line; do not change the arguments in place.
        raise NotImplementedError

    def backward(self, dp):
        """dp: (..., n), dL/dp.  Return dz: (..., n), dL/dz."""
        # TODO: replace this line; do not change the arguments in place.
        raise NotImplementedError
