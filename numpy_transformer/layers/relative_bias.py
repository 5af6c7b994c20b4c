"""Attention as in T5: unscaled, and each score gets a learned number that depends on the distance between key and query."""

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..argument_checks import called, check_choice, check_positive
from ..module import Module, Parameter
from ..types import Component, Seed
from .attention import ScaledDotProductAttention
from .grouped import GroupedAttention
from .initial_weights import normal
from .positions import POSITIONS, PositionSizes


class UnscaledAttention(ScaledDotProductAttention):
    """y = P v,   P = softmax(q kᵀ): the scores are not divided by sqrt(d).

    The scale 1 / sqrt(d) is left to the weights of q and k, which learn it from smaller initial values.

    Parameters, Attributes, Shape, Raises: as ScaledDotProductAttention
    Backward: dv = Pᵀ dy,   dP = dy vᵀ,   dA = softmax backward of dP,   dq = dA k,   dk = dAᵀ q
    Source: Raffel et al. 2020, section 2.1; without the scale: its published code.
    """

    def divisor(self, d: int) -> float:
        return 1.0

    @classmethod
    def made_from(cls, attention: Component) -> "UnscaledAttention":
        """Returns an unscaled attention with the softmax, the dropout and the score changes of a scaled one.

        Raises: ValueError if the attention has no scores, or computes them in a way of its own.
        """
        if getattr(type(attention), "score", None) not in (ScaledDotProductAttention.score, GroupedAttention.score):
            raise ValueError(f"{type(attention).__name__} has no plain scores that could be left unscaled; choose "
                             "attention='plain', or positions other than relative ones")
        unscaled = cls()
        unscaled.softmax = attention.softmax
        unscaled.dropout = attention.dropout
        unscaled.score_changes = attention.score_changes
        return unscaled


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
        (num_buckets, num_heads). `positions` (S,) or (B, S) give the position of each token where they are not
        consecutive; for (B, S) b is (B, num_heads, T, S).
    Backward: dW[i, h] = sum of dy_h over all pairs (t, s) in bucket i. Returns None: lengths have no gradient
    Raises: ValueError if there are more queries than tokens, or if the distances do not fit the buckets.
    Source: Raffel et al. 2020, section 2.1; the buckets: its published code.
    """

    place = "scores"
    scaled = False                              # the weights of q and k learn the scale of the scores

    def __init__(self, num_heads: int, num_buckets: int = 32, max_distance: int = 128, causal: bool = False,
                 rng: Seed = None) -> None:
        check_positive(num_heads=num_heads, num_buckets=num_buckets, max_distance=max_distance)
        check_choice("causal", causal, (True, False))
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.causal = causal
        self.count = num_buckets if causal else num_buckets // 2        # the buckets of one direction
        self.near = self.count // 2                         # each distance below `near` has a bucket of its own
        if not 1 <= self.near < max_distance:
            raise ValueError(f"{called()}num_buckets = {num_buckets} and max_distance = {max_distance}: wanted at least "
                             f"{2 if causal else 4} buckets, and a max_distance above {max(self.near, 1)}, the number "
                             "of distances with a bucket of their own; T5 has 32 and 128")
        self.weight = Parameter(normal(rng, (num_buckets, num_heads), 0.02))

    @classmethod
    def of_sizes(cls, sizes: PositionSizes, rng: Seed) -> "RelativePositionBias":
        """Returns the positions of a model with these sizes."""
        return cls(sizes.num_heads, causal=sizes.causal, rng=rng)

    def forward(self, T: int, S: int, positions: np.ndarray | None = None) -> np.ndarray:
        if not 1 <= T <= S:
            raise ValueError(f"{called()}{T} queries and {S} tokens: the queries are the last of the tokens, so wanted "
                             f"from 1 to {S} queries")
        if positions is not None:
            buckets = self.buckets(positions[..., None, :] - positions[..., -T:, None])
            self.remember(buckets)
            return np.moveaxis(self.weight.data[buckets], -1, -3)
        buckets = self.buckets(np.arange(1 - S, T))         # of all distances that occur
        by_distance = self.weight.data.T[:, buckets]        # (H, S + T - 1)
        self.remember(buckets)
        return sliding_window_view(by_distance, S, axis=-1)[:, ::-1]        # (H, T, S): the last window comes first

    def backward(self, dy: np.ndarray) -> None:
        buckets = self.recall()
        if buckets.ndim > 1:                                # each pair of tokens has its own
            np.add.at(self.weight.grad, buckets, np.moveaxis(dy, -3, -1))
            return
        H, T, S = dy.shape
        by_distance = np.zeros((H, len(buckets)), dy.dtype)
        for t in range(T):                                  # each query adds to its own window
            by_distance[:, T - 1 - t:][:, :S] += dy[:, t]
        np.add.at(self.weight.grad, buckets, by_distance.T)

    def buckets(self, distances: np.ndarray) -> np.ndarray:
        """Returns the bucket of each distance, from the query to the key: negative for keys before the query."""
        length = np.maximum(-distances, 0) if self.causal else np.abs(distances)
        ratio = np.maximum(length, self.near).astype(np.float32) / self.near        # float32 as in the published code
        steps = np.log(ratio) / math.log(self.max_distance / self.near) * (self.count - self.near)
        far = np.minimum(self.near + steps.astype(int), self.count - 1)
        bucket = np.where(length < self.near, length, far)
        return bucket if self.causal else bucket + self.count * (distances > 0)


POSITIONS["relative"] = RelativePositionBias
