"""Exercise 01: Softmax

About 2 lines, 10 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 01
Check:  numpy-transformer exercise check 01
Hint:   numpy-transformer exercise hint 01
"""

import math

import numpy as np


def softmax(z):
    """p = softmax of each row.

    z: (..., n) logits, in the thousands too. A row is what lies along the last axis; the dots stand for any number of
    axes before it, or none.  Return p: (..., n), p_j = exp(z_j) / sum_k exp(z_k) within each row.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
