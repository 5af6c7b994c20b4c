"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from .module import Module
from .stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    return np.tri(T, dtype=bool)


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        p = self.weights = softmax(scores)
        self.remember(q, k, v, p)
        return p @ v

    def backward(self, dy):
        q, k, v, p = self.recall()
        dv = p.mT @ dy
        ds = softmax_backward(p, dy @ v.mT) / math.sqrt(q.shape[-1])
        return ds @ k, ds.mT @ q, dv
