"""Exercise 20: Cross-attention, backward

About 8 lines, 25 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 07
Check:  numpy-transformer exercise check 20
Hint:   numpy-transformer exercise hint 20
"""

import math

import numpy as np


def softmax_backward(p, dp):
    """The gradient of the logits z, where forward was p = softmax(z) of each row.

    p: (..., n), what forward returned, rows sum to 1.  dp: (..., n), dL/dp.  Return dz: (..., n), dL/dz.
    """
    return p * (dp - (p * dp).sum(-1, keepdims=True))


def cross_attention_backward(x, memory, w_q, w_k, w_v, p, dy, dlater):
    """The gradients of both sequences. Every layer of the decoder attends to the same memory, this one and later ones.

    Forward was  q = x w_q,  k = memory w_k,  v = memory w_v,  p = softmax(q kᵀ / sqrt(D)),  y = p v.
    x: (..., T, D).  memory: (..., S, D).  w_q, w_k, w_v: (D, D).  p: (..., T, S).  dy: (..., T, D), dL/dy.
    dlater: (..., S, D), what reaches memory through the later layers alone, whose backward has run before.
    Return dx: (..., T, D), and dmemory: (..., S, D), what reaches memory through this layer and the later ones.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
