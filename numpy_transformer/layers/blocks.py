"""Encoder and decoder blocks: attention and feed-forward, each inside a residual connection with a norm."""

import inspect
from typing import Any

import numpy as np

from ..argument_checks import check_choice
from ..module import Module
from ..types import Component, Seed
from .dropout import Dropout
from .feed_forward import make_feed_forward
from .multi_head import CrossAttention, SelfAttention
from .normalization import LayerNorm


class Block(Module):
    """Attention and a feed-forward layer, each in a residual connection with a norm. The block takes them as parts.

    pre:  x = x + dropout(f(norm(x)))        the annotated Transformer, GPT-2 and most models since
    post: x = norm(x + dropout(f(x)))        the paper

    Parameters:
        attention : SelfAttention, or another component that takes x and a mask
        feed_forward : FeedForward, SwiGLU, or another component that takes x
        norm1, norm2 : LayerNorm, RMSNorm, or another component that takes x
        dropout : float (0.0), on the output of attention and of feed_forward
        norm : "pre" (default) or "post"
        rng : generator or seed of the dropout, or None
    Shape: x (B, T, d_model), mask=None (nothing is hidden) -> y (B, T, d_model); B may be absent
    Backward: forward in reverse; at each residual connection the gradients of both branches are added
    Source: Vaswani et al. 2017, sections 3.1 and 5.4; pre-norm: Xiong et al. 2020.
    """

    def __init__(self, attention: Component, feed_forward: Component, norm1: Component, norm2: Component,
                 dropout: float = 0.0, norm: str = "pre", rng: Seed = None) -> None:
        check_choice("norm", norm, ("pre", "post"))
        self.pre_norm = norm == "pre"
        self.norm1 = norm1
        self.attention = attention
        self.norm2 = norm2
        self.feed_forward = feed_forward
        self.dropout = Dropout(dropout, rng)

    def forward(self, x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        if self.pre_norm:
            x = x + self.dropout(self.attention(self.norm1(x), mask))
            x = x + self.dropout(self.feed_forward(self.norm2(x)))
        else:
            x = self.norm1(x + self.dropout(self.attention(x, mask)))
            x = self.norm2(x + self.dropout(self.feed_forward(x)))
        return x

    def backward(self, dx: np.ndarray) -> np.ndarray:
        if self.pre_norm:
            dx = dx + self.norm2.backward(self.feed_forward.backward(self.dropout.backward(dx)))
            dx = dx + self.norm1.backward(self.attention.backward(self.dropout.backward(dx)))
        else:
            dx = self.norm2.backward(dx)
            dx = dx + self.feed_forward.backward(self.dropout.backward(dx))
            dx = self.norm1.backward(dx)
            dx = dx + self.attention.backward(self.dropout.backward(dx))
        return dx

    def extra_repr(self) -> str:
        return f"norm={'pre' if self.pre_norm else 'post'!r}"


class CrossBlock(Block):
    """A Block with a third part between the two others: attention to the encoder's output.

    Parameters:
        attention, feed_forward, norm1, norm2 : as in Block
        cross_attention : CrossAttention, or another component that takes x, memory and a mask; it comes after norm2
        norm3 : as norm1; it comes before feed_forward (pre-norm; post-norm has each norm after its sublayer)
        dropout=0.0, norm="pre", rng=None : as in Block
    Shape: x (B, T, d_model), memory (B, S, d_model), mask=None, memory_mask=None -> y (B, T, d_model); B may be absent.
        memory is the encoder's output, and memory_mask hides parts of it.
    Backward: dy -> dx, dmemory
    Source: Vaswani et al. 2017, section 3.1 and figure 1.
    """

    def __init__(self, attention: Component, cross_attention: Component, feed_forward: Component, norm1: Component,
                 norm2: Component, norm3: Component, dropout: float = 0.0, norm: str = "pre", rng: Seed = None) -> None:
        super().__init__(attention, feed_forward, norm1, norm2, dropout=dropout, norm=norm, rng=rng)
        self.cross_attention = cross_attention
        self.norm3 = norm3

    def forward(self, x: np.ndarray, memory: np.ndarray, mask: np.ndarray | None = None,
                memory_mask: np.ndarray | None = None) -> np.ndarray:
        if self.pre_norm:
            x = x + self.dropout(self.attention(self.norm1(x), mask))
            x = x + self.dropout(self.cross_attention(self.norm2(x), memory, memory_mask))
            x = x + self.dropout(self.feed_forward(self.norm3(x)))
        else:
            x = self.norm1(x + self.dropout(self.attention(x, mask)))
            x = self.norm2(x + self.dropout(self.cross_attention(x, memory, memory_mask)))
            x = self.norm3(x + self.dropout(self.feed_forward(x)))
        return x

    def backward(self, dx: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


class EncoderBlock(Block):
    """A Block of SelfAttention, a feed-forward layer and two LayerNorms of the given sizes.

    Parameters:
        d_model : int
        num_heads : int, divides d_model
        d_ff : int, the width of the hidden layer of the feed-forward part
        dropout : float (0.1), on the output of each sublayer, the attention weights and FeedForward's hidden layer
        norm : "pre" (default) or "post"
        activation : "relu" (default), "gelu", "gelu_tanh" or "silu", as in FeedForward; or "swiglu", "geglu",
            "geglu_tanh" or "reglu": a SwiGLU, whose gate has silu, gelu, gelu_tanh or relu, and no dropout inside
        eps : float (1e-5), of the norms
        rng : generator or seed of initial weights and dropout, or None
    Shape: x (B, T, d_model), mask=None (nothing is hidden) -> y (B, T, d_model); B may be absent
    Backward: as Block
    Source: Vaswani et al. 2017, sections 3.1 and 5.4; pre-norm: Xiong et al. 2020.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.1, norm: str = "pre",
                 activation: str = "relu", eps: float = 1e-5, rng: Seed = None) -> None:
        rng = np.random.default_rng(rng)
        attention = SelfAttention(d_model, num_heads, dropout=dropout, rng=rng)
        feed_forward = make_feed_forward(activation, d_model, d_ff, dropout=dropout, rng=rng)
        norm1, norm2 = LayerNorm(d_model, eps), LayerNorm(d_model, eps)
        super().__init__(attention, feed_forward, norm1, norm2, dropout=dropout, norm=norm, rng=rng)


class DecoderBlock(EncoderBlock):
    """An EncoderBlock for decoders. The block itself hides nothing: pass causal_mask(T), as the models do.

    Parameters:
        d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5 : as in EncoderBlock
        cross_attention : bool (False); if True, the constructor makes a CrossAttentionBlock, whose forward also takes the
            encoder's output
        rng=None : as in EncoderBlock
    Shape: x (B, T, d_model), mask=None -> y (B, T, d_model); B may be absent
    Backward: dy -> dx
    Raises: ValueError if cross_attention=True is given to a subclass, which has the forward of DecoderBlock.
    Source: Vaswani et al. 2017, section 3.1.
    """

    __signature__: inspect.Signature

    def __new__(cls, *sizes: Any, cross_attention: bool = False, **options: Any) -> "DecoderBlock":
        return super().__new__(with_memory(cls, DecoderBlock, CrossAttentionBlock, cross_attention or sizes[7:8] == (True,)))

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.1, norm: str = "pre",
                 activation: str = "relu", eps: float = 1e-5, cross_attention: bool = False, rng: Seed = None) -> None:
        rng = np.random.default_rng(rng)
        super().__init__(d_model, num_heads, d_ff, dropout=dropout, norm=norm, activation=activation, eps=eps, rng=rng)
        if cross_attention:
            self.cross_attention = CrossAttention(d_model, num_heads, dropout=dropout, rng=rng)
            self.norm3 = LayerNorm(d_model, eps)


class CrossAttentionBlock(CrossBlock, DecoderBlock):
    """A CrossBlock of the given sizes, as in the decoder of 2017: self-attention, cross-attention, feed-forward.

    Parameters: as DecoderBlock, with cross_attention=True
    Shape: x (B, T, d_model), memory (B, S, d_model), mask=None, memory_mask=None -> y (B, T, d_model); B may be absent
    Backward: dy -> dx, dmemory
    Source: Vaswani et al. 2017, section 3.1 and figure 1.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.1, norm: str = "pre",
                 activation: str = "relu", eps: float = 1e-5, cross_attention: bool = True, rng: Seed = None) -> None:
        DecoderBlock.__init__(self, d_model, num_heads, d_ff, dropout=dropout, norm=norm, activation=activation, eps=eps,
                              cross_attention=True, rng=rng)


def with_memory(cls: type[Module], plain: type[Module], crossing: type[Module], wanted: bool) -> Any:
    """Returns the class to make where `cls` is called with or without cross-attention: `crossing` in place of `plain`.

    Raises: ValueError for another class that has the forward of `plain`.
    """
    if not wanted or issubclass(cls, crossing):
        return cls
    if cls is not plain and cls.forward is plain.forward:
        raise ValueError(f"the forward of {cls.__name__} takes no memory; to use cross_attention=True, let it inherit from "
                         f"{crossing.__name__}")
    return crossing if cls is plain else cls


for cls in (DecoderBlock, CrossAttentionBlock):             # for help and editors: the signature of __init__, not of __new__
    cls.__signature__ = inspect.Signature([*inspect.signature(cls.__init__).parameters.values()][1:])
