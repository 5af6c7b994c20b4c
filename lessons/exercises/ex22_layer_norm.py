"""Exercise 22: LayerNorm, forward

About 4 lines, 10 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 08
Check:  numpy-transformer exercise check 22
Hint:   numpy-transformer exercise hint 22
"""

import math

import numpy as np


def layer_norm(x, gamma, beta, eps):
    """Layer normalization: each row gets mean 0 and, but for eps, variance 1; then gamma scales it and beta shifts it.

    x: (..., D), a row is one token with D features.  gamma, beta: (D,).  eps: a small number > 0, inside the root.
    Return y: (..., D), y = gamma x_hat + beta, x_hat = (x - mean) / sqrt(variance + eps). Mean and variance are those
    of each row of x over its D features; the variance divides by D.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
