"""Multi-token prediction: a model that also learns, and can guess, the tokens after the next one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..argument_checks import check_positive
from ..layers.linear import Linear
from ..module import Module
from ..types import Component


class MultiTokenStack(Module):
    """Independent heads on a shared trunk: y_i = norm(head_i(trunk(x))), where head i predicts the token i + 1 places later.

    It takes the place of a LanguageModel's decoder, so that all heads share the output layer: the logits are (B, n, T, V).
    Head 0 predicts the next token. With one head this is a Stack.

    Parameters:
        trunk : Stack without a norm, or another component that takes x and a mask
        heads : list of n Blocks, or of other components that take x and a mask
        norm : component that takes x, or None; one for all heads
    Shape: x (B, T, d_model), mask=None -> y (B, n, T, d_model); B may be absent
    Backward: dtrunk = sum_i head_i.backward(norm.backward(dy)_i), which goes back through the trunk once
    Source: Gloeckle et al. 2024, section 2.
    """

    def __init__(self, trunk: Component, heads: Sequence[Component], norm: Component | None = None) -> None:
        check_positive(heads=len(heads))
        self.trunk = trunk
        self.heads = list(heads)
        self.norm = norm

    def forward(self, x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        z = self.trunk(x, mask)
        y = np.stack([head(z, mask) for head in self.heads], axis=-3)
        return y if self.norm is None else self.norm(y)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        dy = dy if self.norm is None else self.norm.backward(dy)
        dz: Any = 0
        for n in reversed(range(len(self.heads))):
            dz = dz + self.heads[n].backward(dy[..., n, :, :])
        return self.trunk.backward(dz)

    @property
    def blocks(self) -> list[Component]:
        """The blocks of the trunk, and the heads: where positions act that act inside attention."""
        return [*getattr(self.trunk, "blocks", ()), *self.heads]


class SequentialTokenBlock(Module):
    """One more token, given the one before: y = block(projection([norm_h(h); norm_e(e)])).

    Row t of h knows the tokens up to t, and row t of e is the embedding of a later token. In DeepSeek-V3, module k takes the
    output of module k - 1 and the embedding of the token t + k, and predicts the token t + k + 1. Unlike independent heads,
    it sees the token that comes just before the one that it predicts.

    Parameters:
        block : Block, or another component that takes x and a mask
        projection : Linear(2 d_model, d_model)
        norm_h, norm_e : RMSNorm, or another component that takes x
    Shape: h, e (B, T, d_model), mask=None -> y (B, T, d_model); B may be absent
    Backward: dy -> dh, de
    Source: DeepSeek-AI 2024 (DeepSeek-V3), section 2.2.
    """

    def __init__(self, block: Component, projection: Linear, norm_h: Component, norm_e: Component) -> None:
        self.norm_h = norm_h
        self.norm_e = norm_e
        self.projection = projection
        self.block = block

    def forward(self, h: np.ndarray, e: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        x = np.concatenate([self.norm_h(h), self.norm_e(e)], axis=-1)
        return self.block(self.projection(x), mask)

    def backward(self, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dx = self.projection.backward(self.block.backward(dy))
        dh, de = np.split(dx, 2, axis=-1)
        return self.norm_h.backward(dh), self.norm_e.backward(de)
