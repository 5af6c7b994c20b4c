"""Exercise 46: A decoding step with cached keys and values

About 5 lines, 15 minutes. float32 in, float32 out.  Lesson: numpy-transformer lesson 12
Check:  numpy-transformer exercise check 46
Hint:   numpy-transformer exercise hint 46
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


def key_value_step(q, k, v, keys, values):
    """Causal attention, softmax(q kᵀ / sqrt(d)) v, of one new token, without computing the earlier ones again.

    q, k, v: (..., 1, d), query, key and value of the new token.
    keys, values: (..., S, d), those of the S earlier tokens, in order; S may be 0.
    Return y: (..., 1, d), the last row of causal attention over all S + 1 tokens; and, for the next step, keys and
    values: (..., S + 1, d), now with those of the new token.
    """
    # TODO: replace this line; do not change the arguments in place.
    raise NotImplementedError
