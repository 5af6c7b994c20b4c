"""Exercise 48: Rotary positions

About 9 lines, 20 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 16
Check:  numpy-transformer exercise check 48
Hint:   numpy-transformer exercise hint 48
"""

import math

import numpy as np


def rotary(x, offset):
    """Each pair of neighbours (a, b) = (x[..., 2i], x[..., 2i+1]) is turned by the angle t / 10000^(2i/d).

    Turned by θ means: a cos θ - b sin θ stands where a stood, and a sin θ + b cos θ where b stood.
    x: (..., T, d), d even: queries or keys.  offset: the position of the first token; t = offset, offset + 1, ...
    Return y: (..., T, d), of the dtype of x.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
