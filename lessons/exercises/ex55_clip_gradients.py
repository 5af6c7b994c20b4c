"""Exercise 55: Clipping by the global norm

About 3 lines, 10 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 19
Check:  numpy-transformer exercise check 55
Hint:   numpy-transformer exercise hint 55
"""

import math

import numpy as np


def clip_gradients(gradients, max_norm):
    """Clip three gradients by their global norm, the length of one vector of all their entries.

    gradients: list of three arrays of any shapes; all may be 0.  max_norm: a number above 0.
    A global norm above max_norm becomes max_norm, and the vector keeps its direction; otherwise nothing changes.
    Return a tuple of three arrays: the gradients in the same order and shapes.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
