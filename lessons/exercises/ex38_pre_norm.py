"""Exercise 38: A pre-norm stack, forward

About 3 lines, 10 minutes.  Lesson: numpy-transformer lesson 10
Check:  numpy-transformer exercise check 38
Hint:   numpy-transformer exercise hint 38
"""

import math

import numpy as np


def pre_norm(x, norms, sublayers, final_norm):
    """A stack of sublayers (attention, feed-forward layer, attention, ...) in the pre-norm order.

    x is a stream that runs past all sublayers. Each of them reads the stream through a norm of its own, and what it
    returns is added to the stream. The stream itself goes through one norm only, final_norm, at the end of the stack.
    x: (..., D).  norms, sublayers: lists of equally many functions; norms[i] belongs to sublayers[i].  final_norm: a
    function. All these functions map (..., D) to (..., D).
    Return y: (..., D).
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
