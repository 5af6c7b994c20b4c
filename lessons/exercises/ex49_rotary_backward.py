"""Exercise 49: Rotary positions, backward

About 5 lines, 15 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 16
Check:  numpy-transformer exercise check 49
Hint:   numpy-transformer exercise hint 49
"""

import math

import numpy as np


def rotary_backward(dy, cos, sin):
    """The gradient of rotary positions.

    Forward turned each pair of neighbours (a, b) = (x[..., 2i], x[..., 2i+1]) by the angle θ of its position and pair:
    y has a cos θ - b sin θ where a stood, and a sin θ + b cos θ where b stood.
    dy: (..., T, d), dL/dy, d even.  cos, sin: (T, d/2), cos θ and sin θ of each position and pair.
    Return dx: (..., T, d).
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
