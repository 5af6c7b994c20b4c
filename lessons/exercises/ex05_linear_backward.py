"""Exercise 05: The linear layer, backward

About 4 lines, 15 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 02
Check:  numpy-transformer exercise check 05
Hint:   numpy-transformer exercise hint 05
"""

import math

import numpy as np


def linear_backward(x, weight, dy):
    """The gradients of y = x weight + bias.

    x: (..., d_in), any number of leading axes, or none.  weight: (d_in, d_out).  dy: (..., d_out), dL/dy.
    All rows of x share weight and bias. Return dx: (..., d_in), dweight: (d_in, d_out), dbias: (d_out,).
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
