"""Softmax with a sink: a learned score for each head that takes weight and has no value."""

from typing import Any

import numpy as np

from ..argument_checks import called, check_array, check_positive
from ..module import Module, Parameter
from ..types import Component
from .initial_weights import DTYPE


class SinkSoftmax(Module):
    """y_j = exp(x_j) / (exp(s_h) + sum_i exp(x_i)): a head h that finds nothing can give its weight to the sink s_h.

    It takes the place of `softmax` in an attention. The rows sum to less than 1, and the rest is the weight of the sink.

    Parameters: num_heads : int; the sinks begin at 0
    Shape: x (..., H, T, S) -> y (the same); `sinks` (H,)
    Backward: dx = y * (dy - sum_j dy_j y_j),   ds_h = - sum over rows of y_sink (sum_j dy_j y_j)
    Raises: ValueError if x does not have the heads of the sinks.
    Source: OpenAI 2025 (gpt-oss), section 2; a sink that is always 0: Miller 2023. Why heads need one: Xiao et al. 2024, section 3.1.
    """

    def __init__(self, num_heads: int) -> None:
        check_positive(num_heads=num_heads)
        self.sinks = Parameter(np.zeros(num_heads, DTYPE))

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_array(self, x)
        sinks = self.sinks.data[:, None, None]
        if x.ndim < 3 or x.shape[-3] != len(sinks):
            raise ValueError(f"{called()}the scores have shape {x.shape}, but there are sinks for {len(sinks)} heads: wanted "
                             f"(B, {len(sinks)}, T, S); build both with the same num_heads")
        top = np.maximum(x.real.max(-1, keepdims=True), sinks.real)
        y = np.exp(x - top)
        sink = np.exp(sinks - top)                                      # (..., H, T, 1)
        total = sink + y.sum(-1, keepdims=True)
        y, sink = y / total, sink / total
        self.remember(y, sink)
        return y

    def backward(self, dy: np.ndarray) -> np.ndarray:
        y, sink = self.recall()
        mean_dy = (dy * y).sum(-1, keepdims=True)                       # the sink has no value, so its dy is 0
        self.sinks.grad += -(sink * mean_dy).reshape(-1, *sink.shape[-3:-1]).sum((0, 2))
        return y * (dy - mean_dy)

    def extra_repr(self) -> str:
        return f"num_heads={self.sinks.data.size}"


def add_sinks(attention: Component, num_heads: int) -> Any:
    """Gives an attention a softmax with a sink for each head; returns the attention."""
    attention.softmax = SinkSoftmax(num_heads)
    return attention
