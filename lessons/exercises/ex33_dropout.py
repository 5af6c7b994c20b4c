"""Exercise 33: Dropout

About 4 lines, 5 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 13
Check:  numpy-transformer exercise check 33
Hint:   numpy-transformer exercise hint 33
"""

import math

import numpy as np


def dropout(x, u, p, training):
    """Dropout with given random numbers.

    x: any shape.  u: the same shape, uniform in [0, 1).  p: a number in [0, 1), the probability of DROPPING an entry.
    training: True or False.  Return y: the shape and dtype of x.
    In training an entry with u < p becomes 0, and all others are divided by 1 - p, so that the mean stays. Not in
    training nothing is dropped or scaled, y = x.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
