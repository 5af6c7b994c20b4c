"""Attention as in T5: each score gets a learned number that depends on the distance between key and query."""

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..argument_checks import check_array, check_choice, check_positive
from ..module import Module, Parameter
from .attention import ScaledDotProductAttention, check_shapes, group_query_heads
from .initial_weights import normal
from .masks import fit_mask, mask_scores


class RelativePositionBias(Module):
    """b_h(t, s) = W[bucket(s - t), h]: a number for each head and each distance from the query t to the key s.

    Short distances have a bucket each; the longer ones share buckets whose width grows with the distance, up to
    max_distance, from which on all share the last bucket. One bias serves all blocks of a stack.

    Parameters:
        num_heads : int
        num_buckets : int (32)
        max_distance : int (128)
        causal : bool (False); if False, half of the buckets are for keys after the query; if True, all are for the
            query itself and the keys before it
        rng : generator or seed of the initial weights, N(0, 0.02²), or None
    Shape: T, S (two integers) -> b (num_heads, T, S), where the T queries are the last of the S tokens; `weight`
        (num_buckets, num_heads)
    Backward: dW[i, h] = sum of dy_h over all pairs (t, s) in bucket i. Returns None: lengths have no gradient
    Raises: ValueError if there are more queries than tokens, or if the distances do not fit the buckets.
    Source: Raffel et al. 2020, section 2.1; the buckets: its published code.
    """

    def __init__(self, num_heads, num_buckets=32, max_distance=128, causal=False, rng=None):
        check_positive(num_heads=num_heads, num_buckets=num_buckets, max_distance=max_distance)
        check_choice("causal", causal, (True, False))
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.causal = causal
        self.count = num_buckets if causal else num_buckets // 2        # the buckets of one direction
        self.near = self.count // 2                         # each distance below `near` has a bucket of its own
        if not 1 <= self.near < max_distance:
            raise ValueError(f"num_buckets = {num_buckets} and max_distance = {max_distance}: wanted at least "
                             f"{2 if causal else 4} buckets, and a max_distance above {max(self.near, 1)}, the number "
                             "of distances with a bucket of their own; T5 has 32 and 128")
        self.weight = Parameter(normal(rng, (num_buckets, num_heads), 0.02))

    def forward(self, T, S):
        if not 1 <= T <= S:
            raise ValueError(f"{T} queries and {S} tokens: the queries are the last of the tokens, so wanted from 1 to "
                             f"{S} queries")
        buckets = self.buckets(np.arange(1 - S, T))         # of all distances that occur
        by_distance = self.weight.data.T[:, buckets]        # (H, S + T - 1)
        self.remember(buckets)
        return sliding_window_view(by_distance, S, axis=-1)[:, ::-1]        # (H, T, S): the last window comes first

    def backward(self, dy):
        buckets = self.recall()
        H, T, S = dy.shape
        by_distance = np.zeros((H, len(buckets)), dy.dtype)
        for t in range(T):                                  # each query adds to its own window
            by_distance[:, T - 1 - t:][:, :S] += dy[:, t]
        np.add.at(self.weight.grad, buckets, by_distance.T)

    def buckets(self, distances):
        """Returns the bucket of each distance, from the query to the key: negative for keys before the query."""
        length = np.maximum(-distances, 0) if self.causal else np.abs(distances)
        ratio = np.maximum(length, self.near).astype(np.float32) / self.near        # float32 as in the published code
        steps = np.log(ratio) / math.log(self.max_distance / self.near) * (self.count - self.near)
        far = np.minimum(self.near + steps.astype(int), self.count - 1)
        bucket = np.where(length < self.near, length, far)
        return bucket if self.causal else bucket + self.count * (distances > 0)


class UnscaledAttention(ScaledDotProductAttention):
    """y = P v,   P = softmax(q kᵀ + b): the scores are not divided by sqrt(d), and a bias is added to them.

    The scale 1 / sqrt(d) is left to the weights of q and k, which learn it from smaller initial values.

    Parameters:
        position_bias : RelativePositionBias or None (b = 0); attention layers may share one
        dropout : float (0.0), on the weights P
        rng : generator or seed of the dropout, or None
    Shape: q (B, H, T, d), k (B, G, S, d), v (B, G, S, e), mask -> y (B, H, T, e); B may be absent. With a bias, the T
        queries are the last of the S tokens. `weights` as in ScaledDotProductAttention.
    Backward: dv = Pᵀ dy,   dP = dy vᵀ,   dS = softmax backward of dP,   dq = dS k,   dk = dSᵀ q,
        db = sum of dS over the batch
    Raises: ValueError if the shapes of q, k and v do not fit together, or q does not have the heads of the bias.
    Source: Raffel et al. 2020, section 2.1; without the scale: its published code.
    """

    def __init__(self, position_bias=None, dropout=0.0, rng=None):
        super().__init__(dropout, rng)
        self.position_bias = position_bias

    def forward(self, q, k, v, mask=None):
        check_array(self, q, k, v)
        check_shapes(q, k, v)
        scores = (group_query_heads(q, k) @ k.mT).reshape(*q.shape[:-1], -1)                     # q kᵀ
        if self.position_bias is not None:
            scores += self.bias_for(scores.shape)
        if mask is not None:
            mask_scores(scores, fit_mask(mask, scores.shape))
        weights = self.softmax(scores)
        self.weights = weights.view()
        self.weights.flags.writeable = False    # read-only, because backward needs these values unchanged
        p = self.dropout(weights)
        self.remember(q, k, v, p)
        return (group_query_heads(p, v) @ v).reshape(*q.shape[:-1], -1)

    def backward(self, dy):
        q, k, v, p = self.recall()
        dy = group_query_heads(dy, v)
        dv = group_query_heads(p, v).mT @ dy
        dp = (dy @ v.mT).reshape(p.shape)
        dscores = self.softmax.backward(self.dropout.backward(dp))          # 0 where p is 0, so also at masked scores
        if self.position_bias is not None:
            self.position_bias.backward(dscores.reshape(-1, *dscores.shape[-3:]).sum(0))        # the same for the batch
        dscores = group_query_heads(dscores, k)
        dk = dscores.mT @ group_query_heads(q, k)
        dq = (dscores @ k).reshape(q.shape)
        return dq, dk, dv

    def bias_for(self, shape):
        """Returns the bias (H, T, S) for scores of this shape."""
        num_heads = self.position_bias.num_heads
        if len(shape) < 3 or shape[-3] != num_heads:
            raise ValueError(f"the scores have shape {shape}, but the bias is for {num_heads} heads: wanted "
                             f"(B, {num_heads}, T, S); build both with the same num_heads")
        return self.position_bias(*shape[-2:])
