"""Exercise 67: Find the bug: a padding mask

About 1 line, 5 minutes.  Lesson: numpy-transformer lesson 06
Check:  numpy-transformer exercise check 67
Hint:   numpy-transformer exercise hint 67
"""

import math

import numpy as np


def attention_weights(scores, ids):
    """WRONG. softmax over the keys; a key whose id is 0 is padding and gets weight 0."""
    scores = np.where(ids[0] == 0, -np.inf, scores)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def mask_probe():
    """Inputs on which attention_weights, above, gives wrong weights.

    Return scores: (B, T, S), floats between -1000 and 1000, and ids: (B, S), integers up to 1000, 0 = padding; every
    sequence has at least one token that is not padding; at most 1000 entries each. The wrong weights must differ from
    the right ones by more than a thousandth (norms of the whole arrays).
    """
    # TODO: replace this line.
    raise NotImplementedError
