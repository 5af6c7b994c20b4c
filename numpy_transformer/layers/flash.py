"""Attention in blocks of keys: the same result as plain attention, with memory that grows with T instead of T S."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..argument_checks import called, check_array, check_positive
from ..module import Module
from .attention import ATTENTIONS, check_shapes
from .fast import sum_of_products
from .masks import fit_mask, mask_scores


class FlashAttention(Module):
    """y = P v,   P = softmax(s),   s = q kᵀ / sqrt(d), as in ScaledDotProductAttention, but never materializes P.

    Forward visits the keys in blocks. For each query it keeps m, the largest score so far, and adds exp(s - m) v to u
    and exp(s - m) to a total. When a block raises m to m', what was added before is multiplied by exp(m - m'). In the
    end y = u / total.

    Parameters:
        block_size : int (64), the number of keys in a block; the result does not depend on it
        causal : bool (False); if True, query t sees the keys 0 to S - T + t, and blocks that no query sees are skipped
        dropout : float (0.0); must be 0, and `weights` is None; use ScaledDotProductAttention if you need either
    Shape: as ScaledDotProductAttention
    Backward: as ScaledDotProductAttention, block by block; P = exp(s - m) / total is computed again, and
        sum_j dP_j P_j = sum_e dy_e y_e
    Raises: as ScaledDotProductAttention; ValueError if dropout is not 0, or if T > S in causal attention.
    Source: Dao et al. 2022, algorithms 1, 2 and 4; the running maximum: Milakov and Gimelshein 2018.
    """

    def __init__(self, block_size: int = 64, causal: bool = False, dropout: float = 0.0) -> None:
        check_positive(block_size=block_size)
        if dropout:
            raise ValueError(f"{called()}dropout = {dropout}: FlashAttention has no weights to drop; use 0 or plain "
                             "attention")
        self.block_size = block_size
        self.causal = causal
        self.weights = None

    def forward(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        heads = np.shape(q)[:-1]
        q, k, v, mask = self.group(q, k, v, mask)
        v1 = np.concatenate([v, np.ones_like(v[..., :1])], -1)          # the column of ones sums up the total
        u = np.zeros((*q.shape[:-1], v1.shape[-1]), np.result_type(q, k, v))
        top = np.full_like(u.real[..., :1], -np.inf)                    # the largest score of each query so far
        for rows, keys, s in self.blocks(q, k, mask):
            higher = np.maximum(top[rows], s.real.max(-1, keepdims=True))
            m = np.where(np.isneginf(higher), 0, higher)                # all masked so far: exp(-inf - 0) = 0, not NaN
            u[rows] *= np.exp(top[rows] - m)
            s -= m
            u[rows] += np.exp(s, out=s) @ v1[keys]
            top[rows] = higher
        total = u[..., -1:].copy()
        sees_nothing = total == 0
        top[sees_nothing] = 0
        total[sees_nothing] = 1                                         # so that y is 0, not 0/0
        y = u[..., :-1] / total
        self.remember(q, k, v, mask, y, top, total)
        return y.reshape(*heads, -1)

    def backward(self, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q, k, v, mask, y, top, total = self.recall()                    # q is already divided by sqrt(d)
        du = np.divide(dy.reshape(y.shape), total, order="C")
        dots = sum_of_products(du, y)
        dq = np.zeros(q.shape, y.dtype)
        dk = np.zeros((*q.shape[:-2], *k.shape[-2:]), y.dtype)          # of each query head, summed at the end
        dv = np.zeros((*q.shape[:-2], *v.shape[-2:]), y.dtype)
        for rows, keys, s in self.blocks(q, k, mask):
            s -= top[rows]
            p = np.exp(s, out=s)                                        # P total
            dv[keys] += p.mT @ du[rows]
            ds = p * (du[rows] @ v[keys].mT - dots[rows])
            dk[keys] += ds.mT @ q[rows]
            dq[rows] += ds @ k[keys]
        dq /= math.sqrt(q.shape[-1])
        return dq.reshape(*dy.shape[:-1], -1), dk.sum(-3), dv.sum(-3)

    def group(self, q: np.ndarray, k: np.ndarray, v: np.ndarray,
              mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """Returns q / sqrt(d) and mask as (..., G, H/G, T, n), k and v as (..., G, 1, S, n), each head contiguous."""
        check_array(self, q, k, v)
        check_shapes(q, k, v)
        *heads, T, d = q.shape
        S = k.shape[-2]
        if self.causal and T > S:
            raise ValueError(f"{called()}T = {T} queries but S = {S} keys in causal attention, where query t sees keys 0 to "
                             "S - T + t: the first would see none; pass at least T keys, or a mask and causal=False")
        q = np.divide(q.reshape(*k.shape[:-2], -1, T, d), math.sqrt(d), order="C")
        if mask is not None:
            mask = fit_mask(mask, (*heads, T, S))
            if mask.ndim > 2:
                heads_in_group = min(q.shape[-3], mask.shape[-3])       # 1 if the mask has one head for all
                mask = mask.reshape(*mask.shape[:-3], -1, heads_in_group, *mask.shape[-2:])
        return q, np.ascontiguousarray(k[..., None, :, :]), np.ascontiguousarray(v[..., None, :, :]), mask

    def blocks(self, q: np.ndarray, k: np.ndarray, mask: np.ndarray | None) -> Iterator[tuple[Any, Any, np.ndarray]]:
        """Yields (rows, keys, scores) of every block that at least one query may see; masked scores are -inf."""
        T, S = q.shape[-2], k.shape[-2]
        n = self.block_size
        ahead = S - T if self.causal else S                             # query t sees the keys 0 to ahead + t
        step = max(64, 2**16 // (n * math.prod(q.shape[:-2])))          # 2^16 scores and their gradients fit in L2
        for start in range(0, T, step):
            end = min(start + step, T)
            for j in range(0, min(ahead + end, S), n):
                stop = min(j + n, S)
                first = max(start, j - ahead)                           # the first query that sees the first key
                rows, keys = np.s_[..., first:end, :], np.s_[..., j:stop, :]
                s = q[rows] @ k[keys].mT
                if mask is not None:
                    one_row = mask.shape[-2] != T                       # the same mask for all queries
                    mask_scores(s, mask[..., j:stop] if one_row else mask[..., first:end, j:stop])
                crossed = min(stop - ahead - 1, end) - first            # number of rows that the diagonal crosses
                if crossed > 0:
                    mask_scores(s[..., :crossed, :], np.tri(crossed, stop - j, ahead + first - j, dtype=bool))
                yield rows, keys, s


ATTENTIONS["flash"] = lambda sizes, rng: FlashAttention(causal=True, dropout=sizes.dropout)
