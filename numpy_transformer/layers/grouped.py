"""Grouped queries without repeated keys: the quick form of attention with fewer key heads than query heads."""

import numpy as np

from .attention import ScaledDotProductAttention


class GroupedAttention(ScaledDotProductAttention):
    """Attention with fewer heads in k and v than in q, equal to ScaledDotProductAttention, which repeats k and v.

    The query heads that share a key head are stacked into one matrix of H/G T rows. There is one matrix product for each
    key head, k and v are read once, and the products of backward sum over each group by themselves.

    Parameters, Shape, Backward, Raises as ScaledDotProductAttention
    Source: Ainslie et al. 2023, section 2.2.
    """

    def score(self, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        q = q / self.divisor(q.shape[-1])
        self.remember(q, k)
        return (stack_groups(q, k) @ k.mT).reshape(*q.shape[:-1], -1)

    def score_backward(self, dscores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q, k = self.recall()
        dscores = stack_groups(dscores, k)
        dq = (dscores @ k).reshape(q.shape)
        dk = dscores.mT @ stack_groups(q, k)
        return dq / self.divisor(q.shape[-1]), dk

    def average(self, p: np.ndarray, v: np.ndarray) -> np.ndarray:
        self.remember(p, v)
        return (stack_groups(p, v) @ v).reshape(*p.shape[:-1], -1)

    def average_backward(self, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, v = self.recall()
        dy = stack_groups(dy, v)
        dp = (dy @ v.mT).reshape(p.shape)
        dv = stack_groups(p, v).mT @ dy
        return dp, dv


def stack_groups(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """(..., H, T, n) -> (..., G, H/G T, n): puts the heads that share one of the G heads of k into one matrix."""
    return x.reshape(*k.shape[:-2], -1, x.shape[-1])
