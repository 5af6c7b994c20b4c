"""Exercise 68: Find the bug: softmax

About 1 line, 5 minutes.  Lesson: numpy-transformer lesson 01
Check:  numpy-transformer exercise check 68
Hint:   numpy-transformer exercise hint 68
"""

import math

import numpy as np


def softmax(z):
    """WRONG. p = exp(z) / sum of exp(z) in each row; a maximum is subtracted, so that exp cannot overflow."""
    p = np.exp(z - z.max())
    return p / p.sum(-1, keepdims=True)


def softmax_probe():
    """Logits on which softmax, above, gives wrong probabilities.

    Return z: (N, n), floats between -1000 and 1000, at most 1000 entries. The wrong probabilities must differ from the
    right ones by more than a thousandth (norms of the whole arrays), or be NaN.
    """
    # TODO: replace this line.
    raise NotImplementedError
