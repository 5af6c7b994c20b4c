"""Exercise 31: SwiGLU, backward

About 10 lines, 30 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 09
Check:  numpy-transformer exercise check 31
Hint:   numpy-transformer exercise hint 31
"""

import math

import numpy as np


def rows(x):
    """(..., n) -> (N, n), a view where possible: one large matmul instead of a batch of small ones."""
    return x.reshape(-1, x.shape[-1])


def swiglu_backward(x, Wg, Wu, Wd, dy):
    """The gradients of y = (silu(x Wg) * (x Wu)) Wd, silu(g) = g sigma(g), sigma(g) = 1 / (1 + exp(-g)).

    x: (..., D).  Wg, Wu: (D, F).  Wd: (F, D).  dy: (..., D), dL/dy.
    Return dx: (..., D), dWg: (D, F), dWu: (D, F), dWd: (F, D).
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
