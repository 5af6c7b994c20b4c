"""Exercise 34: Dropout, backward

About 4 lines, 5 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 13
Check:  numpy-transformer exercise check 34
Hint:   numpy-transformer exercise hint 34
"""

import math

import numpy as np


def dropout_backward(x, u, p, training, dy):
    """The gradient of dropout as in exercise 33, for given random numbers.

    x: any shape, with exact zeros here and there.  u: the same shape, uniform in [0, 1).  p: a number in [0, 1), the
    probability of DROPPING an entry.  training: True or False. With these forward was run: in training an entry with
    u < p became 0, and all others were divided by 1 - p; not in training y = x.
    dy: the shape of x, dL/dy.  Return dx: the shape and dtype of x, dL/dx.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
