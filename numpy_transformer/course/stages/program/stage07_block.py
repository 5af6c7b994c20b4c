"""Stage 7: the block, with its residual connections."""

from .module import Module
from .stage03_normalization import LayerNorm
from .stage04_feed_forward import FeedForward
from .stage06_heads import MultiHeadAttention


class Block(Module):
    """x + attention(norm1(x)), and then x + feed_forward(norm2(x)).

    Shape: x (..., T, d_model), mask as in MultiHeadAttention -> y (..., T, d_model); backward returns dx.
    """

    def __init__(self, d_model, num_heads, d_ff, rng):
        self.norm1 = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, rng)
        self.norm2 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, rng)

    def forward(self, x, mask=None):
        h = self.norm1(x)
        x = x + self.attention(h, h, mask)
        return x + self.feed_forward(self.norm2(x))

    def backward(self, dy):
        dx = dy + self.norm2.backward(self.feed_forward.backward(dy))
        dquery, dmemory = self.attention.backward(dx)
        return dx + self.norm1.backward(dquery + dmemory)
