"""Exercise 78: Find the bug: a mean

About 1 line, 5 minutes.  Lesson: numpy-transformer lesson 11
Check:  numpy-transformer exercise check 78
Hint:   numpy-transformer exercise hint 78
"""

import math

import numpy as np


def text_vectors(x, real):
    """WRONG. The mean over the real tokens of each text: x (B, T, D), real (B, T), True = a real token."""
    return (x * real[..., None]).mean(1)


def mean_probe():
    """Inputs on which text_vectors, above, gives wrong means.

    Return x: (B, T, D), floats between -1000 and 1000, and real: (B, T), booleans, True = a real token; every text has
    at least one; at most 1000 entries each. The wrong means must differ from the right ones by more than a thousandth
    of the larger ones (norms of the whole arrays).
    """
    # TODO: replace this line.
    raise NotImplementedError
