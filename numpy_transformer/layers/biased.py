"""Attention whose scores get a bias that depends on the positions of query and key."""

import numpy as np

from ..types import Component, Seed
from .attention import ScaledDotProductAttention
from .grouped import GroupedAttention
from .token_positions import current_positions


class BiasedAttention(ScaledDotProductAttention):
    """y = P v,   P = softmax(q kᵀ / sqrt(d) + b), where b comes from a component such as ALiBi.

    Parameters:
        position_bias : ALiBi, RelativePositionBias, or any component that takes T and S, and positions where they are not
            consecutive, and returns b; attention layers may share one. None: b = 0
        dropout : float (0.0), on the weights P
        rng : generator or seed of the dropout, or None
    Shape: q (B, H, T, d), k (B, G, S, d), v (B, G, S, e), mask -> y (B, H, T, e); B may be absent. With a bias, the T
        queries are the last of the S tokens. `weights` as in ScaledDotProductAttention.
    Backward: as ScaledDotProductAttention;   db = dS, summed over the batch if all texts have the same b
    Raises: ValueError if the shapes of q, k and v do not fit together, or q does not have the heads of the bias.
    Source: Raffel et al. 2020, section 2.1; Press et al. 2022, section 3.
    """

    def __init__(self, position_bias: Component, dropout: float = 0.0, rng: Seed = None) -> None:
        super().__init__(dropout, rng)
        self.position_bias = position_bias

    @classmethod
    def made_from(cls, attention: Component, position_bias: Component) -> "BiasedAttention":
        """Returns an attention that shares softmax and dropout with a plain one, and adds a bias to the scores.

        A bias that the attention has already is replaced.

        Raises: ValueError if the attention has no scores to add to, or computes them in a way of its own.
        """
        plain = ScaledDotProductAttention.score, GroupedAttention.score, BiasedAttention.score
        if getattr(type(attention), "score", None) not in plain:
            raise ValueError(f"{type(attention).__name__} has no plain scores that {type(position_bias).__name__} could be "
                             "added to; choose attention='plain', or other positions")
        biased = cls(position_bias)
        biased.softmax = attention.softmax
        biased.dropout = attention.dropout
        return biased

    def score(self, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        scores = super().score(q, k)
        if self.position_bias is not None:
            b = self.bias_for(scores.shape)
            self.remember(b.ndim)
            scores += b
        return scores

    def score_backward(self, dscores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.position_bias is not None:
            ndim = self.recall()                # 3 if b is the same for the whole batch
            db = dscores if ndim > 3 else dscores.reshape(-1, *dscores.shape[-3:]).sum(0)
            self.position_bias.backward(db)
        return super().score_backward(dscores)

    def bias_for(self, shape: tuple[int, ...]) -> np.ndarray:
        """Returns the bias (H, T, S) or (B, H, T, S) for scores of this shape."""
        num_heads = self.position_bias.num_heads
        if len(shape) < 3 or shape[-3] != num_heads:
            raise ValueError(f"the scores have shape {shape}, but the bias is for {num_heads} heads: wanted "
                             f"(B, {num_heads}, T, S); build both with the same num_heads")
        positions = current_positions()
        return self.position_bias(*shape[-2:]) if positions is None else self.position_bias(*shape[-2:], positions)
