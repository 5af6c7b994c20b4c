"""The decoder, a stack of blocks; and the language model that consists of one."""

import numpy as np

from ..argument_checks import check_choice, check_positive, check_token_mask
from ..layers.blocks import DecoderBlock, become_subclass
from ..layers.dropout import Dropout
from ..layers.embedding import Embedding, Unembedding
from ..layers.flash import FlashAttention
from ..layers.linear import Linear
from ..layers.masks import causal_mask, combine_masks
from ..layers.multi_head import width_of_head
from ..layers.rotary import RotaryEmbedding
from .encoder import Encoder
from .initialization import initialize
from .parts import make_positions
from .rebuildable import RebuildableModel


class Decoder(Encoder):
    """num_layers DecoderBlocks in sequence, followed by a norm. It hides nothing by itself: pass causal_mask(T).

    With cross_attention=True it becomes a CrossAttentionDecoder: its forward also takes the encoder's output.

    Parameters:
        num_layers, d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5 : as in Encoder
        cross_attention : bool (False); True gives a CrossAttentionDecoder
        final_norm=None, rng=None, options : as in Encoder
    Shape: x (B, T, d_model), mask=None -> y (B, T, d_model); B may be absent. `positions` and `cache` as in
        MultiHeadAttention.
    Backward: the blocks in reverse order
    Raises: ValueError if cross_attention=True is given to a subclass that has the forward of Decoder.
    Source: Vaswani et al. 2017, section 3.1.
    """

    Block = DecoderBlock

    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5,
                 cross_attention=False, final_norm=None, rng=None, **options):
        super().__init__(num_layers, d_model, num_heads, d_ff, dropout, norm, activation, eps, final_norm, rng,
                         cross_attention=cross_attention, **options)
        if cross_attention:
            become_subclass(self, Decoder, CrossAttentionDecoder)


