"""Exercise 65: Find the bug: LayerNorm, backward

About 2 lines, 10 minutes.  Lesson: numpy-transformer lesson 08
Check:  numpy-transformer exercise check 65
Hint:   numpy-transformer exercise hint 65
"""

import math

import numpy as np


def layer_norm_backward(x, gamma, dy):
    """WRONG. dx of y = gamma * x_hat + beta, x_hat = (x - mean) / std over the last axis, std = sqrt(var + 1e-5)."""
    std = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    x_hat = (x - x.mean(-1, keepdims=True)) / std
    centred = dy - dy.mean(-1, keepdims=True) - x_hat * (dy * x_hat).mean(-1, keepdims=True)
    return gamma * centred / std


def layer_norm_probe():
    """Inputs on which layer_norm_backward, above, gives a wrong dx. With the gamma of a new layer it is right.

    Return x: (T, D), gamma: (D,), dy: (T, D), arrays of floats between -1000 and 1000, at most 1000 entries each. The
    wrong dx must differ from the right one by more than a thousandth of the larger one (norms of the whole arrays).
    """
    # TODO: replace this line.
    raise NotImplementedError
