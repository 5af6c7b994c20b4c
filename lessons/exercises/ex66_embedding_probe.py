"""Exercise 66: Find the bug: embedding, backward

About 2 lines, 5 minutes.  Lesson: numpy-transformer lesson 03
Check:  numpy-transformer exercise check 66
Hint:   numpy-transformer exercise hint 66
"""

import math

import numpy as np


def embedding_backward(ids, dy):
    """WRONG. The gradient of the table (10, D) in y = table[ids]: each row gets the sum of the dy of its tokens."""
    dtable = np.zeros((10, dy.shape[-1]))
    dtable[ids] += dy
    return dtable


def embedding_probe():
    """Inputs on which embedding_backward, above, gives a wrong gradient of a table with 10 rows.

    Return ids: (B, T), integers from 0 to 9, and dy: (B, T, D), floats between -1000 and 1000, at most 1000 entries
    each. The wrong gradient must differ from the right one by more than a thousandth of the larger one (norms of the
    whole arrays).
    """
    # TODO: replace this line.
    raise NotImplementedError
