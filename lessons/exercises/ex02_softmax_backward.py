"""Exercise 02: Softmax, backward

About 1 line, 10 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 01
Check:  numpy-transformer exercise check 02
Hint:   numpy-transformer exercise hint 02
"""

import math

import numpy as np


def softmax_backward(p, dp):
    """The gradient of the logits z, where forward was p = softmax(z) of each row.

    p: (..., n), what forward returned, rows sum to 1.  dp: (..., n), dL/dp.  Return dz: (..., n), dL/dz.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
