"""Exercise 18: The projections of self-attention, backward

About 5 lines, 20 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 07
Check:  numpy-transformer exercise check 18
Hint:   numpy-transformer exercise hint 18
"""

import math

import numpy as np


def merge_heads(heads):
    """The inverse of split_heads: the heads of each token, side by side.

    heads: (..., H, T, d).  Return x: (..., T, H d): features h d to (h + 1) d - 1 of a token are those of head h.
    """
    tokens = heads.swapaxes(-2, -3)
    return tokens.reshape(*tokens.shape[:-2], -1)


def multi_head_backward(x, w_q, w_k, w_v, dq, dk, dv):
    """The gradients of the projections with which self-attention begins.

    Forward was  q = split_heads(x w_q),  k = split_heads(x w_k),  v = split_heads(x w_v), as in exercise 16.
    x: (..., T, D).  w_q, w_k, w_v: (D, D).  dq, dk, dv: (..., H, T, d), dL/dq, dL/dk and dL/dv, with H d = D.
    Return dx: (..., T, D), and dw_q, dw_k, dw_v: (D, D).
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
