"""Exercise 40: A post-norm stack, backward

About 5 lines, 15 minutes.  Lesson: numpy-transformer lesson 10
Check:  numpy-transformer exercise check 40
Hint:   numpy-transformer exercise hint 40
"""

import math

import numpy as np


def post_norm_backward(dy, norms_b, sublayers_b):
    """The gradient of x in a post-norm stack: x = norm(x + f(x)) for each norm and sublayer f; the last x is y.

    dy: (..., D), dL/dy.  norms_b, sublayers_b: lists of the backwards of norms and sublayers, in the order of forward.
    Each of them is a function: given the gradient of what its part returned, it returns the gradient of what its part
    was given, both (..., D).
    Return dx: (..., D), the gradient of the x that went into the stack.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
