"""Exercise 04: Cross-entropy, backward

About 9 lines, 20 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 01
Check:  numpy-transformer exercise check 04
Hint:   numpy-transformer exercise hint 04
"""

import math

import numpy as np


def cross_entropy_backward(logits, targets, smoothing, ignore_id):
    """The gradient of the loss of exercise 03, the mean over the counted tokens of -sum_j q_j log softmax(z)_j.

    logits: (..., V), in the thousands too.
    targets: (...) integers, the right class of each token.
    smoothing: a number ε in [0, 1). q is 1 - ε at the right class, and ε is spread evenly over all V classes, the
        right one too, so that q sums to 1.
    ignore_id: tokens with this target are padding and do not count. It may be one of the classes, or none, such as -1.
        At least one token counts.
    Return dlogits: (..., V), dL/dlogits, exactly 0 for tokens that do not count. For float32 logits it is float32:
        NumPy's own integers, such as the sum of a mask, would make float64 of it; divide by int(...) of them.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
