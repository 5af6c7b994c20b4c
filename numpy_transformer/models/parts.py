"""From names to parts: the settings that models share, and the blocks, stacks and positions that they stand for.

A model takes its sizes one by one and everything else as settings, which are fields of a dataclass. A setting that names a
kind of part is looked up in a table, to which any file can add: NORMS in layers/normalization.py, ACTIVATIONS and
FEED_FORWARDS in layers/feed_forward.py, POSITIONS in layers/positions.py, ATTENTIONS in layers/attention.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from ..argument_checks import check_choice
from ..layers.attention import ATTENTIONS, AttentionSizes, with_score_changes
from ..layers.blocks import Block, CrossBlock
from ..layers.feed_forward import make_feed_forward
from ..layers.multi_head import CrossAttention, MultiHeadAttention, SelfAttention, width_of_head
from ..layers.normalization import make_norm
from ..layers.position_bias import PositionBias
from ..layers.positions import POSITIONS, PositionSizes
from ..layers.relative_bias import UnscaledAttention
from ..module import Module
from ..types import Component
from .stacks import CrossStack, Stack


class Sizes(NamedTuple):
    """The sizes of the blocks of a stack, as in EncoderBlock."""
    d_model: int
    num_heads: int
    d_ff: int
    dropout: float


@dataclass(frozen=True, kw_only=True)
class BlockSettings:
    """What the blocks of a model are made of.

    Parameters:
        norm : "pre" (default) or "post", as in Block
        norm_layer : "layer" (default), "rms" or another name in NORMS
        activation : "relu" (default), "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh" or "reglu", as in
            EncoderBlock, or another name in ACTIVATIONS or FEED_FORWARDS
        eps : float (1e-5), of the norms
        num_kv_heads : int or None (num_heads), as in MultiHeadAttention
        bias : bool (True); False leaves out the biases of all Linears and LayerNorm's β
        d_head : int or None (d_model / num_heads), as in MultiHeadAttention
    """

    norm: str = "pre"
    norm_layer: str = "layer"
    activation: str = "relu"
    eps: float = 1e-5
    num_kv_heads: int | None = None
    bias: bool = True
    d_head: int | None = None

    def make_block(self, sizes: Sizes, rng: np.random.Generator, *, attention: str | Callable[..., Any] = "plain",
                   crossing: bool = False) -> Block:
        """Returns a Block, or a CrossBlock if `crossing`."""
        d_model, num_heads, d_ff, dropout = sizes
        options: dict[str, Any] = {"num_kv_heads": self.num_kv_heads, "dropout": dropout, "bias": self.bias, "rng": rng,
                   "d_head": self.d_head}
        attention_sizes = AttentionSizes(num_heads, self.num_kv_heads or num_heads,
                                         width_of_head(d_model, num_heads, self.d_head), dropout)
        own = SelfAttention(d_model, num_heads, attention=make_attention(attention, attention_sizes, rng), **options)
        feed_forward = make_feed_forward(self.activation, d_model, d_ff, dropout=dropout, bias=self.bias, rng=rng)
        norms = self.make_norm(d_model), self.make_norm(d_model)
        if not crossing:
            return Block(own, feed_forward, *norms, dropout=dropout, norm=self.norm, rng=rng)
        cross = CrossAttention(d_model, num_heads, **options)
        return CrossBlock(own, cross, feed_forward, *norms, norm3=self.make_norm(d_model), dropout=dropout, norm=self.norm,
                          rng=rng)

    def make_norm(self, d_model: int) -> Module:
        """Returns a norm of the kind that `norm_layer` names."""
        return make_norm(self.norm_layer, d_model, self.eps, bias=self.bias)

    def make_stack(self, num_layers: int, sizes: Sizes, rng: np.random.Generator, *, attention: str | Callable[..., Any] = "plain",
                   crossing: bool = False) -> Stack:
        """Returns a Stack of Blocks, or a CrossStack of CrossBlocks if `crossing`, with a final norm if it is pre-norm."""
        check_choice("norm", self.norm, ("pre", "post"))
        blocks = [self.make_block(sizes, rng, attention=attention, crossing=crossing) for _ in range(num_layers)]
        norm = self.make_norm(sizes.d_model) if self.norm == "pre" else None
        return CrossStack(blocks, norm) if crossing else Stack(blocks, norm)


def make_attention(attention: Any, sizes: AttentionSizes, rng: np.random.Generator) -> Any:
    """Returns the attention that ATTENTIONS makes of a name, or that a function makes.

    Parameters: attention : a name in ATTENTIONS, or a function (sizes, rng) -> component, which is called for each block;
        sizes : AttentionSizes; rng : Generator
    Raises: ValueError for an unknown name.
    """
    if callable(attention) and not isinstance(attention, Module):
        return attention(sizes, rng)
    check_choice("attention", attention, ATTENTIONS)
    return ATTENTIONS[attention](sizes, rng)


def make_positions(positions: str | Component, sizes: PositionSizes, rng: np.random.Generator) -> Component:
    """Returns what POSITIONS makes of a name: a component whose `place` says where it acts.

    Parameters: positions : a name in POSITIONS, or the component itself; sizes : PositionSizes; rng : Generator
    Raises: ValueError for an unknown name.
    """
    if isinstance(positions, Module):
        return positions
    check_choice("positions", positions, POSITIONS)
    return POSITIONS[positions].of_sizes(sizes, rng)


def place_in_attention(positions: Component, stack: Component) -> None:
    """Hands positions that act inside attention to the attention of each block. Others stay outside of the stack."""
    if positions.place == "heads":
        for block in stack.blocks:
            block.attention.rotary = positions
    elif positions.place == "scores":
        add_position_bias(positions, stack)


def add_position_bias(positions: Component, stack: Component) -> None:
    """Adds a bias to the scores of each block, as the last change, in place of a bias that is there already."""
    bias = PositionBias(positions)              # one for all blocks
    for block in stack.blocks:
        if not positions.scaled:
            block.attention.attention = UnscaledAttention.made_from(block.attention.attention)
            if isinstance(block, CrossBlock):
                block.cross_attention.attention = UnscaledAttention.made_from(block.cross_attention.attention)
        attention = with_score_changes(block.attention.attention, bias)
        attention.score_changes = [change for change in attention.score_changes
                                   if change is bias or not isinstance(change, PositionBias)]


def sizes_of(stack: Component) -> str:
    """Returns the width, heads and layers of a stack for repr; nothing for a component that has no blocks."""
    blocks = getattr(stack, "blocks", ())
    if not blocks:
        return ""
    shown = blocks[0].attention.extra_repr() if isinstance(blocks[0].attention, MultiHeadAttention) else ""
    return ", ".join(filter(None, [shown, f"num_layers={len(blocks)}"]))


def settings_of(model: Any, given: dict[str, Any]) -> Any:
    """Returns the settings of a model, of the dataclass that its class names in `Settings`.

    Raises: TypeError for a setting that the model does not have
    """
    known = [field.name for field in fields(model.Settings)]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise TypeError(f"{type(model).__name__}() got an unexpected keyword argument {unknown[0]!r}; its settings are "
                        f"{', '.join(known)}")
    return model.Settings(**given)
