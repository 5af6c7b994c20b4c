"""Scaled dot-product attention: every query takes a weighted mean of the values."""

import math

import numpy as np

from ..argument_checks import check_array
from ..module import Module
from .dropout import Dropout
from .masks import fit_mask, mask_scores
from .softmax import Softmax


def group_query_heads(x, k):
    """(..., H, T, n) -> (..., G, H/G T, n): puts the query heads that share one of the G key heads into one matrix.

    Grouped queries then need one matrix product for each key head, and backward's products sum over each group. With
    H == G this returns x itself.
    """
    if x.shape[:-2] == k.shape[:-2]:
        return x
    return x.reshape(*k.shape[:-2], -1, x.shape[-1])


class ScaledDotProductAttention(Module):
    """y = P v,   P = softmax(q kᵀ / sqrt(d)), where masked scores are -inf.

    In the code, `k.mT` is NumPy's transpose of the last two axes.

    A masked key has weight exactly 0, and the output of a query that may attend to nothing is 0. With fewer heads in k
    and v than in q (grouped queries), H/G neighboring query heads share one key and value head.

    Parameters: dropout : float (0.0), on the weights P; rng : generator or seed of the dropout, or None
    Shape: q (B, H, T, d), k (B, G, S, d), v (B, G, S, e), mask -> y (B, H, T, e); B may be absent, or both B and H.
        `weights` (B, H, T, S) are those of the latest forward, before dropout.
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
        q = q / math.sqrt(q.shape[-1])          # scaling q is cheaper than scaling all scores
        scores = (group_query_heads(q, k) @ k.mT).reshape(*q.shape[:-1], -1)                     # q kᵀ / sqrt(d)
        if mask is not None:
            mask_scores(scores, fit_mask(mask, scores.shape))
        weights = self.softmax(scores)
        self.weights = weights.view()
        self.weights.flags.writeable = False    # read-only, because backward needs these values unchanged
        p = self.dropout(weights)
        self.remember(q, k, v, p)
        return (group_query_heads(p, v) @ v).reshape(*q.shape[:-1], -1)

    def backward(self, dy):
        q, k, v, p = self.recall()              # q is already divided by sqrt(d)
        dy = group_query_heads(dy, v)
        dv = group_query_heads(p, v).mT @ dy
        dp = (dy @ v.mT).reshape(p.shape)
        dscores = self.softmax.backward(self.dropout.backward(dp))          # 0 where p is 0, so also at masked scores
        dscores = group_query_heads(dscores, k)
        dk = dscores.mT @ group_query_heads(q, k)
        dq = (dscores @ k).reshape(q.shape)
        return dq / math.sqrt(q.shape[-1]), dk, dv


def check_shapes(q, k, v):
    """Raises ValueError unless q, k and v have fitting shapes."""
    fits = q.ndim == k.ndim >= 2 and q.shape[:-3] == k.shape[:-3] and q.shape[-1] == k.shape[-1]
    fits = fits and k.shape[:-1] == v.shape[:-1]
    if fits and q.ndim > 2:
        fits = q.shape[-3] % k.shape[-3] == 0
    if not fits:
        raise ValueError(f"queries {q.shape}, keys {k.shape} and values {v.shape} do not fit together: wanted "
                         "(B, H, T, d), (B, G, S, d) and (B, G, S, e) with H a multiple of G")
