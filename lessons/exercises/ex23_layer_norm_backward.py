"""Exercise 23: LayerNorm, backward

About 9 lines, 30 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 08
Check:  numpy-transformer exercise check 23
Hint:   numpy-transformer exercise hint 23
"""

import math

import numpy as np


def layer_norm_backward(x, gamma, eps, dy):
    """The gradients of y = gamma x_hat + beta, x_hat = (x - mean) / sqrt(variance + eps).

    x: (..., D).  gamma: (D,).  eps: a small number > 0.  dy: (..., D), dL/dy. Mean and variance are those of each row
    of x over its D features; the variance divides by D. The gradients do not depend on beta.
    Return dx: (..., D), dgamma: (D,), dbeta: (D,).
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
