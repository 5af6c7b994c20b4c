"""Encoder and decoder blocks: attention and feed-forward, each inside a residual connection with a norm."""

import numpy as np

from ..argument_checks import check_choice
from ..module import Module
from .dropout import Dropout
from .feed_forward import ACTIVATIONS, GATED, FeedForward, SwiGLU
from .multi_head import CrossAttention, SelfAttention
from .normalization import LayerNorm, RMSNorm


def make_norm(norm_layer, d_model, eps, bias=True):
    """Returns a LayerNorm for "layer" or an RMSNorm for "rms"; only LayerNorm has a bias."""
    check_choice("norm_layer", norm_layer, ("layer", "rms"))
    return RMSNorm(d_model, eps) if norm_layer == "rms" else LayerNorm(d_model, eps, bias)


class EncoderBlock(Module):
    """Self-attention and feed-forward, each in a residual connection with a norm.

    pre:  x = x + dropout(f(norm(x)))        the annotated Transformer, GPT-2 and most models since
    post: x = norm(x + dropout(f(x)))        the paper

    Parameters:
        d_model : int
        num_heads : int, divides d_model
        d_ff : int, the width of the hidden layer of the feed-forward part
        dropout : float (0.1), on the output of each sublayer, the attention weights and FeedForward's hidden layer
        norm : "pre" (default) or "post"
        activation : "relu" (default), "gelu", "gelu_tanh" or "silu", as in FeedForward; or "swiglu", "geglu",
            "geglu_tanh" or "reglu": a SwiGLU, whose gate has silu, gelu, gelu_tanh or relu, and no dropout inside
        eps : float (1e-5), of the norms
        norm_layer : "layer" (default) or "rms"
        num_kv_heads : int or None (num_heads), as in MultiHeadAttention
        bias : bool (True); False leaves out the biases of all Linears and LayerNorm's β
        rotary : RotaryEmbedding or None, as in MultiHeadAttention
        attention : ScaledDotProductAttention, FlashAttention or None, as in MultiHeadAttention
        rng : generator or seed of initial weights and dropout, or None
        ff_dropout : float or None (the value of dropout), on FeedForward's hidden layer; BERT and Keras use 0
        d_head, qkv_bias : None, as in MultiHeadAttention
    Shape: x (B, T, d_model), mask=None (nothing is hidden) -> y (B, T, d_model); B may be absent. `positions` and
        `cache` as in MultiHeadAttention.
    Backward: forward in reverse; at each residual connection the gradients of both branches are added
    Source: Vaswani et al. 2017, sections 3.1 and 5.4; pre-norm: Xiong et al. 2020.
    """

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5,
                 norm_layer="layer", num_kv_heads=None, bias=True, rotary=None, attention=None, rng=None,
                 ff_dropout=None, d_head=None, qkv_bias=None):
        check_choice("norm", norm, ("pre", "post"))
        check_choice("activation", activation, (*ACTIVATIONS, *GATED))
        rng = np.random.default_rng(rng)
        self.pre_norm = norm == "pre"
        self.norm1 = make_norm(norm_layer, d_model, eps, bias)
        self.attention = SelfAttention(d_model, num_heads, num_kv_heads, dropout, bias, rotary, attention, rng, d_head,
                                       qkv_bias)
        self.norm2 = make_norm(norm_layer, d_model, eps, bias)
        if activation in GATED:
            self.feed_forward = SwiGLU(d_model, d_ff, bias, rng, GATED[activation])
        else:
            ff_dropout = dropout if ff_dropout is None else ff_dropout
            self.feed_forward = FeedForward(d_model, d_ff, activation, ff_dropout, bias, rng)
        self.dropout = Dropout(dropout, rng)

    def forward(self, x, mask=None, positions=None, cache=None):
        if self.pre_norm:
            x = x + self.dropout(self.attention(self.norm1(x), mask, positions, cache))
            x = x + self.dropout(self.feed_forward(self.norm2(x)))
        else:
            x = self.norm1(x + self.dropout(self.attention(x, mask, positions, cache)))
            x = self.norm2(x + self.dropout(self.feed_forward(x)))
        return x

    def backward(self, dx):
        if self.pre_norm:
            dx = dx + self.norm2.backward(self.feed_forward.backward(self.dropout.backward(dx)))
            dx = dx + self.norm1.backward(self.attention.backward(self.dropout.backward(dx)))
        else:
            dx = self.norm2.backward(dx)
            dx = dx + self.feed_forward.backward(self.dropout.backward(dx))
            dx = self.norm1.backward(dx)
            dx = dx + self.attention.backward(self.dropout.backward(dx))
        return dx


