"""Block-sparse attention: a layout says which blocks of keys a block of queries sees, and the others are not computed."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..argument_checks import called, check_array, check_positive
from ..module import Module
from .attention import check_shapes, repeat_heads, sum_over_groups
from .fast import exp_and_sum, sum_of_products
from .masks import fit_mask, mask_scores


class BlockSparseAttention(Module):
    """y = P v,   P = softmax(q kᵀ / sqrt(d)), where a query attends only to the blocks of keys that the layout names for its block.

    It equals plain attention with the layout, expanded to single tokens, as its mask, but computes the scores of these blocks only.
    The tokens 0 to block_size - 1 are block 0, and so on; the last block may be shorter. The layout says nothing about the order of
    tokens inside a block, so causal attention needs the mask too.

    Parameters:
        layout : boolean array (n, n), True where query block i sees key block j; or a function of two integer arrays i and j that
            returns it for any n, such as lambda i, j: (j == 0) | (abs(i - j) < 2)
        block_size : int, the number of tokens in a block
    Shape: q (B, H, T, d), k (B, G, S, d), v (B, G, S, e), mask=None -> y (B, H, T, e); B may be absent, or both B and H. The T
        queries are the last of the S tokens. `weights` is None, because they are not in one array.
    Backward: as ScaledDotProductAttention for each block of queries; the gradients of a key and of a value are the sums over all
        blocks of queries that see it
    Raises: ValueError if there are more queries than keys, or more blocks than the layout has; TypeError if it is not boolean.
    Source: Child et al. 2019, section 5; blocks of a window, first and random blocks: Zaheer et al. 2020, section 2.
    """

    def __init__(self, layout: np.ndarray | Callable, block_size: int) -> None:
        check_positive(block_size=block_size)
        self.layout = layout if callable(layout) else check_layout(layout)
        self.block_size = block_size
        self.weights = None

    def forward(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        check_array(self, q, k, v)
        check_shapes(q, k, v)
        if mask is not None:
            mask = fit_mask(mask, (*q.shape[:-1], k.shape[-2]))
        q = q / math.sqrt(q.shape[-1])
        y = np.zeros((*q.shape[:-1], v.shape[-1]), np.result_type(q, k, v))
        every_p = []
        for rows, keys in self.blocks(q.shape[-2], k.shape[-2]):
            scores = q[..., rows, :] @ repeat_heads(k[..., keys, :], q).mT
            visible = part_of_mask(mask, rows, keys)
            if visible is not None:
                mask_scores(scores, visible)
            p, total = exp_and_sum(scores)
            p /= total
            y[..., rows, :] = p @ repeat_heads(v[..., keys, :], q)
            every_p.append(p)
        self.remember(q, k, v, every_p)
        return y

    def backward(self, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q, k, v, every_p = self.recall()                                # q is already divided by sqrt(d)
        dq, dk, dv = (np.zeros(x.shape, np.result_type(dy, x)) for x in (q, k, v))
        for (rows, keys), p in zip(self.blocks(q.shape[-2], k.shape[-2]), every_p):
            k_seen, v_seen = k[..., keys, :], v[..., keys, :]
            dp = dy[..., rows, :] @ repeat_heads(v_seen, q).mT
            dv[..., keys, :] += sum_over_groups(p.mT @ dy[..., rows, :], v_seen)    # no key occurs twice in `keys`
            dscores = p * (dp - sum_of_products(dp, p))
            dq[..., rows, :] = dscores @ repeat_heads(k_seen, q)
            dk[..., keys, :] += sum_over_groups(dscores.mT @ q[..., rows, :], k_seen)
        return dq / math.sqrt(q.shape[-1]), dk, dv

    def blocks(self, T: int, S: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields (rows, keys) of each block of queries that sees any: a slice of the queries, and the indices of its keys."""
        ahead = S - T                                                   # query t is token ahead + t
        if ahead < 0:
            raise ValueError(f"{called()}T = {T} queries but S = {S} keys: the queries are the last of the keys' tokens; pass "
                             "at least T keys")
        n = self.block_size
        count = -(-S // n)
        seen = self.seen_blocks(count)
        for i in range(ahead // n, count):
            keys = np.flatnonzero(np.repeat(seen[i], n)[:S])
            if keys.size:
                yield slice(max(i * n - ahead, 0), min((i + 1) * n, S) - ahead), keys

    def seen_blocks(self, count: int) -> np.ndarray:
        """Returns the layout (count, count) of this number of blocks."""
        if callable(self.layout):
            i, j = np.ogrid[:count, :count]
            return np.broadcast_to(check_layout(self.layout(i, j)), (count, count))
        if min(self.layout.shape) < count:
            raise ValueError(f"{called()}{count} blocks of {self.block_size} tokens, but the layout is for {self.layout.shape}; "
                             "pass a larger layout, or a function (i, j)")
        return self.layout[:count, :count]

    def extra_repr(self) -> str:
        return f"block_size={self.block_size}"


def check_layout(layout: Any) -> np.ndarray:
    """Returns the layout as an array; raises an error unless it is boolean and 2-D."""
    layout = np.asarray(layout)
    if layout.dtype != bool:
        raise TypeError(f"{called()}a layout must be boolean, True = computed, got dtype {layout.dtype}; write layout == 1")
    if layout.ndim != 2:
        raise ValueError(f"{called()}a layout is 2-D (query blocks, key blocks), got shape {layout.shape}; pass one for all heads")
    return layout


def part_of_mask(mask: np.ndarray | None, rows: slice, keys: np.ndarray) -> np.ndarray | None:
    """Returns the mask of these queries and keys, or None."""
    if mask is None:
        return None
    return mask[..., keys] if mask.shape[-2] == 1 else mask[..., rows, :][..., keys]
