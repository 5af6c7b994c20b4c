"""Encoder and decoder blocks: attention and feed-forward, each in a residual with a norm."""

import numpy as np

from ..module import Module
from ..argument_checks import check_choice
from .dropout import Dropout
from .feed_forward import ACTIVATIONS, FeedForward, SwiGLU
from .multi_head import CrossAttention, SelfAttention
from .normalization import LayerNorm, RMSNorm


def make_norm(norm_layer, d_model, eps, bias=True):
    check_choice("norm_layer", norm_layer, ("layer", "rms"))
    return RMSNorm(d_model, eps) if norm_layer == "rms" else LayerNorm(d_model, eps, bias)


class EncoderBlock(Module):
    """Self-attention and feed-forward, each in a residual connection with a norm.

    pre:  x = x + dropout(f(norm(x)))        the annotated version, GPT-2 and most models since
    post: x = norm(x + dropout(f(x)))        the paper's text

    Parameters: d_model, num_heads, d_ff : int; norm : "pre" or "post"; activation : as FeedForward, or "swiglu"
        dropout : float, on each sublayer's output, the attention weights and FeedForward's hidden layer
        ff_dropout : float or None (as dropout), on FeedForward's hidden layer alone; BERT and Keras's examples have 0
        eps : float, of the norms; norm_layer : "layer" or "rms"
        num_kv_heads, bias, rotary, attention : as MultiHeadAttention; bias=False drops LayerNorm's β too
        rng : generator or seed of initial weights and dropout
    Shape: x (B, T, d_model), mask (None: nothing is hidden) -> y (B, T, d_model); B may be absent
    Backward: forward upside down; at each residual the gradient goes both ways and is added
    Source: Vaswani et al. 2017, sections 3.1 and 5.4; pre-norm: Xiong et al. 2020.
    """

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5,
                 norm_layer="layer", num_kv_heads=None, bias=True, rotary=None, attention=None, rng=None,
                 ff_dropout=None):
        check_choice("norm", norm, ("pre", "post"))
        check_choice("activation", activation, (*ACTIVATIONS, "swiglu"))
        rng = np.random.default_rng(rng)
        self.pre_norm = norm == "pre"
        self.norm1 = make_norm(norm_layer, d_model, eps, bias)
        self.attention = SelfAttention(d_model, num_heads, num_kv_heads, dropout, bias, rotary, attention, rng)
        self.norm2 = make_norm(norm_layer, d_model, eps, bias)
        if activation == "swiglu":
            self.feed_forward = SwiGLU(d_model, d_ff, bias, rng)
        else:
            ff_dropout = dropout if ff_dropout is None else ff_dropout
            self.feed_forward = FeedForward(d_model, d_ff, activation, ff_dropout, bias, rng)
        self.dropout = Dropout(dropout, rng)

    def forward(self, x, mask=None, positions=None, cache=None):
        if self.pre_norm:
            x = x + self.dropout(self.attention(self.norm1(x), mask, positions, cache))
            return x + self.dropout(self.feed_forward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask, positions, cache)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))

    def backward(self, dx):
        if self.pre_norm:
            dx = dx + self.norm2.backward(self.feed_forward.backward(self.dropout.backward(dx)))
            return dx + self.norm1.backward(self.attention.backward(self.dropout.backward(dx)))
        dx = self.norm2.backward(dx)
        dx = dx + self.feed_forward.backward(self.dropout.backward(dx))
        dx = self.norm1.backward(dx)
        return dx + self.attention.backward(self.dropout.backward(dx))


class DecoderBlock(EncoderBlock):
    """An EncoderBlock meant to be given a causal mask; with cross_attention it also attends to a memory.

    Parameters:
        cross_attention : bool; adds `cross_attention` behind `norm2`, and `norm3` before `feed_forward`
        the others : as EncoderBlock
    Shape: x (B, T, d_model), mask=None -> y (B, T, d_model); with cross-attention x, memory (B, S, d_model), mask=None,
        memory_mask=None -> y. The block hides nothing by itself: pass causal_mask(T), as the models do.
    Backward: dy -> dx; with cross-attention dy -> dx, dmemory
    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5,
                 cross_attention=False, norm_layer="layer", num_kv_heads=None, bias=True, rng=None, **options):
        rng = np.random.default_rng(rng)
        super().__init__(d_model, num_heads, d_ff, dropout, norm, activation, eps, norm_layer, num_kv_heads, bias,
                         rng=rng, **options)
        self.cross_attention = None
        if cross_attention:
            self.cross_attention = CrossAttention(d_model, num_heads, num_kv_heads, dropout, bias, rng=rng)
            self.norm3 = make_norm(norm_layer, d_model, eps, bias)

    def forward(self, x, *memory_and_masks, **named):
        forward = super().forward if self.cross_attention is None else self.forward_with_memory
        return forward(x, *memory_and_masks, **named)

    def backward(self, dx):
        return super().backward(dx) if self.cross_attention is None else self.backward_with_memory(dx)

    def forward_with_memory(self, x, memory, mask=None, memory_mask=None, positions=None, cache=None):
        if self.pre_norm:
            x = x + self.dropout(self.attention(self.norm1(x), mask, positions, cache))
            x = x + self.dropout(self.cross_attention(self.norm2(x), memory, memory_mask, cache))
            return x + self.dropout(self.feed_forward(self.norm3(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask, positions, cache)))
        x = self.norm2(x + self.dropout(self.cross_attention(x, memory, memory_mask, cache)))
        return self.norm3(x + self.dropout(self.feed_forward(x)))

    def backward_with_memory(self, dx):
        if self.pre_norm:
            dx = dx + self.norm3.backward(self.feed_forward.backward(self.dropout.backward(dx)))
            dx2, dmemory = self.cross_attention.backward(self.dropout.backward(dx))
            dx = dx + self.norm2.backward(dx2)
            return dx + self.norm1.backward(self.attention.backward(self.dropout.backward(dx))), dmemory
        dx = self.norm3.backward(dx)
        dx = dx + self.feed_forward.backward(self.dropout.backward(dx))
        dx = self.norm2.backward(dx)
        dx2, dmemory = self.cross_attention.backward(self.dropout.backward(dx))
        dx = self.norm1.backward(dx + dx2)
        return dx + self.attention.backward(self.dropout.backward(dx)), dmemory
