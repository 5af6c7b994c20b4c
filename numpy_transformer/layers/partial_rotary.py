"""Rotary positions on a part of each head, and rotations that also scale."""

import numpy as np

from ..argument_checks import called, check_last_dim, check_numbers, check_positive
from ..module import Module
from ..types import Component


class PartialRotary(Module):
    """Rotates the first features of each head as `rotary` does, and leaves the others as they are.

    Parameters: rotary : RotaryEmbedding of the width that is rotated; d_head : int, the width of a head
    Shape: x (..., T, d_head) -> y (the same); offset and positions as in RotaryEmbedding
    Backward: dx = rotary backward of the first features of dy, and the others of dy
    Raises: ValueError if d_head is smaller than the width that is rotated, or not the last dimension of x.
    Source: Black et al. 2022 (GPT-NeoX-20B), section 2.1, where a quarter is rotated.
    """

    place = "heads"

    def __init__(self, rotary: Component, d_head: int) -> None:
        check_positive(d_head=d_head)
        if rotary.d_head > d_head:
            raise ValueError(f"{called()}{rotary.d_head} features of each head are to be rotated, but a head has d_head = "
                             f"{d_head}; build rotary with at most {d_head}")
        self.rotary = rotary
        self.d_head = d_head

    def forward(self, x: np.ndarray, offset: int = 0, positions: np.ndarray | None = None) -> np.ndarray:
        check_last_dim(self, x, "d_head", self.d_head)
        n = self.rotary.d_head
        return np.concatenate([self.rotary(x[..., :n], offset, positions), x[..., n:]], -1)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        n = self.rotary.d_head
        return np.concatenate([self.rotary.backward(dy[..., :n]), dy[..., n:]], -1)

    def extra_repr(self) -> str:
        return f"d_head={self.d_head}"


class ScaledRotary(Module):
    """y = factor times x rotated by `rotary`: with rotated queries and keys, all scores are multiplied by factor².

    Parameters: rotary : RotaryEmbedding; factor : float
    Shape: x (..., T, d_head) -> y (the same); offset and positions as in RotaryEmbedding
    Backward: dx = factor times rotary backward of dy
    Source: Peng et al. 2023 (YaRN), section 3.4, where factor = 0.1 ln(s) + 1 for texts s times as long as in training.
    """

    place = "heads"

    def __init__(self, rotary: Component, factor: float) -> None:
        check_numbers(factor=factor)
        self.rotary = rotary
        self.factor = factor

    @property
    def d_head(self) -> int:
        """The width that is rotated."""
        return self.rotary.d_head

    def forward(self, x: np.ndarray, offset: int = 0, positions: np.ndarray | None = None) -> np.ndarray:
        return self.factor * self.rotary(x, offset, positions)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        return self.rotary.backward(self.factor * dy)

    def extra_repr(self) -> str:
        return f"factor={self.factor:g}"
