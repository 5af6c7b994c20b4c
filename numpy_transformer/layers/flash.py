"""Attention block by block: the same numbers, in memory that grows with T and not with T S."""

import math

import numpy as np

from ..module import Module
from ..argument_checks import check_array, check_positive
from .fast import row_dots
from .attention import check_shapes
from .masks import fit_mask, mask_scores


class FlashAttention(Module):
    """y = P v,   P = softmax(s),   s = q kᵀ / sqrt(d), as ScaledDotProductAttention, P never there as a whole.

    Each block of keys adds exp(s - m) v to u and exp(s - m) to a total, m the largest score of the row so far. A block
    that raises m to m' multiplies what was added before by exp(m - m'). In the end y = u / total.

    Parameters:
        block_size : int, so many keys at a time; the result does not depend on it
        causal : bool; query t then sees keys 0 to S - T + t, and blocks that no query sees cost nothing
        dropout : 0; for dropout, or a look at the `weights`, None here, take ScaledDotProductAttention
    Backward: as there, block by block with P = exp(s - m) / total computed again; sum_j dP_j P_j is sum_e dy_e y_e

    Shape and Raises as there, and ValueError if dropout is not 0, or T > S in causal attention.
    Source: Dao et al. 2022, algorithms 1, 2 and 4; the running maximum: Milakov and Gimelshein 2018.
    """

    def __init__(self, block_size=64, causal=False, dropout=0.0):
        check_positive(block_size=block_size)
        if dropout:
            raise ValueError(f"dropout = {dropout}: FlashAttention has no weights to drop; use 0 or plain attention")
        self.block_size, self.causal, self.weights = block_size, causal, None

    def forward(self, q, k, v, mask=None):
        heads = np.shape(q)[:-1]
        q, k, v, mask = self.by_group(q, k, v, mask)
        v1 = np.concatenate([v, np.ones_like(v[..., :1])], -1)          # the ones add up to the total
        u = np.zeros((*q.shape[:-1], v1.shape[-1]), np.result_type(q, k, v))
        top = np.full_like(u.real[..., :1], -np.inf)
        for rows, keys, s in self.blocks(q, k, mask):
            higher = np.maximum(top[rows], s.real.max(-1, keepdims=True))
            m = np.where(np.isneginf(higher), 0, higher)                # all hidden so far: exp(-inf - 0) = 0, not NaN
            u[rows] *= np.exp(top[rows] - m)
            s -= m
            u[rows] += np.exp(s, out=s) @ v1[keys]
            top[rows] = higher
        total = u[..., -1:].copy()
        top[total == 0], total[total == 0] = 0, 1                       # nothing to attend to: zeros, not 0/0
        y = u[..., :-1] / total
        self.remember(q, k, v, mask, y, top, total)
        return y.reshape(*heads, -1)

    def backward(self, dy):
        q, k, v, mask, y, top, total = self.recall()                    # q is q / sqrt(d)
        du = np.divide(dy.reshape(y.shape), total, order="C")
        dots = row_dots(du, y)
        dq, dk, dv = (np.zeros((*q.shape[:-2], *x.shape[-2:]), y.dtype) for x in (q, k, v))
        for rows, keys, s in self.blocks(q, k, mask):
            s -= top[rows]
            p = np.exp(s, out=s)                                        # P total
            dv[keys] += p.mT @ du[rows]
            ds = p * (du[rows] @ v[keys].mT - dots[rows])
            dk[keys] += ds.mT @ q[rows]
            dq[rows] += ds @ k[keys]
        dq /= math.sqrt(q.shape[-1])
        return dq.reshape(*dy.shape[:-1], -1), dk.sum(-3), dv.sum(-3)   # a key head serves its group of query heads

    def by_group(self, q, k, v, mask):
        """q / sqrt(d) and mask as (..., G, H/G, T, n), k and v as (..., G, 1, S, n), each head lying together."""
        check_array(self, q, k, v)
        check_shapes(q, k, v)
        (*heads, T, d), S = q.shape, k.shape[-2]
        if self.causal and T > S:
            raise ValueError(f"T = {T} queries but S = {S} keys in causal attention, where query t sees keys 0 to "
                             "S - T + t: the first would see none; pass at least T keys, or a mask and causal=False")
        q = np.divide(q.reshape(*k.shape[:-2], -1, T, d), math.sqrt(d), order="C")
        if mask is not None and (mask := fit_mask(mask, (*heads, T, S))).ndim > 2:
            mask = mask.reshape(*mask.shape[:-3], -1, min(q.shape[-3], mask.shape[-3]), *mask.shape[-2:])
        return q, np.ascontiguousarray(k[..., None, :, :]), np.ascontiguousarray(v[..., None, :, :]), mask

    def blocks(self, q, k, mask):
        """Yield (rows, keys, scores) of every block that a query may see, hidden scores -inf."""
        T, S, n = q.shape[-2], k.shape[-2], self.block_size
        ahead = S - T if self.causal else S                             # query t sees keys 0 to ahead + t
        step = max(64, 2**16 // (n * math.prod(q.shape[:-2])))          # 2^16 scores and their gradients fit in L2
        for i, end in ((i, min(i + step, T)) for i in range(0, T, step)):
            for j in range(0, min(ahead + end, S), n):
                start, stop = max(i, j - ahead), min(j + n, S)
                rows, keys = np.s_[..., start:end, :], np.s_[..., j:stop, :]
                s = q[rows] @ k[keys].mT
                if mask is not None:
                    mask_scores(s, mask[..., start:end, j:stop] if mask.shape[-2] == T else mask[..., j:stop])
                if (crossed := min(stop - ahead - 1, end) - start) > 0:     # so many rows that the diagonal crosses
                    mask_scores(s[..., :crossed, :], np.tri(crossed, stop - j, ahead + start - j, dtype=bool))
                yield rows, keys, s
