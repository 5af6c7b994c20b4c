"""Exercise 36: The mean over real tokens, backward

About 3 lines, 10 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 11
Check:  numpy-transformer exercise check 36
Hint:   numpy-transformer exercise hint 36
"""

import math

import numpy as np


def masked_mean_backward(real, dy):
    """The gradient of y = masked_mean(x, real): the mean over the real tokens of each text, 0 where none is real.

    real: (..., T) boolean, True = a real token, False = padding, which may stand anywhere.  dy: (..., D), dL/dy.
    Return dx: (..., T, D), dL/dx, of the dtype of dy. NumPy's own integers, such as sums of a mask, would make float64
    of float32: count.astype(dy.dtype) does not.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
