"""Exercise 12: Attention, backward

About 7 lines, 25 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 05
Check:  numpy-transformer exercise check 12
Hint:   numpy-transformer exercise hint 12
"""

import math

import numpy as np


def softmax_backward(p, dp):
    """The gradient of the logits z, where forward was p = softmax(z) of each row.

    p: (..., n), what forward returned, rows sum to 1.  dp: (..., n), dL/dp.  Return dz: (..., n), dL/dz.
    """
    return p * (dp - (p * dp).sum(-1, keepdims=True))


def attention_backward(q, k, v, p, m, dy):
    """The gradients of attention with dropout on the weights.

    Forward was  s = q kᵀ / sqrt(d),  p = softmax(s) over visible keys,  y = (p * m) v.
    q: (..., T, d).  k: (..., S, d).  v: (..., S, e).  p: (..., T, S), 0 where a mask hid the key.
    m: (..., T, S), a constant: 0 where dropout struck a weight out, 1 / (1 - its rate) elsewhere.
    dy: (..., T, e), dL/dy.  Return dq: (..., T, d), dk: (..., S, d), dv: (..., S, e).
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
