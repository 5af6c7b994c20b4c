"""Exercise 16: Splitting heads

About 2 lines, 10 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 07
Check:  numpy-transformer exercise check 16
Hint:   numpy-transformer exercise hint 16
"""

import math

import numpy as np


def split_heads(x, num_heads):
    """The features of each token, dealt out to the heads.

    x: (..., T, D).  num_heads: int, H, which divides D; d = D / H.
    Return heads: (..., H, T, d): head h holds the features h d to (h + 1) d - 1 of every token.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
