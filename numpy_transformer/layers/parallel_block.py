"""A block whose attention and feed-forward layer work side by side."""

import numpy as np

from ..types import Component, Seed
from .blocks import Block


class ParallelBlock(Block):
    """y = x + dropout(attention(norm1(x))) + dropout(feed_forward(norm2(x))): both read the same x.

    Parameters: attention, feed_forward, norm1, norm2, dropout=0.0, rng=None : as in Block
    Shape: x (B, T, d_model), mask=None (nothing is hidden) -> y (B, T, d_model); B may be absent
    Backward: dx = dy + norm1 backward of attention backward of dy + norm2 backward of feed_forward backward of dy
    Source: Black et al. 2022 (GPT-NeoX-20B), section 2.1; Chowdhery et al. 2022 (PaLM), section 2.
    """

    def __init__(self, attention: Component, feed_forward: Component, norm1: Component, norm2: Component,
                 dropout: float = 0.0, rng: Seed = None) -> None:
        super().__init__(attention, feed_forward, norm1, norm2, dropout=dropout, rng=rng)

    def forward(self, x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        attended = self.dropout(self.attention(self.norm1(x), mask))
        return x + attended + self.dropout(self.feed_forward(self.norm2(x)))

    def backward(self, dx: np.ndarray) -> np.ndarray:
        dx_feed_forward = self.norm2.backward(self.feed_forward.backward(self.dropout.backward(dx)))
        return dx + self.norm1.backward(self.attention.backward(self.dropout.backward(dx))) + dx_feed_forward
