"""Exercise 61: Predict: shapes in attention

About 7 lines, 10 minutes.  Lesson: numpy-transformer lesson 07
Check:  numpy-transformer exercise check 61
Hint:   numpy-transformer exercise hint 61
"""

import math

import numpy as np


def shapes_in_attention():
    """Cross-attention with 2 heads: x (3, 5, 12) asks, memory (3, 7, 12) answers. B = 3, T = 5, S = 7, D = 12, H = 2.

    Predict, without running anything. Return these six in a tuple, each shape as an array such as np.array([3, 5, 12]):
    1. the shape of the queries, split into heads, as they meet the keys
    2. the shape of the weights
    3. the sum of all weights, if nothing is hidden
    4. the shape of a mask that hides the padding of each memory, has one axis for each axis of the weights, and is as
       small as that allows
    5. the shape of the gradient of the key matrix W_K
    6. the shape of dmemory
    """
    # TODO: replace this line.
    raise NotImplementedError
