"""Exercise 35: The mean over real tokens

About 3 lines, 10 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 11
Check:  numpy-transformer exercise check 35
Hint:   numpy-transformer exercise hint 35
"""

import math

import numpy as np


def masked_mean(x, real):
    """One vector for a whole text: the mean over its real tokens.

    x: (..., T, D), a row for each token.  real: (..., T) boolean, True = a real token, False = padding, which may stand
    anywhere and hold any numbers. Entries of x may be exactly 0.
    Return y: (..., D), of the dtype of x: the mean of the rows of real tokens; 0 where no token is real. NumPy's own
    integers, such as sums of a mask, would make float64 of float32: count.astype(x.dtype) does not.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
