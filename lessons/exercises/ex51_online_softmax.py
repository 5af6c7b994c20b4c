"""Exercise 51: Softmax in one pass

About 9 lines, 25 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 17
Check:  numpy-transformer exercise check 51
Hint:   numpy-transformer exercise hint 51
"""

import math

import numpy as np


def online_softmax(scores, values):
    """y = softmax(s) @ v in one pass over tiles of keys, each of which is seen once and then forgotten.

    scores: list of tiles (..., T, n); side by side they are s, (..., T, S). They may be in the thousands. Where a query
        may not attend, the score is -inf: for a whole tile perhaps, the first one too, but never for all keys.
    values: list of tiles (..., n, e); one below the other they are v, (..., S, e). n may differ from tile to tile.
    Return y: (..., T, e); m: (..., T, 1), the largest score of each query; l: (..., T, 1), its sum of exp(s - m). All
    three are float32 where the tiles are.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
