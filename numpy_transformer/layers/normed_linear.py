"""Norms after a linear map: of queries and keys, head by head or as a whole, and of what a sublayer adds."""

from typing import Any

import numpy as np

from ..argument_checks import check_array
from ..module import Module, Parameter
from ..types import Component


class NormedLinear(Module):
    """y = norm(x W + b): a Linear whose output is normalized.

    It replaces a Linear of an attention or feed-forward layer, so these know nothing of it. As `query` and `key` it keeps the
    scores small (QK-norm). As `output` and `down` it normalizes what a sublayer adds to the residual stream.

    Parameters: linear : Linear; norm : RMSNorm, LayerNorm, PerHead, or another component that takes x
    Shape: x (..., d_in) -> y (..., d_out)
    Backward: dx = linear backward of norm backward of dy
    Source: QK-norm: Henry et al. 2020; Dehghani et al. 2023, section 2. Norms after a sublayer: Riviere et al. 2024 (Gemma 2),
        section 2; Team OLMo 2025 (OLMo 2), section 2.1, equations 1 and 2.
    """

    def __init__(self, linear: Component, norm: Component) -> None:
        self.linear = linear
        self.norm = norm

    @property
    def d_in(self) -> int:
        """The width of the input."""
        return self.linear.d_in

    @property
    def d_out(self) -> int:
        """The width of the output."""
        return self.linear.d_out

    @property
    def weight(self) -> Parameter:
        """The W of the Linear."""
        return self.linear.weight

    @weight.setter
    def weight(self, value: Parameter) -> None:
        self.linear.weight = value

    @property
    def bias(self) -> Parameter | None:
        """The b of the Linear."""
        return self.linear.bias

    @bias.setter
    def bias(self, value: Parameter | None) -> None:
        self.linear.bias = value

    def forward(self, x: np.ndarray) -> np.ndarray:
        return self.norm(self.linear(x))

    def backward(self, dy: np.ndarray) -> np.ndarray:
        return self.linear.backward(self.norm.backward(dy))


class PerHead(Module):
    """y = norm of each head: x is cut into heads of the norm's width, which share its γ.

    Parameters: norm : RMSNorm, LayerNorm, or another component with `d_model`, the width of a head
    Shape: x (..., heads * d) -> y (the same)
    Backward: dx = norm backward of dy, head by head; dγ is the sum over all heads
    Raises: ValueError if the last dimension of x is no multiple of d.
    Source: Yang et al. 2025 (Qwen3), section 2; Gemma Team 2025 (Gemma 3), section 2.
    """

    def __init__(self, norm: Component) -> None:
        self.norm = norm

    def forward(self, x: np.ndarray) -> np.ndarray:
        return self.norm(self.split(x)).reshape(x.shape)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        return self.norm.backward(self.split(dy)).reshape(dy.shape)

    def split(self, x: np.ndarray) -> np.ndarray:
        """(..., heads * d) -> (..., heads, d)."""
        check_array(self, x)
        d = self.norm.d_model
        if x.shape[-1] % d:
            raise ValueError(f"PerHead: the last dimension must be a multiple of the norm's width {d}, got shape {x.shape}; "
                             "build the norm with the width of a head")
        return x.reshape(*x.shape[:-1], -1, d)


def norm_queries_and_keys(attention: Component, query_norm: Component, key_norm: Component) -> Any:
    """Gives an attention with the Linears query and key a norm of each, before the rotation; returns the attention."""
    attention.query = NormedLinear(attention.query, query_norm)
    attention.key = NormedLinear(attention.key, key_norm)
    return attention


def norm_outputs(block: Component, attention_norm: Component, feed_forward_norm: Component) -> Any:
    """Gives a block a norm of what its attention adds, and one of what its feed-forward layer adds; returns the block."""
    block.attention.output = NormedLinear(block.attention.output, attention_norm)
    block.feed_forward.down = NormedLinear(block.feed_forward.down, feed_forward_norm)
    return block
