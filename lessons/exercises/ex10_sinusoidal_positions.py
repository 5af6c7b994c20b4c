"""Exercise 10: Sinusoidal positions

About 6 lines, 15 minutes.  Lesson: numpy-transformer lesson 04
Check:  numpy-transformer exercise check 10
Hint:   numpy-transformer exercise hint 10
"""

import math

import numpy as np


def sinusoidal_positions(T, D):
    """The table that is added to the embeddings: PE[t, 2i] = sin(t / 10000^(2i/D)), PE[t, 2i+1] = cos(the same).

    T: the number of positions, t = 0, ..., T - 1.  D: the number of features; an odd D ends in a sine.
    Return PE: (T, D).
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