class CrossAttentionDecoder(Decoder):
    """A Decoder whose blocks also attend to the encoder's output: num_layers CrossAttentionBlocks, then a norm.

    Parameters: as Decoder, without cross_attention
    Shape: x (B, T, d_model), memory (B, S, d_model), mask=None, memory_mask=None -> y (B, T, d_model); B may be absent
    Backward: dy -> dx, dmemory; every block reads the same memory, so the gradients of all blocks are added
    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5,
                 final_norm=None, rng=None, **options):
        super().__init__(num_layers, d_model, num_heads, d_ff, dropout, norm, activation, eps, True, final_norm, rng,
                         **options)

    def forward(self, x, memory, mask=None, memory_mask=None, positions=None, cache=None):
        for block in self.blocks:
            x = block(x, memory, mask, memory_mask, positions, cache)
        return x if self.norm is None else self.norm(x)

    def backward(self, dx):
        dx = dx if self.norm is None else self.norm.backward(dx)
        dmemory = 0
        for block in reversed(self.blocks):
            dx, dmemory_of_block = block.backward(dx)
            dmemory = dmemory + dmemory_of_block
        return dx, dmemory


class CausalLanguageModel(RebuildableModel):
    """A decoder-only language model, like GPT or LLaMA: logits of the next token at every position.

    Embedding, positions, dropout, a Decoder with a causal mask, and the output layer.

    Parameters:
        vocab_size, d_model, num_heads, num_layers : int
        d_ff : int or None (4 d_model)
        max_len : int (1024), the length of the longest sequence
        dropout : float (0.0), after the positions and as in EncoderBlock
        norm, norm_layer, num_kv_heads : as in EncoderBlock
        activation : "gelu" by default, otherwise as in EncoderBlock
        positions : "learned" (default; GPT), "sinusoidal" (the paper) or "rotary" (LLaMA)
        bias : bool (True); False leaves out the biases of all Linears and LayerNorm's β
        tie_weights : bool (True); the output layer is the transposed embedding
        scale_embedding : bool (False); the embedding is multiplied by sqrt(d_model)
        attention : "plain" (default) or "flash": FlashAttention, for long texts, without dropout
        rng : generator or seed of initial weights and dropout, or None
        init : "gpt2" (default), "xavier", "keras" or "bert", the initial weights; see models/initialization.py
        eps=1e-5, d_head=None, qkv_bias=None : as in EncoderBlock
        rope_base=10000.0, rope_interleaved=True, rope_frequencies=None : the base, interleaved and frequencies of
            RotaryEmbedding, for "rotary" positions
        ff_dropout : float or None (the value of dropout), as in EncoderBlock; 0 for GPT-2
    Shape: ids (B, T), mask=None (B, T; True marks a real token), cache=None -> logits (B, T, vocab_size); B may be
        absent. With a KeyValueCache the ids are the new tokens. Positions count real tokens, so padding tokens do not
        change the logits of real tokens, on whichever side they stand.
    Backward: dlogits -> None: ids have no gradient
    Raises: ValueError for an empty sequence, one longer than max_len, or a mask of another shape than ids.
    Source: Radford et al. 2019 (the defaults are GPT-2, except for the exact GELU and ff_dropout); Touvron et al. 2023
        (LLaMA: rotary, rms, swiglu).
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, d_ff=None, max_len=1024, dropout=0.0, norm="pre",
                 norm_layer="layer", activation="gelu", positions="learned", num_kv_heads=None, bias=True,
                 tie_weights=True, scale_embedding=False, attention="plain", rng=None, init="gpt2", eps=1e-5,
                 d_head=None, qkv_bias=None, rope_base=10000.0, rope_interleaved=True, rope_frequencies=None,
                 ff_dropout=None):
        check_choice("attention", attention, ("plain", "flash"))
        check_positive(max_len=max_len)
        d_head = width_of_head(d_model, num_heads, d_head)
        rng = np.random.default_rng(rng)
        d_ff = 4 * d_model if d_ff is None else d_ff
        rotary = None
        if positions == "rotary":
            rotary = RotaryEmbedding(d_head, rope_base, rope_interleaved, rope_frequencies)
        flash = FlashAttention(causal=True, dropout=dropout) if attention == "flash" else None
        self.max_len = max_len
        self.uses_flash = attention == "flash"
        self.embedding = Embedding(vocab_size, d_model, scale_embedding, rng=rng)
        self.positions = make_positions(positions, max_len, d_model, rng)
        self.dropout = Dropout(dropout, rng)
        self.decoder = Decoder(num_layers, d_model, num_heads, d_ff, dropout, norm, activation, eps, rng=rng,
                               norm_layer=norm_layer, num_kv_heads=num_kv_heads, bias=bias, rotary=rotary,
                               attention=flash, d_head=d_head, qkv_bias=qkv_bias, ff_dropout=ff_dropout)
        self.output = Unembedding(self.embedding.weight) if tie_weights else Linear(d_model, vocab_size, False, rng)
        initialize(self, init, rng)

    def forward(self, ids, mask=None, cache=None):
        ids = self.check_length(ids, cache)
        x = self.embedding(ids)
        mask, positions = self.mask_and_positions(ids, mask, cache)
        if self.positions is not None:
            x = self.positions(x, positions=positions)
        return self.output(self.decoder(self.dropout(x), mask, positions, cache))

    def backward(self, dlogits):
        dx = self.dropout.backward(self.decoder.backward(self.output.backward(dlogits)))
        if self.positions is not None:
            dx = self.positions.backward(dx)
        self.embedding.backward(dx)

    def mask_and_positions(self, ids, token_mask, cache):
        """Returns the attention mask, and the positions of the tokens or None where they are 0 to T - 1."""
        T = ids.shape[-1]
        token_mask = np.ones(ids.shape, bool) if token_mask is None else check_token_mask(token_mask, ids.shape)
        if cache is not None:
            token_mask = cache.advance(self, token_mask)        # the tokens in the cache, then the new ones
        seen = token_mask.shape[-1] - T
        causal = None
        if T > 1 and not self.uses_flash:       # FlashAttention masks by itself, and a single new token sees all others
            causal = causal_mask(T, seen)
        if not token_mask.all():
            positions = np.maximum(np.cumsum(token_mask, -1) - 1, 0)[..., -T:]
            return combine_masks(causal, np.atleast_2d(token_mask)[:, None, None, :]), positions
        if seen:
            return causal, np.arange(seen, seen + T)
        return causal, None

    def check_length(self, ids, cache):
        """Returns ids as an array, if they fit into max_len together with the tokens in the cache."""
        ids = np.asarray(ids)
        seen = 0 if cache is None else cache.length
        if ids.ndim not in (1, 2) or not 1 <= ids.shape[-1] <= self.max_len - seen:
            cached = f" after {seen} in the cache" if seen else ""
            raise ValueError(f"ids have shape {ids.shape}{cached}: wanted (B, T) or (T,) with T from 1 to max_len = "
                             f"{self.max_len} in all; shorten the sequence, or build the model with a larger max_len")
        return ids

    def count_tokens(self, ids, mask=None):
        """Returns the number of tokens that the mask does not hide."""
        return np.size(ids) if mask is None else np.count_nonzero(mask)
