"""Scaled dot-product attention: every query takes a weighted mean of the values."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..argument_checks import called, check_array
from ..module import Module
from ..types import Component, Seed
from .dropout import Dropout
from .masks import fit_mask, mask_scores
from .softmax import Softmax


class ScaledDotProductAttention(Module):
    """y = P v,   P = softmax(q kᵀ / sqrt(d)), where masked scores are -inf.

    In the code, `k.mT` is NumPy's transpose of the last two axes.

    A masked key has weight exactly 0, and the output of a query that may attend to nothing is 0. With fewer heads in k
    and v than in q (grouped queries), H/G neighboring query heads share one key and value head.

    Parameters: dropout : float (0.0), on the weights P; rng : generator or seed of the dropout, or None
    Attributes: `score_changes`, a list of components that take scores (B, H, T, S) and return changed ones, such as
        PositionBias; they are called one after the other, before the mask. Empty at first
    Shape: q (B, H, T, d), k (B, G, S, d), v (B, G, S, e), mask -> y (B, H, T, e); B may be absent, or both B and H.
        `weights` (B, H, T, S) are those of the latest forward, before dropout.
    Backward: dv = Pᵀ dy,   dP = dy vᵀ,   dA = softmax backward of dP,   dq = dA k / sqrt(d),   dk = dAᵀ q / sqrt(d),
        where dA has gone back through the score changes, the last one first
    Raises: ValueError if the shapes of q, k and v do not fit together; as AttentionMask for the mask.
    Source: Vaswani et al. 2017, equation 1; grouped queries: Ainslie et al. 2023.
    """

    def __init__(self, dropout: float = 0.0, rng: Seed = None) -> None:
        self.softmax = Softmax()
        self.dropout = Dropout(dropout, rng)
        self.score_changes: list[Component] = []
        self.weights: np.ndarray | None = None

    def forward(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        check_array(self, q, k, v)
        check_shapes(q, k, v)
        scores = self.score(q, k)
        for change in self.score_changes:
            scores = change(scores)
        if mask is not None:
            scores = self.hide(scores, fit_mask(mask, scores.shape))
        weights = self.softmax(scores)
        self.weights = weights.view()
        self.weights.flags.writeable = False    # read-only, because backward needs these values unchanged
        return self.average(self.dropout(weights), v)

    def backward(self, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        dp, dv = self.average_backward(dy)
        dscores = self.softmax.backward(self.dropout.backward(dp))      # 0 where p is 0, so also at masked scores
        for change in reversed(self.score_changes):
            dscores = change.backward(dscores)
        dq, dk = self.score_backward(dscores)
        return dq, dk, dv

    def score(self, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Returns the scores (B, H, T, S), a new array."""
        q = q / self.divisor(q.shape[-1])       # before the product, because q has fewer entries than the scores
        self.remember(q, k)
        return q @ repeat_heads(k, q).mT

    def score_backward(self, dscores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns dq (B, H, T, d) and dk (B, G, S, d)."""
        q, k = self.recall()
        dq = dscores @ repeat_heads(k, q)                   # scores = q @ k.mT
        dk = sum_over_groups(dscores.mT @ q, k)
        dq = dq / self.divisor(q.shape[-1])                 # q = q / sqrt(d)
        return dq, dk

    def hide(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Returns the scores with -inf where the mask is False. In place, unless a score change may remember them."""
        return np.where(mask, scores, -np.inf) if self.score_changes else mask_scores(scores, mask)

    def average(self, p: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Returns the means (B, H, T, e) of the values with the weights p (B, H, T, S)."""
        self.remember(p, v)
        return p @ repeat_heads(v, p)

    def average_backward(self, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns dp (B, H, T, S) and dv (B, G, S, e)."""
        p, v = self.recall()
        dp = dy @ repeat_heads(v, p).mT                     # y = p @ v
        dv = sum_over_groups(p.mT @ dy, v)
        return dp, dv

    def divisor(self, d: int) -> float:
        """Returns the number that the products of queries and keys of width d are divided by."""
        return math.sqrt(d)


def with_score_changes(attention: Component, *changes: Component) -> Component:
    """Returns the attention, which from now on changes its scores by these components too.

    Raises: ValueError if it has no scores that could be changed, as FlashAttention.
    """
    if not hasattr(attention, "score_changes"):
        names = ", ".join(type(change).__name__ for change in changes)
        raise ValueError(f"{type(attention).__name__} has no scores that {names} could change; choose attention='plain'")
    attention.score_changes = [*attention.score_changes, *changes]
    return attention


def check_shapes(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> None:
    """Raises ValueError unless q, k and v have fitting shapes."""
    fits = q.ndim == k.ndim >= 2 and q.shape[:-3] == k.shape[:-3] and q.shape[-1] == k.shape[-1]
    fits = fits and k.shape[:-1] == v.shape[:-1]
    if fits and q.ndim > 2:
        fits = q.shape[-3] % k.shape[-3] == 0
    if not fits:
        raise ValueError(f"{called()}queries {q.shape}, keys {k.shape} and values {v.shape} do not fit together: wanted "
                         "(B, H, T, d), (B, G, S, d) and (B, G, S, e) with H a multiple of G")


def repeat_heads(k: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(..., G, S, n) -> (..., H, S, n), where H is the number of heads of q: H/G neighboring heads are the same.

    With H == G this returns k itself.
    """
    if k.shape[:-2] == q.shape[:-2]:
        return k
    return k.repeat(q.shape[-3] // k.shape[-3], -3)


def sum_over_groups(dk: np.ndarray, k: np.ndarray) -> np.ndarray:
    """(..., H, S, n) -> (..., G, S, n), the shape of k: what the gradient of k is if repeat_heads(k, q) has dk."""
    if dk.shape == k.shape:
        return dk
    return dk.reshape(*k.shape[:-2], -1, *k.shape[-2:]).sum(-3)


class AttentionSizes(NamedTuple):
    """What a kind of attention has to know of the block that it is made for."""
    num_heads: int
    num_kv_heads: int
    d_head: int
    dropout: float


# What `attention` may be in a causal model: (sizes, rng) -> component that takes q, k, v and a mask. None is what
# SelfAttention makes by itself: ScaledDotProductAttention, or GroupedAttention if there are fewer key heads
ATTENTIONS: dict[str, Callable[[AttentionSizes, Seed], Component]] = {"plain": lambda sizes, rng: None}
