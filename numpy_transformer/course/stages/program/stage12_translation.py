"""Stage 12: encoder, cross-attention, and beam search."""

import numpy as np

from .module import Module, Parameter
from .stage01_loss import softmax
from .stage02_linear import Embedding, Linear
from .stage03_normalization import LayerNorm
from .stage04_feed_forward import FeedForward
from .stage05_attention import causal_mask
from .stage06_heads import MultiHeadAttention
from .stage07_block import Block


class DecoderBlock(Module):
    """A Block with attention to the encoder's output, memory, between its two parts: each is x + f(norm(x)).

    Shape: x (..., T, d_model), memory (..., S, d_model), mask and memory_mask as in MultiHeadAttention
        -> y (..., T, d_model). backward returns dx, dmemory.
    """

    def __init__(self, d_model, num_heads, d_ff, rng):
        self.norm1 = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, rng)
        self.norm2 = LayerNorm(d_model)
        self.cross_attention = MultiHeadAttention(d_model, num_heads, rng)
        self.norm3 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, rng)

    def forward(self, x, memory, mask=None, memory_mask=None):
        h = self.norm1(x)
        x = x + self.attention(h, h, mask)
        x = x + self.cross_attention(self.norm2(x), memory, memory_mask)
        return x + self.feed_forward(self.norm3(x))

    def backward(self, dy):
        dx = dy + self.norm3.backward(self.feed_forward.backward(dy))
        dquery, dmemory = self.cross_attention.backward(dx)
        dx = dx + self.norm2.backward(dquery)
        dquery, dkey = self.attention.backward(dx)
        return dx + self.norm1.backward(dquery + dkey), dmemory


class EncoderDecoder(Module):
    """Logits of the next token of a target, for a source text. Tokens with pad_id are hidden in the source.

    Shape: source (B, S), target (B, T) integers -> logits (B, T, vocab_size); S and T at most max_len. Source and target
        have one embedding, and a table of positions each. backward returns nothing.
    """

    def __init__(self, vocab_size, max_len, d_model, num_heads, d_ff, num_layers, rng, pad_id=0):
        self.pad_id = pad_id
        self.embedding = Embedding(vocab_size, d_model, rng)
        self.source_positions = Parameter(rng.normal(0, 0.02, (max_len, d_model)))
        self.target_positions = Parameter(rng.normal(0, 0.02, (max_len, d_model)))
        self.encoder = [Block(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]
        self.encoder_norm = LayerNorm(d_model)
        self.decoder = [DecoderBlock(d_model, num_heads, d_ff, rng) for _ in range(num_layers)]
        self.decoder_norm = LayerNorm(d_model)
        self.output = Linear(d_model, vocab_size, rng)

    def encode(self, source):
        """The encoder's output (B, S, d_model), and the mask (B, 1, 1, S) of the tokens that may be seen."""
        mask = (source != self.pad_id)[:, None, None, :]
        x = self.embedding(source) + self.source_positions.data[:source.shape[-1]]
        for block in self.encoder:
            x = block(x, mask)
        return self.encoder_norm(x), mask

    def decode(self, target, memory, memory_mask):
        """The logits (B, T, vocab_size) of what comes after each token of the target."""
        T = target.shape[-1]
        x = self.embedding(target) + self.target_positions.data[:T]
        for block in self.decoder:
            x = block(x, memory, causal_mask(T), memory_mask)
        return self.output(self.decoder_norm(x))

    def forward(self, source, target):
        return self.decode(target, *self.encode(source))

    def backward(self, dlogits):
        dx = self.decoder_norm.backward(self.output.backward(dlogits))
        dmemory = 0
        for block in reversed(self.decoder):
            dx, more = block.backward(dx)
            dmemory = dmemory + more
        self.target_positions.grad[:dx.shape[1]] += dx.sum(0)
        self.embedding.backward(dx)
        dx = self.encoder_norm.backward(dmemory)
        for block in reversed(self.encoder):
            dx = block.backward(dx)
        self.source_positions.grad[:dx.shape[1]] += dx.sum(0)
        self.embedding.backward(dx)


def beam_search(model, source, bos, eos, max_len, beam=4, alpha=0.6):
    """The best target of one source (S,) that the search finds: (list of ids, score).

    At each length, every unfinished target is continued with every token, and these candidates are ordered by the sum of
    their log probabilities. Those among the best `beam` that end in eos, or have max_len tokens, are finished; their score
    is the sum divided by ((5 + length) / 6) ** alpha. The best `beam` of all candidates without eos go on, until `beam` or
    more targets are finished. The ids of the result do not include bos, and the length counts eos.
    """
    memory, mask = model.encode(source[None])
    unfinished, finished = [([bos], 0.0)], []
    for length in range(1, max_len + 1):
        candidates = []
        for ids, total in unfinished:
            p = softmax(model.decode(np.array([ids]), memory, mask)[0, -1])
            candidates += [([*ids, token], total + np.log(p[token])) for token in range(len(p))]
        candidates.sort(key=lambda candidate: -candidate[1])
        ended = [(ids, total) for ids, total in candidates[:beam] if ids[-1] == eos or length == max_len]
        finished += [(ids[1:], total / ((5 + length) / 6) ** alpha) for ids, total in ended]
        if len(finished) >= beam:
            break
        unfinished = [(ids, total) for ids, total in candidates if ids[-1] != eos][:beam]
    model.forget()                              # no backward will follow
    return max(finished, key=lambda hypothesis: hypothesis[1])
