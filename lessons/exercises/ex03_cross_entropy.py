"""Exercise 03: Cross-entropy

About 7 lines, 20 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 01
Check:  numpy-transformer exercise check 03
Hint:   numpy-transformer exercise hint 03
"""

import math

import numpy as np


def cross_entropy(logits, targets, smoothing, ignore_id):
    """The mean over the counted tokens of -sum_j q_j log p_j, with p = softmax of the token's logits.

    logits: (..., V), in the thousands too.
    targets: (...) integers, the right class of each token.
    smoothing: a number ε in [0, 1). q is 1 - ε at the right class, and ε is spread evenly over all V classes, the
        right one too, so that q sums to 1.
    ignore_id: tokens with this target are padding and do not count. It may be one of the classes, or none, such as -1.
        At least one token counts.
    Return loss: one number. log is the natural logarithm.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
