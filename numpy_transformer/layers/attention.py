"""Scaled dot-product attention: every query takes a weighted mean of the values."""

import math

import numpy as np

from ..module import Module
from ..argument_checks import check_array
from .dropout import Dropout
from .masks import fit_mask, mask_scores
from .softmax import Softmax


def group_query_heads(x, k):
    """(..., H, T, n) -> (..., G, H/G T, n): the rows of all query heads that share a key head of k.

    A view where H == G. Grouped queries are then one matmul a key head, and backward's sums the group by itself.
    """
    return x if x.shape[:-2] == k.shape[:-2] else x.reshape(*k.shape[:-2], -1, x.shape[-1])


def matmul_like(a, b, like):
    """a @ b, laid out in memory as `like`, an array of as many axes: merging heads then copies nothing."""
    out = np.empty_like(like, np.result_type(a, b), shape=(*a.shape[:-1], b.shape[-1]))
    return np.matmul(a, b, out=out)


class ScaledDotProductAttention(Module):
    """y = P v,   P = softmax(q kᵀ / sqrt(d)), hidden scores -inf.

    A hidden key has weight exactly 0; a query that may attend to nothing gives 0. With fewer heads in
    k and v than in q (grouped queries), H/G neighbouring query heads share one key and value head.

    Parameters: dropout : float, on the weights P; rng : generator or seed of the dropout
    Shape: q (B, H, T, d), k (B, G, S, d), v (B, G, S, e), mask -> y (B, H, T, e); B may be absent, and B and H
        together. `weights` (B, H, T, S) are those of the latest forward, before dropout.
    Backward: dv = Pᵀ dy,   dP = dy vᵀ,   dS = softmax backward of dP,   dq = dS k / sqrt(d),   dk = dSᵀ q / sqrt(d)
    Raises: ValueError if the shapes of q, k and v do not fit together; as AttentionMask for the mask.
    Source: Vaswani et al. 2017, equation 1; grouped queries: Ainslie et al. 2023.
    """

    def __init__(self, dropout=0.0, rng=None):
        self.softmax = Softmax()
        self.dropout = Dropout(dropout, rng)
        self.weights = None

    def forward(self, q, k, v, mask=None):
        check_array(self, q, k, v)
        check_shapes(q, k, v)
        q = q / math.sqrt(q.shape[-1])          # on q, the smallest place to scale the scores
        scores = (group_query_heads(q, k) @ k.mT).reshape(*q.shape[:-1], -1)
        if mask is not None:
            mask_scores(scores, fit_mask(mask, scores.shape))
        weights = self.softmax(scores)
        self.weights = weights.view()
        self.weights.flags.writeable = False    # to be looked at: backward needs the numbers as they are
        p = self.dropout(weights)
        self.remember(q, k, v, p)
        return matmul_like(group_query_heads(p, v), v, like=q).reshape(*q.shape[:-1], -1)

    def backward(self, dy):
        q, k, v, p = self.recall()              # q is q / sqrt(d)
        dy = group_query_heads(dy, v)
        dv = matmul_like(group_query_heads(p, v).mT, dy, like=v)
        dp = (dy @ v.mT).reshape(p.shape)
        dscores = group_query_heads(self.softmax.backward(self.dropout.backward(dp)), k)      # 0 where p is: hidden ones too
        dk = matmul_like(dscores.mT, group_query_heads(q, k), like=k)
        dq = matmul_like(dscores, k, like=q).reshape(q.shape)
        dq /= math.sqrt(q.shape[-1])
        return dq, dk, dv


def check_shapes(q, k, v):
    same = q.ndim == k.ndim >= 2 and q.shape[:-3] == k.shape[:-3] and q.shape[-1] == k.shape[-1]
    if not same or k.shape[:-1] != v.shape[:-1] or q.ndim > 2 and q.shape[-3] % k.shape[-3]:
        raise ValueError(f"queries {q.shape}, keys {k.shape} and values {v.shape} do not fit together: wanted "
                         "(B, H, T, d), (B, G, S, d) and (B, G, S, e) with H a multiple of G")