def become_subclass(module, base, subclass):
    """Turns a new instance of `base` into one of `subclass`, whose forward and backward use cross-attention.

    Raises: ValueError if the module belongs to another subclass of `base` and has the forward of `base`.
    """
    if type(module) is base:
        module.__class__ = subclass
    elif type(module).forward is base.forward:
        raise ValueError(f"the forward of {type(module).__name__} takes no memory; to use cross_attention=True, let it "
                         f"inherit from {subclass.__name__}")


class DecoderBlock(EncoderBlock):
    """An EncoderBlock for decoders. The block itself hides nothing: pass causal_mask(T), as the models do.

    With cross_attention=True it becomes a CrossAttentionBlock: its forward also takes the encoder's output.

    Parameters:
        d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5 : as in EncoderBlock
        cross_attention : bool (False); True gives a CrossAttentionBlock
        norm_layer="layer", num_kv_heads=None, bias=True, rng=None, d_head=None, qkv_bias=None : as in EncoderBlock
        options : EncoderBlock's rotary, attention and ff_dropout
    Shape: x (B, T, d_model), mask=None -> y (B, T, d_model); B may be absent
    Backward: dy -> dx
    Raises: ValueError if cross_attention=True is given to a subclass that has the forward of DecoderBlock.
    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5,
                 cross_attention=False, norm_layer="layer", num_kv_heads=None, bias=True, rng=None, d_head=None,
                 qkv_bias=None, **options):
        rng = np.random.default_rng(rng)
        super().__init__(d_model, num_heads, d_ff, dropout, norm, activation, eps, norm_layer, num_kv_heads, bias,
                         rng=rng, d_head=d_head, qkv_bias=qkv_bias, **options)
        self.cross_attention = None
        if cross_attention:
            self.cross_attention = CrossAttention(d_model, num_heads, num_kv_heads, dropout, bias, rng=rng,
                                                  d_head=d_head, qkv_bias=qkv_bias)
            self.norm3 = make_norm(norm_layer, d_model, eps, bias)
            become_subclass(self, DecoderBlock, CrossAttentionBlock)


class CrossAttentionBlock(DecoderBlock):
    """A decoder block of the 2017 Transformer: self-attention, attention to the encoder's output, feed-forward.

    Parameters: as DecoderBlock, without cross_attention
    Shape: x (B, T, d_model), memory (B, S, d_model), mask=None, memory_mask=None -> y (B, T, d_model); B may be absent.
        memory is the encoder's output, and memory_mask hides parts of it. `cross_attention` comes after `norm2`, and
        `norm3` before `feed_forward` (pre-norm; post-norm has each norm after its sublayer).
    Backward: dy -> dx, dmemory
    Source: Vaswani et al. 2017, section 3.1 and figure 1.
    """

    def __init__(self, d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5,
                 norm_layer="layer", num_kv_heads=None, bias=True, rng=None, **options):
        super().__init__(d_model, num_heads, d_ff, dropout, norm, activation, eps, True, norm_layer, num_kv_heads, bias,
                         rng, **options)

    def forward(self, x, memory, mask=None, memory_mask=None, positions=None, cache=None):
        if self.pre_norm:
            x = x + self.dropout(self.attention(self.norm1(x), mask, positions, cache))
            x = x + self.dropout(self.cross_attention(self.norm2(x), memory, memory_mask, cache))
            x = x + self.dropout(self.feed_forward(self.norm3(x)))
        else:
            x = self.norm1(x + self.dropout(self.attention(x, mask, positions, cache)))
            x = self.norm2(x + self.dropout(self.cross_attention(x, memory, memory_mask, cache)))
            x = self.norm3(x + self.dropout(self.feed_forward(x)))
        return x

    def backward(self, dx):
        if self.pre_norm:
            dx = dx + self.norm3.backward(self.feed_forward.backward(self.dropout.backward(dx)))
            dx_query, dmemory = self.cross_attention.backward(self.dropout.backward(dx))
            dx = dx + self.norm2.backward(dx_query)
            dx = dx + self.norm1.backward(self.attention.backward(self.dropout.backward(dx)))
        else:
            dx = self.norm3.backward(dx)
            dx = dx + self.feed_forward.backward(self.dropout.backward(dx))
            dx = self.norm2.backward(dx)
            dx_query, dmemory = self.cross_attention.backward(self.dropout.backward(dx))
            dx = self.norm1.backward(dx + dx_query)
            dx = dx + self.attention.backward(self.dropout.backward(dx))
        return dx, dmemory
