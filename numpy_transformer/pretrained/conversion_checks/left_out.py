"""Parts left out: a part that does harm where it should help holds weights that are wrong in one way or another.

Such a change does not restore the model. It shows where a mistake lies that none of the other changes undoes.
"""

import functools

import numpy as np

from ...module import Module, Parameter
from .changes import Change

SUBLAYERS = {"attention": "the attention", "cross_attention": "the attention to the source",
             "feed_forward": "the feed-forward layer"}
HARMFUL = ("{part} does more harm than good, so its weights are not what the model expects: untrained, of another layer, "
           "or in another order")
generic = functools.partial(Change, generic=True)


class Nothing(Module):
    """y = 0: a sublayer that adds nothing to the residual stream."""

    def forward(self, x, *others):
        return np.zeros_like(x)


def changes_of_left_out(parts):
    """Yields a change for each sublayer of each block, the biases and the gains of each kind, and the positions."""
    yield from sublayers(parts)
    yield from biases(parts)
    yield from plain_norms(parts)
    yield from positions(parts)
    yield from transform(parts)


def sublayers(parts):
    """The attention or the feed-forward layer of one block, or of all blocks, adds nothing."""
    for stack in parts.stacks:
        where = f" of the {parts.name_of(stack)}" if len(parts.stacks) > 1 else ""
        for name, called in SUBLAYERS.items():
            blocks = [block for block in stack.blocks if hasattr(block, name)]
            if len(blocks) > 1:
                yield generic("a sublayer left out", f"{called} of all blocks{where} left out",
                              HARMFUL.format(part=f"{called} of all blocks{where}"),
                              lambda blocks=blocks, name=name: [(block, name, Nothing()) for block in blocks], rare=True)
            for number, block in enumerate(blocks):
                place = f"{called} of block {number}{where}"
                yield generic("a sublayer left out", f"{place} left out", HARMFUL.format(part=place),
                              lambda block=block, name=name: [(block, name, Nothing())], rare=True)


def biases(parts):
    """The biases of one kind are zero."""
    kinds = parts.by_kind(("bias", "beta"))
    for kind, names in kinds.items():
        done = f"the biases {kind} set to 0" if "*" in kind else f"{kind} set to 0"
        yield generic("biases left out", done, f"{kind} does more harm than good: it is in another order, or was taken for "
                      "another bias", lambda names=names: parts.filled(names, 0.0), rare=True)


def plain_norms(parts):
    """The gains of one kind of norm are replaced by their mean."""
    for kind, names in parts.by_kind(("gamma",)).items():
        done = f"the gains {kind} replaced by their mean" if "*" in kind else f"{kind} replaced by its mean"
        yield generic("gains left out", done, f"{kind} does more harm than good: it is in another order, or was taken for "
                      "that of another norm", lambda names=names: parts.filled(names, None), rare=True)


def positions(parts):
    """The learned positions, or the relative ones, are not added."""
    tables = [(table, "the learned positions") for table in parts.position_tables]
    tables += [(table, f"the biases of relative positions of the {parts.side_of(table)}") for table in parts.relative]
    for table, called in tables:
        yield generic("positions left out", f"{called} left out",
                      f"{called} do more harm than good: they are in another order, or belong to another model",
                      lambda table=table: [(table, "weight", Parameter(np.zeros_like(table.weight.data)))], rare=True)


def transform(parts):
    """The layer before the output layer of a masked language model hands its input on."""
    layer = getattr(parts.model, "transform", None)
    if layer is not None:
        identity = Parameter(np.eye(layer.d_in, layer.d_out, dtype=layer.weight.data.dtype))
        yield generic("a sublayer left out", "the matrix before the output layer replaced by the identity",
                      HARMFUL.format(part="the matrix before the output layer"), lambda: [
                          (layer, "weight", identity), *without_bias(parts, layer)], rare=True)


def without_bias(parts, layer):
    """Returns the edits that make the bias of a Linear zero; none if it has none."""
    return [] if layer.bias is None else parts.replace(layer.bias, np.zeros_like(layer.bias.data))
