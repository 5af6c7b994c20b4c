"""Exercise 25: RMSNorm, forward

About 2 lines, 5 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 16
Check:  numpy-transformer exercise check 25
Hint:   numpy-transformer exercise hint 25
"""

import math

import numpy as np


def rms_norm(x, gamma, eps):
    """RMS normalization: each row is divided by the root of the mean of its squares, then scaled.

    x: (..., D).  gamma: (D,).  eps: a small number > 0, inside the root.
    Return y: (..., D), y = gamma x / sqrt(mean of x^2 + eps); the mean is that of each row over its D features.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
