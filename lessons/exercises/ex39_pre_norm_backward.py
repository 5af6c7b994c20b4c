"""Exercise 39: A pre-norm stack, backward

About 4 lines, 15 minutes.  Lesson: numpy-transformer lesson 10
Check:  numpy-transformer exercise check 39
Hint:   numpy-transformer exercise hint 39
"""

import math

import numpy as np


def pre_norm_backward(dy, norms_b, sublayers_b, final_norm_b):
    """The gradient of x in a pre-norm stack: x = x + f(norm(x)) for each norm and sublayer f, then y = final_norm(x).

    dy: (..., D), dL/dy.  norms_b, sublayers_b: lists of the backwards of norms and sublayers, in the order of forward.
    final_norm_b: that of final_norm. Each of them is a function: given the gradient of what its part returned, it
    returns the gradient of what its part was given, both (..., D).
    Return dx: (..., D), the gradient of the x that went into the stack.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
