"""Attention whose heads pass through gates, which each token computes for itself."""

from typing import Any

import numpy as np

from ..argument_checks import called
from ..module import Module
from ..types import Component, Seed
from .activations import SmoothActivation
from .identity import Identity
from .linear import Linear


class Sigmoid(SmoothActivation):
    """y = σ(x) = 1 / (1 + exp(-x)), from 0 to 1.

    Shape: x (any) -> y (the same)
    Backward: dx = dy y (1 - y)
    Source: Hochreiter and Schmidhuber 1997, whose gates have it.
    """

    def value_and_slope(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        y = (1 + np.tanh(x / 2)) / 2            # the same function, in a form that cannot overflow
        if not self.remembering:
            return (y,)
        slope = y * (1 - y)
        return y, slope


class GatedSelfAttention(Module):
    """y = (h * g) W_O,   h = the heads of attention to x, side by side,   g = σ(x W_G): a gate for each feature of each head.

    The gate of a token depends on the token alone, so it can close a head that found nothing. `gate_heads` makes one of a
    SelfAttention.

    Parameters: attention : SelfAttention without an output layer (its `output` is an Identity), or another component that takes x and
        a mask and returns h; gate : Linear (d_model, width of h); output : Linear (width of h, d_model)
    Shape: x (B, T, d_model), mask=None -> y (B, T, d_model); B may be absent. `weights` (B, num_heads, T, T) are those of the latest
        forward.
    Backward: with dhg = output backward of dy (the product rule):
        dx = attention backward of (dhg * g), plus gate backward of σ backward of (dhg * h)
    Raises: ValueError if the gates have another shape than the heads.
    Source: Qiu et al. 2025, section 2.2, the gate after attention, for each feature ("elementwise").
    """

    def __init__(self, attention: Component, gate: Component, output: Component) -> None:
        self.attention = attention
        self.gate = gate
        self.activation = Sigmoid()
        self.output = output

    @property
    def weights(self) -> np.ndarray | None:
        """The attention weights (B, H, T, T) of the latest forward."""
        return self.attention.weights

    def forward(self, x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        h = self.attention(x, mask)
        g = self.activation(self.gate(x))
        if g.shape != h.shape:
            raise ValueError(f"{called()}the gates {g.shape} do not fit the heads {h.shape}; build the gate with d_out = "
                             f"{h.shape[-1]}")
        self.remember(h, g)
        return self.output(h * g)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        h, g = self.recall()
        dhg = self.output.backward(dy)
        dx = self.gate.backward(self.activation.backward(dhg * h))
        return dx + self.attention.backward(dhg * g)


def gate_heads(attention: Component, rng: Seed = None) -> Any:
    """Returns a GatedSelfAttention of a SelfAttention, which gives its output layer to it. The gate has no bias."""
    output = attention.output
    attention.output = Identity()
    gate = Linear(attention.query.d_in, output.d_in, False, rng)
    return GatedSelfAttention(attention, gate.astype(output.weight.data.dtype), output)
