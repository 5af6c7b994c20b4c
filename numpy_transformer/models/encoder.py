"""The encoder: a stack of blocks."""

import numpy as np

from ..argument_checks import check_positive
from ..layers.blocks import EncoderBlock, make_norm
from ..module import Module


class Encoder(Module):
    """num_layers EncoderBlocks in sequence, each with its own weights, followed by a norm.

    Parameters:
        num_layers : int, the number of blocks
        d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5 : as in EncoderBlock
        final_norm : bool or None; None adds the final norm to a pre-norm stack, whose output has not been normalized
        rng : generator or seed of initial weights and dropout, or None
        options : EncoderBlock's norm_layer, num_kv_heads, bias, rotary, attention, ff_dropout, d_head and qkv_bias
    Shape: x (B, T, d_model), mask=None -> y (B, T, d_model); B may be absent
    Backward: the blocks in reverse order
    Source: Vaswani et al. 2017, section 3.1; the final norm: the annotated Transformer (Rush 2018).
    """

    Block = EncoderBlock

    def __init__(self, num_layers, d_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5,
                 final_norm=None, rng=None, **options):
        check_positive(num_layers=num_layers)
        rng = np.random.default_rng(rng)
        self.blocks = [self.Block(d_model, num_heads, d_ff, dropout, norm, activation, eps, rng=rng, **options)
                       for _ in range(num_layers)]
        if final_norm is None:
            final_norm = norm == "pre"
        self.norm = None
        if final_norm:
            self.norm = make_norm(options.get("norm_layer", "layer"), d_model, eps, options.get("bias", True))

    def forward(self, x, mask=None, positions=None, cache=None):
        for block in self.blocks:
            x = block(x, mask, positions, cache)
        return x if self.norm is None else self.norm(x)

    def backward(self, dx):
        dx = dx if self.norm is None else self.norm.backward(dx)
        for block in reversed(self.blocks):
            dx = block.backward(dx)
        return dx
