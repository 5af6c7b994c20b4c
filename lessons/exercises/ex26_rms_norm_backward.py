"""Exercise 26: RMSNorm, backward

About 6 lines, 20 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 16
Check:  numpy-transformer exercise check 26
Hint:   numpy-transformer exercise hint 26
"""

import math

import numpy as np


def rms_norm_backward(x, gamma, eps, dy):
    """The gradients of y = gamma x_hat, x_hat = x / sqrt(mean of x^2 + eps).

    x: (..., D).  gamma: (D,).  eps: a small number > 0.  dy: (..., D), dL/dy. The mean is that of each row of x
    over its D features.
    Return dx: (..., D), dgamma: (D,).
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
