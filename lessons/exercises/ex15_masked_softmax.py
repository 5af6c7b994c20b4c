"""Exercise 15: Softmax with a mask

About 5 lines, 20 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 06
Check:  numpy-transformer exercise check 15
Hint:   numpy-transformer exercise hint 15
"""

import math

import numpy as np


def masked_softmax(scores, mask):
    """Softmax over those keys that the mask allows.

    scores: (..., T, S), in the thousands too.  mask: boolean, broadcasts to the shape of scores, True = may attend.
    Return p: (..., T, S), of the dtype of scores: each row sums to 1, and a hidden key has weight exactly 0. The row of
    a query that may attend to nothing is 0.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
