"""Stage 6: attention with many heads."""

from .module import Module
from .stage02_linear import Linear
from .stage05_attention import Attention


def split_heads(x, num_heads):
    """Cuts the features into heads. Shape: x (..., T, d_model) -> (..., num_heads, T, d_model / num_heads)."""
    return x.reshape(*x.shape[:-1], num_heads, -1).swapaxes(-3, -2)


def merge_heads(x):
    """The inverse of split_heads. Shape: x (..., num_heads, T, d) -> (..., T, num_heads d)."""
    x = x.swapaxes(-3, -2)
    return x.reshape(*x.shape[:-2], -1)


class MultiHeadAttention(Module):
    """Queries from x, keys and values from memory; each head attends by itself, and `output` mixes what they found.

    Shape: x (..., T, d_model), memory (..., S, d_model), mask: boolean, of a shape that fits (..., num_heads, T, S), or
        None -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, rng):
        self.num_heads = num_heads
        self.query = Linear(d_model, d_model, rng)
        self.key = Linear(d_model, d_model, rng)
        self.value = Linear(d_model, d_model, rng)
        self.attention = Attention()
        self.output = Linear(d_model, d_model, rng)

    def forward(self, x, memory, mask=None):
        q = split_heads(self.query(x), self.num_heads)
        k = split_heads(self.key(memory), self.num_heads)
        v = split_heads(self.value(memory), self.num_heads)
        return self.output(merge_heads(self.attention(q, k, v, mask)))

    def backward(self, dy):
        dq, dk, dv = self.attention.backward(split_heads(self.output.backward(dy), self.num_heads))
        dmemory = self.value.backward(merge_heads(dv)) + self.key.backward(merge_heads(dk))
        return self.query.backward(merge_heads(dq)), dmemory
