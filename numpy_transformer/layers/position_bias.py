"""Scores that get a bias which depends on the positions of query and key."""

import numpy as np

from ..module import Module
from ..types import Component
from .token_positions import current_positions


class PositionBias(Module):
    """y = scores + b, where b comes from a component such as ALiBi.

    Parameters:
        position_bias : ALiBi, RelativePositionBias, or any component with `num_heads` that takes T and S, and positions where
            they are not consecutive, and returns b; attention layers may share one
    Shape: scores (B, H, T, S) -> y (the same); B may be absent. The T queries are the last of the S tokens.
    Backward: dscores = dy,   db = dy, summed over the batch if all texts have the same b
    Raises: ValueError if the scores do not have the heads of the bias.
    Source: Raffel et al. 2020, section 2.1; Press et al. 2022, section 3.
    """

    def __init__(self, position_bias: Component) -> None:
        self.position_bias = position_bias

    def forward(self, scores: np.ndarray) -> np.ndarray:
        self.check_heads(scores.shape)
        positions = current_positions()
        T, S = scores.shape[-2:]
        b = self.position_bias(T, S) if positions is None else self.position_bias(T, S, positions)
        self.remember(b.ndim)
        return scores + b

    def backward(self, dy: np.ndarray) -> np.ndarray:
        ndim = self.recall()                    # 3 if b is the same for the whole batch
        self.position_bias.backward(dy if ndim > 3 else dy.reshape(-1, *dy.shape[-3:]).sum(0))
        return dy

    def check_heads(self, shape: tuple[int, ...]) -> None:
        """Raises ValueError unless scores of this shape have the heads of the bias."""
        num_heads = self.position_bias.num_heads
        if len(shape) < 3 or shape[-3] != num_heads:
            raise ValueError(f"the scores have shape {shape}, but the bias is for {num_heads} heads: wanted "
                             f"(B, {num_heads}, T, S); build both with the same num_heads")
