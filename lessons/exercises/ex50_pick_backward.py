"""Exercise 50: Picking tokens, backward

About 4 lines, 15 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 14
Check:  numpy-transformer exercise check 50
Hint:   numpy-transformer exercise hint 50
"""

import math

import numpy as np


def pick_backward(places, dy, T):
    """The gradient of picking tokens: y[b, k] = x[b, places[b, k]].

    places: (B, K) integers from 0 to T - 1. One place may be named twice.  dy: (B, K, D), dL/dy.  T: int, the number of
    tokens in each sequence of x.
    Return dx: (B, T, D), dL/dx, of the dtype of dy.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
