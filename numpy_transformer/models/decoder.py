"""The decoder: a stack of blocks; and the language model that is one."""

import numpy as np

from ..layers.blocks import DecoderBlock
from ..layers.dropout import Dropout
from ..layers.embedding import Embedding, Unembedding
from ..layers.flash import FlashAttention
from ..layers.linear import Linear
from ..layers.masks import causal_mask, combine_masks
from ..layers.positions import LearnedPositionalEmbedding, SinusoidalPositionalEncoding
from ..layers.rotary import RotaryEmbedding
from ..module import Module
from ..argument_checks import check_choice, check_divides, check_positive, check_token_mask
from .initialization import initialize
from .encoder import Encoder


class Decoder(Encoder):
    """num_layers DecoderBlocks, then a norm. Like its blocks it hides nothing by itself: pass causal_mask(T).

    Parameters: as Encoder, with cross_attention=False before final_norm
    Shape: x (B, T, d_model), mask=None, cache=None -> y; with cross_attention x, memory, mask=None, memory_mask=None
    Backward: dy -> dx; with cross-attention dy -> dx, dmemory: every block saw the memory, so its gradients are added
    Source: Vaswani et al. 2017, section 3.1.
    """

    Block = DecoderBlock

    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5,
                 cross_attention=False, final_norm=None, rng=None, **options):
        super().__init__(num_layers, d_model, num_heads, d_ff, dropout, norm, activation, eps, final_norm, rng,
                         cross_attention=cross_attention, **options)

    def backward(self, dx):
        if self.blocks[0].cross_attention is None:
            return super().backward(dx)
        dx = dx if self.norm is None else self.norm.backward(dx)
        dmemory = 0
        for block in reversed(self.blocks):
            dx, dm = block.backward(dx)
            dmemory = dmemory + dm
        return dx, dmemory


class CausalLanguageModel(Module):
    """Logits of the next token at every place: embedding, positions, a causal decoder, output.

    Parameters: vocab_size, d_model, num_heads, num_layers : int; d_ff : int or None (4 d_model)
        max_len : int, longest sequence; dropout : float, after the embedding and as EncoderBlock
        norm, norm_layer, activation, num_kv_heads : as EncoderBlock
        positions : "learned" (GPT), "sinusoidal" (2017) or "rotary" (LLaMA)
        attention : "plain" or "flash" (FlashAttention: for long texts, without dropout)
        bias : bool; False drops LayerNorm's β too
        tie_weights, scale_embedding : bool; the output is the transposed embedding; the embedding times sqrt(d_model)
        rng : generator or seed of initial weights and dropout
        init : "gpt2", "xavier", "keras" or "bert", where the initial weights come from; see models/initialization.py
    Shape: ids (B, T), mask=None (B, T; True = real token), cache=None (a KeyValueCache: ids are the new tokens) ->
        logits (B, T, vocab_size); B may be absent. Positions count real tokens, so padding changes nothing for them.
    Backward: dlogits -> None: ids have no gradient
    Raises: ValueError for a sequence longer than max_len, an empty one or a mask of another shape.
    Source: Radford et al. 2019 (GPT-2: the defaults, but for the exact GELU); Touvron et al. 2023 (LLaMA: rotary,
    rms, swiglu).
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff=None, max_len=1024, dropout=0.0, norm="pre",
                 norm_layer="layer", activation="gelu", positions="learned", num_kv_heads=None, bias=True,
                 tie_weights=True, scale_embedding=False, attention="plain", rng=None, init="gpt2"):
        check_choice("positions", positions, ("learned", "sinusoidal", "rotary"))
        check_choice("attention", attention, ("plain", "flash"))
        check_divides("d_model", d_model, "num_heads", num_heads)
        check_positive(max_len=max_len)
        rng = np.random.default_rng(rng)
        d_ff = 4 * d_model if d_ff is None else d_ff
        self.max_len, self.needs_causal_mask = max_len, attention == "plain"
        self.embedding = Embedding(vocab_size, d_model, scale_embedding, rng=rng)
        self.positions = (LearnedPositionalEmbedding(max_len, d_model, rng) if positions == "learned" else None if
                          positions == "rotary" else SinusoidalPositionalEncoding(d_model, max_len, rng=rng))
        rotary = RotaryEmbedding(d_model // num_heads) if positions == "rotary" else None
        flash = FlashAttention(causal=True, dropout=dropout) if attention == "flash" else None
        self.dropout = Dropout(dropout, rng)
        self.decoder = Decoder(num_layers, d_model, num_heads, d_ff, dropout, norm, activation, rng=rng,
                               norm_layer=norm_layer, num_kv_heads=num_kv_heads, bias=bias, rotary=rotary,
                               attention=flash)
        self.output = Unembedding(self.embedding.weight) if tie_weights else Linear(d_model, vocab_size, False, rng)
        initialize(self, init, rng)

    def forward(self, ids, mask=None, cache=None):
        ids = np.asarray(ids)
        seen = 0 if cache is None else cache.length
        if not (ids.ndim in (1, 2) and 1 <= ids.shape[-1] <= self.max_len - seen):
            raise ValueError(f"ids have shape {ids.shape}{f' behind {seen} in the cache' if seen else ''}: wanted "
                             f"(B, T) or (T,) with T from 1 to max_len = {self.max_len} in all; shorten the sequence, "
                             "or build the model with a larger max_len")
        x = self.embedding(ids)
        mask, positions = self.mask_and_positions(ids, mask, cache)
        if self.positions is not None:
            x = self.positions(x, positions=positions)
        return self.output(self.decoder(self.dropout(x), mask, positions, cache=cache))

    def backward(self, dlogits):
        dx = self.dropout.backward(self.decoder.backward(self.output.backward(dlogits)))
        if self.positions is not None:
            dx = self.positions.backward(dx)
        self.embedding.backward(dx)

    def count_tokens(self, ids, mask=None):
        """The number of tokens that are not hidden by the mask."""
        return np.size(ids) if mask is None else np.count_nonzero(mask)

    def mask_and_positions(self, ids, mask, cache):
        """The attention mask, and the positions where they do not just count up from 0."""
        T = ids.shape[-1]
        token_mask = np.ones(ids.shape, bool) if mask is None else check_token_mask(mask, ids.shape)
        if cache is not None:
            token_mask = cache.advance(self, token_mask)
        seen = token_mask.shape[-1] - T
        causal = causal_mask(T, seen) if T > 1 and self.needs_causal_mask else None   # one new token sees all
        if token_mask.all():
            return causal, np.arange(seen, seen + T) if seen else None
        positions = np.maximum(np.cumsum(token_mask, -1) - 1, 0)[..., -T:]
        return combine_masks(causal, np.atleast_2d(token_mask)[:, None, None, :]), positions
