"""Exercise 79: Exact match

About 6 lines, 15 minutes.  Lesson: numpy-transformer lesson 15
Check:  numpy-transformer exercise check 79
Hint:   numpy-transformer exercise hint 79
"""

import math

import numpy as np


def exact_match(predictions, targets, tasks, count):
    """The share of answers of each task that are exactly right, from the first token to the last.

    predictions: (N, P) and targets: (N, T) integers, a row of ids each; P and T may differ. A row is a text up to its
    first EOS, 2; neither EOS nor what stands behind it, which may be anything, is a part of the text. A row without EOS
    is a text to its end, where the decoder had to stop. In a text there is neither PAD, 0, nor BOS, 1.
    tasks: (N,) integers from 0 to count - 1, the task of each row.  count: int, the number of tasks.
    Return shares: (count,), for each task the share of its rows in which both texts are the same; 0 for a task that has
    no rows.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
