"""Stage 8: the language model, whose output layer is the transposed embedding."""

from .module import Module, Parameter
from .stage02_linear import Embedding
from .stage03_normalization import LayerNorm
from .stage05_attention import causal_mask
from .stage07_block import Block


class LanguageModel(Module):
    """Logits of the next token at every position: norm(blocks(embedding + positions)) E^T.

    Shape: ids (..., T) integers, T <= max_len -> logits (..., T, vocab_size); positions (max_len, d_model). The embedding's
        table E is used twice, so its gradient has two parts. backward returns nothing.
    """

    def __init__(self, vocab_size, max_len, d_model, num_heads, d_ff, num_layers, rng):
        self.embedding = Embedding(vocab_size, d_model, rng)
        self.positions = Parameter(rng.normal(0, 0.02, (max_len, d_model)))
        self.blocks = [Block(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]
        self.norm = LayerNorm(d_model)

    def forward(self, ids):
        T = ids.shape[-1]
        x = self.embedding(ids) + self.positions.data[:T]
        mask = causal_mask(T)
        for block in self.blocks:
            x = block(x, mask)
        h = self.norm(x)
        self.remember(h)
        return h @ self.embedding.weight.data.T

    def backward(self, dlogits):
        h = self.recall()
        self.embedding.weight.grad += dlogits.reshape(-1, dlogits.shape[-1]).T @ h.reshape(-1, h.shape[-1])
        dx = self.norm.backward(dlogits @ self.embedding.weight.data)
        for block in reversed(self.blocks):
            dx = block.backward(dx)
        self.positions.grad[:dx.shape[-2]] += dx.reshape(-1, *dx.shape[-2:]).sum(0)
        self.embedding.backward(dx)
