"""Exercise 42: Binary cross-entropy

About 2 lines, 15 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 11
Check:  numpy-transformer exercise check 42
Hint:   numpy-transformer exercise hint 42
"""

import math

import numpy as np


def binary_cross_entropy(logits, targets):
    """The loss of a yes-or-no question: the mean of -(t log p + (1 - t) log(1 - p)), p = 1 / (1 + exp(-z)).

    logits: z, any shape; they may be in the thousands, positive and negative: the loss stays finite and exact.
    targets: t, the same shape, numbers from 0 to 1, most of them 0 or 1.
    Return loss: one number, the mean over all entries. log is the natural logarithm.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
