"""Parts of a model that can be switched off, each with a backward of its own.

A part keeps its name, its weights and its children: like a bug of the zoo, a switched part is an instance of a subclass.
What it does differently is a small component inside it, so that the explorer shows it as one.
"""

import math

import numpy as np

from ..layers import FlashAttention, MultiHeadAttention
from ..layers.blocks import Block, CrossBlock
from ..module import Module

SUBLAYERS = {"attention": 1, "cross_attention": 2}      # the residual connection around each; feed_forward has the last


class KeepHeads(Module):
    """y = x at the heads that are kept, and 0 at the others.

    Parameters: heads_off : set of int
    Shape: x (..., H, T, d) -> y (the same)
    Backward: dx = dy at the heads that are kept, exactly 0 at the others
    """

    def __init__(self, heads_off):
        self.heads_off = heads_off

    def forward(self, x):
        self.remember()
        return self.clear(x)

    def backward(self, dy):
        self.recall()
        return self.clear(dy)

    def clear(self, x):
        x = x.copy()
        x[..., sorted(self.heads_off), :, :] = 0
        return x


class PassThrough(Module):
    """y = x: what is left of a block that is switched off.

    Shape: x (any) -> y (the same)
    Backward: dx = dy
    """

    def forward(self, x):
        self.remember()
        return x.copy()

    def backward(self, dy):
        self.recall()
        return dy.copy()


class WithoutResidual(Module):
    """y = f: takes the place of a residual addition y = x + f, and drops x.

    Shape: x (any), f (the same) -> y (the same)
    Backward: dx = 0, df = dy
    """

    def forward(self, x, f):
        self.remember()
        return f.copy()

    def backward(self, dy):
        self.recall()
        return np.zeros_like(dy), dy.copy()


class SwitchedAttention(Module):
    """Attention without its mask, without the division by sqrt(d), or without some of its heads.

    It is mixed into the class of an existing ScaledDotProductAttention or FlashAttention.

    Attributes: mask_off : bool; keep : KeepHeads or None; scale : float, only if scores are not divided by sqrt(d)
    """

    mask_off = False
    keep = None

    def forward(self, q, k, v, mask=None):
        if hasattr(self, "scale"):
            q = q * (self.scale * math.sqrt(q.shape[-1]))       # the attention itself divides by sqrt(d)
        y = super().forward(q, k, v, None if self.mask_off else mask)
        return y if self.keep is None else self.keep(y)

    def backward(self, dy):
        dy = dy if self.keep is None else self.keep.backward(dy)
        dq, dk, dv = super().backward(dy)
        if hasattr(self, "scale"):
            dq = dq * (self.scale * math.sqrt(dq.shape[-1]))
        return dq, dk, dv


class SwitchedBlock(Block):
    """A block that is switched off as a whole, or without some of its residual connections.

    Attributes: skip : PassThrough if the block is off; add, add2, add3 : WithoutResidual in place of the addition around
        its first, second or third sublayer
    """

    skip = None

    def forward(self, x, mask=None):
        if self.skip is not None:
            return self.skip(x)
        x = self.sublayer(1, x, lambda x: self.attention(x, mask))
        return self.sublayer(2, x, self.feed_forward)

    def backward(self, dx):
        if self.skip is not None:
            return self.skip.backward(dx)
        dx = self.sublayer_backward(2, dx, self.feed_forward.backward)
        return self.sublayer_backward(1, dx, self.attention.backward)

    def sublayer(self, number, x, f):
        norm = getattr(self, f"norm{number}")
        if self.pre_norm:
            return self.join(number, x, self.dropout(f(norm(x))))
        return norm(self.join(number, x, self.dropout(f(x))))

    def sublayer_backward(self, number, dx, f_backward):
        norm = getattr(self, f"norm{number}")
        if self.pre_norm:
            dx, df = self.split(number, dx)
            return dx + norm.backward(f_backward(self.dropout.backward(df)))
        dx, df = self.split(number, norm.backward(dx))
        return dx + f_backward(self.dropout.backward(df))

    def join(self, number, x, f):
        """Returns x + f, or f alone where the residual connection is off."""
        add = getattr(self, name_of_addition(number), None)
        return x + f if add is None else add(x, f)

    def split(self, number, dy):
        """Returns (dx, df), the gradients of what `join` has added."""
        add = getattr(self, name_of_addition(number), None)
        return (dy, dy) if add is None else add.backward(dy)


class SwitchedCrossBlock(SwitchedBlock, CrossBlock):
    """A SwitchedBlock with cross-attention. A block that is off sends no gradient to the memory: zeros."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if self.skip is not None:
            self.remember(memory.shape)
            return self.skip(x)
        x = self.sublayer(1, x, lambda x: self.attention(x, mask))
        x = self.sublayer(2, x, lambda x: self.cross_attention(x, memory, memory_mask))
        return self.sublayer(3, x, self.feed_forward)

    def backward(self, dx):
        if self.skip is not None:
            return self.skip.backward(dx), np.zeros(self.recall(), dx.dtype)
        memory_gradients = []                              # dmemory

        def cross_attention_backward(dy):
            dx_query, dmemory = self.cross_attention.backward(dy)
            memory_gradients.append(dmemory)
            return dx_query

        dx = self.sublayer_backward(3, dx, self.feed_forward.backward)
        dx = self.sublayer_backward(2, dx, cross_attention_backward)
        return self.sublayer_backward(1, dx, self.attention.backward), memory_gradients[0]


def name_of_addition(number):
    """Returns the name that the explorer gives to the addition around this sublayer: add, add2, add3."""
    return "add" if number == 1 else f"add{number}"


def mix_in(part, switched):
    """Turns a part into an instance of its own class with the methods of `switched` before them."""
    if not isinstance(part, switched):
        part.__class__ = type(type(part).__name__, (switched, type(part)), {})
    return part


def inner_attention(part):
    """Returns the attention of heads that a MultiHeadAttention calls."""
    return part.attention if isinstance(part, MultiHeadAttention) else part


def switch_head_off(part, head):
    """Switches off one head of a MultiHeadAttention; heads that are off stay off."""
    attention = mix_in(inner_attention(part), SwitchedAttention)
    heads_off = set() if attention.keep is None else attention.keep.heads_off
    attention.keep = KeepHeads(heads_off | {head})


def switch_mask_off(part):
    attention = mix_in(inner_attention(part), SwitchedAttention)
    attention.mask_off = True
    if isinstance(attention, FlashAttention):
        attention.causal = False


def switch_scale_off(part):
    mix_in(inner_attention(part), SwitchedAttention).scale = 1.0


def switch_block_off(block):
    switched_block(block).skip = PassThrough()


def switch_residual_off(block, sublayer):
    """Switches off the residual connection around "attention", "cross_attention" or "feed_forward"."""
    has_cross_attention = isinstance(block, CrossBlock)
    number = SUBLAYERS.get(sublayer, 3 if has_cross_attention else 2)
    setattr(switched_block(block), name_of_addition(number), WithoutResidual())


def switched_block(block):
    return mix_in(block, SwitchedCrossBlock if isinstance(block, CrossBlock) else SwitchedBlock)
