"""Scores that stay within bounds: a cap that is soft, and a factor other than 1 / sqrt(d)."""

import numpy as np

from ..argument_checks import called, check_array, check_numbers
from ..module import Module
from ..types import Seed
from .grouped import GroupedAttention


class SoftCap(Module):
    """y = c tanh(x / c): nearly x where |x| is much smaller than the cap c, and never beyond ±c.

    As a score change of attention it caps the scores; after an output layer, in a Sequential, it caps the logits.

    Parameters: cap : float, the c
    Shape: x (any) -> y (the same)
    Backward: dx = dy (1 - (y / c)²), which is smaller the nearer y is to the cap
    Raises: ValueError if the cap is not positive.
    Source: Riviere et al. 2024 (Gemma 2), section 2; Bello et al. 2016.
    """

    def __init__(self, cap: float) -> None:
        check_numbers(cap=cap)
        if not cap > 0:
            raise ValueError(f"{called()}cap = {cap} must be above 0: no score will exceed it; Gemma 2 has 50 for scores and "
                             "30 for logits")
        self.cap = cap

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_array(self, x)
        y = np.tanh(x / self.cap)
        self.remember(y)
        return self.cap * y

    def backward(self, dy: np.ndarray) -> np.ndarray:
        y = self.recall()
        return dy * (1 - y * y)

    def extra_repr(self) -> str:
        return f"cap={self.cap:g}"


class RescaledAttention(GroupedAttention):
    """y = P v,   P = softmax(scale q kᵀ): a factor of its own in place of 1 / sqrt(d).

    Parameters: scale : float; dropout=0.0, rng=None : as in ScaledDotProductAttention
    Attributes, Shape, Raises: as ScaledDotProductAttention
    Backward: dv = Pᵀ dy,   dP = dy vᵀ,   dA = softmax backward of dP,   dq = scale dA k,   dk = scale dAᵀ q
    Source: the published code of Gemma 2 (Riviere et al. 2024), whose 27B model has scale = 1 / sqrt(d_model / H); Yang et al.
        2022 (muP), definition 4.1, which has 1 / d.
    """

    def __init__(self, scale: float, dropout: float = 0.0, rng: Seed = None) -> None:
        check_numbers(scale=scale)
        if not scale > 0:
            raise ValueError(f"{called()}scale = {scale} must be above 0: the scores are multiplied by it; 1 / sqrt(d) is usual")
        super().__init__(dropout, rng)
        self.scale = scale

    def divisor(self, d: int) -> float:
        return 1 / self.scale

    def extra_repr(self) -> str:
        return f"scale={self.scale:g}"
