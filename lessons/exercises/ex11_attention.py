"""Exercise 11: Attention

About 3 lines, 15 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 05
Check:  numpy-transformer exercise check 11
Hint:   numpy-transformer exercise hint 11
"""

import math

import numpy as np


def softmax(z):
    """p = softmax of each row.

    z: (..., n) logits, in the thousands too. A row is what lies along the last axis; the dots stand for any number of
    axes before it, or none.  Return p: (..., n), p_j = exp(z_j) / sum_k exp(z_k) within each row.
    """
    p = np.exp(z - z.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def attention(q, k, v):
    """Every query takes a weighted mean of the values.

    y = p v,  p = softmax(q kᵀ / sqrt(d)): row t of p holds the weights with which query t takes the S values.
    q: (..., T, d) queries.  k: (..., S, d) keys.  v: (..., S, e) values.
    Return y: (..., T, e) and p: (..., T, S), each row of which sums to 1, both of the dtype of q: math.sqrt(d) keeps
    float32, np.sqrt(d) makes it float64.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
