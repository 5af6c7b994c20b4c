"""Stacks of blocks: encoder and decoder."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..argument_checks import check_positive
from ..layers.blocks import CrossAttentionBlock, DecoderBlock, EncoderBlock, with_memory
from ..layers.normalization import LayerNorm
from ..module import Module
from ..types import Component, Seed


class Stack(Module):
    """Blocks in sequence, followed by a norm. It hides nothing by itself: a decoder is given causal_mask(T).

    Parameters:
        blocks : list of Blocks, or of other components that take x and a mask
        norm : component that takes x, or None; a pre-norm stack needs one, because its output has not been normalized
    Shape: x (B, T, d_model), mask=None -> y (B, T, d_model); B may be absent
    Backward: the blocks in reverse order
    Source: Vaswani et al. 2017, section 3.1; the final norm: the annotated Transformer (Rush 2018).
    """

    def __init__(self, blocks: Sequence[Component], norm: Component | None = None) -> None:
        check_positive(num_layers=len(blocks))
        self.blocks = list(blocks)
        self.norm = norm

    def forward(self, x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        for block in self.blocks:
            x = block(x, mask)
        return x if self.norm is None else self.norm(x)

    def backward(self, dx: np.ndarray) -> np.ndarray:
        dx = dx if self.norm is None else self.norm.backward(dx)
        for block in reversed(self.blocks):
            dx = block.backward(dx)
        return dx


class CrossStack(Stack):
    """A Stack whose blocks also attend to the encoder's output.

    Parameters: blocks : list of CrossBlocks; norm : as in Stack
    Shape: x (B, T, d_model), memory (B, S, d_model), mask=None, memory_mask=None -> y (B, T, d_model); B may be absent
    Backward: dy -> dx, dmemory; every block reads the same memory, so the gradients of all blocks are added
    Source: Vaswani et al. 2017, section 3.1.
    """

    def forward(self, x: np.ndarray, memory: np.ndarray, mask: np.ndarray | None = None,
                memory_mask: np.ndarray | None = None) -> np.ndarray:
        for block in self.blocks:
            x = block(x, memory, mask, memory_mask)
        return x if self.norm is None else self.norm(x)

    def backward(self, dx: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dx = dx if self.norm is None else self.norm.backward(dx)
        dmemory: Any = 0
        for block in reversed(self.blocks):
            dx, dmemory_of_block = block.backward(dx)
            dmemory = dmemory + dmemory_of_block
        return dx, dmemory


class Encoder(Stack):
    """num_layers EncoderBlocks in sequence, each with its own weights, followed by a norm.

    Parameters:
        num_layers : int, the number of blocks
        d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5 : as in EncoderBlock
        final_norm : bool or None; None adds the final norm to a pre-norm stack, whose output has not been normalized
        rng : generator or seed of initial weights and dropout, or None
    Shape: x (B, T, d_model), mask=None -> y (B, T, d_model); B may be absent
    Backward: the blocks in reverse order
    Source: Vaswani et al. 2017, section 3.1; the final norm: the annotated Transformer (Rush 2018).
    """

    Block: type[EncoderBlock] = EncoderBlock

    def __init__(self, num_layers: int, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.1, norm: str = "pre",
                 activation: str = "relu", eps: float = 1e-5, final_norm: bool | None = None, rng: Seed = None) -> None:
        check_positive(num_layers=num_layers)
        rng = np.random.default_rng(rng)
        blocks = [self.Block(d_model, num_heads, d_ff, dropout, norm=norm, activation=activation, eps=eps, rng=rng)
                  for _ in range(num_layers)]
        if final_norm is None:
            final_norm = norm == "pre"
        super().__init__(blocks, LayerNorm(d_model, eps) if final_norm else None)


class Decoder(Encoder):
    """num_layers DecoderBlocks in sequence, followed by a norm. It hides nothing by itself: pass causal_mask(T).

    Parameters:
        num_layers, d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5 : as in Encoder
        cross_attention : bool (False); if True, the constructor makes a CrossAttentionDecoder, whose forward also takes the
            encoder's output
        final_norm=None, rng=None : as in Encoder
    Shape: x (B, T, d_model), mask=None -> y (B, T, d_model); B may be absent
    Backward: the blocks in reverse order
    Raises: ValueError if cross_attention=True is given to a subclass, which has the forward of Decoder.
    Source: Vaswani et al. 2017, section 3.1.
    """

    Block = DecoderBlock
    __signature__: inspect.Signature

    def __new__(cls, *sizes: Any, cross_attention: bool = False, **options: Any) -> "Decoder":
        return super().__new__(with_memory(cls, Decoder, CrossAttentionDecoder, cross_attention or sizes[8:9] == (True,)))

    def __init__(self, num_layers: int, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.1, norm: str = "pre",
                 activation: str = "relu", eps: float = 1e-5, cross_attention: bool = False, final_norm: bool | None = None,
                 rng: Seed = None) -> None:
        if cross_attention:
            self.Block = CrossAttentionBlock
        Encoder.__init__(self, num_layers, d_model, num_heads, d_ff=d_ff, dropout=dropout, norm=norm, activation=activation,
                         eps=eps, final_norm=final_norm, rng=rng)


class CrossAttentionDecoder(CrossStack, Decoder):
    """A Decoder whose blocks also attend to the encoder's output: num_layers CrossAttentionBlocks, then a norm.

    Parameters: as Decoder, with cross_attention=True
    Shape: x (B, T, d_model), memory (B, S, d_model), mask=None, memory_mask=None -> y (B, T, d_model); B may be absent
    Backward: dy -> dx, dmemory; every block reads the same memory, so the gradients of all blocks are added
    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, num_layers: int, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.1, norm: str = "pre",
                 activation: str = "relu", eps: float = 1e-5, cross_attention: bool = True, final_norm: bool | None = None,
                 rng: Seed = None) -> None:
        Decoder.__init__(self, num_layers, d_model, num_heads, d_ff=d_ff, dropout=dropout, norm=norm, activation=activation,
                         eps=eps, cross_attention=True, final_norm=final_norm, rng=rng)


for cls in (Decoder, CrossAttentionDecoder):                # for help and editors: the signature of __init__, not of __new__
    cls.__signature__ = inspect.Signature([*inspect.signature(cls.__init__).parameters.values()][1:])
