"""Exercise 14: The padding mask

About 2 lines, 5 minutes.  Lesson: numpy-transformer lesson 06
Check:  numpy-transformer exercise check 14
Hint:   numpy-transformer exercise hint 14
"""

import math

import numpy as np


def padding_mask(ids, pad_id):
    """Which tokens may be seen, if padding must not be.

    ids: (B, S) integers, those of the keys' tokens.  pad_id: int, the id of padding.
    Return mask: (B, 1, 1, S) boolean, True = may attend: it broadcasts against scores (B, H, T, S).
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
