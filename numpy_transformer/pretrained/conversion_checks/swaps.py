"""Weights of the same shape that were taken for each other, beyond q, k and v."""

from ...layers.blocks import CrossBlock
from ...module import Parameter
from .changes import Change

PROJECTIONS = "query", "key", "value"


def changes_of_swaps(parts):
    """Yields swaps of the output of attention, of biases, in feed-forward layers, of two attentions, and of the stacks."""
    yield from outputs_of_attention(parts)
    yield from biases(parts)
    yield from feed_forward(parts)
    yield from kinds_of_attention(parts)
    yield from stacks(parts)


def swapped(pairs, name):
    """Returns the edits that exchange an attribute of the two objects of each pair."""
    return [edit for one, two in pairs for edit in ((one, name, getattr(two, name)), (two, name, getattr(one, name)))]


def outputs_of_attention(parts):
    """The output matrix and that of q, k or v are in each other's place."""
    for name in PROJECTIONS if parts.attentions else ():
        pairs = [(getattr(attention, name), attention.output) for attention in parts.attentions]
        if all(one.weight.data.shape == two.weight.data.shape for one, two in pairs):
            yield Change("output of attention swapped", f"the {name} and output matrices of attention swapped",
                         f"the {name} and output matrices were taken for each other",
                         lambda pairs=pairs: swapped(pairs, "weight"), rare=True)


def biases(parts):
    """The biases of attention's output and of the feed-forward layer are in each other's place."""
    pairs = [(block.attention.output, block.feed_forward.down) for block in parts.blocks
             if block.feed_forward in parts.feed_forwards]
    if pairs and all(one.bias is not None and two.bias is not None for one, two in pairs):
        yield Change("biases swapped", "the biases of attention's output and of `down` swapped",
                     "these biases were taken for each other", lambda: swapped(pairs, "bias"), rare=True)


def feed_forward(parts):
    """`up` (or the gate) and `down` of the feed-forward layers are in each other's place, transposed or reshaped to fit."""
    if not parts.feed_forwards:
        return
    fits = {"transposed": lambda weight: weight.T, "reshaped": lambda weight: weight.reshape(weight.shape[::-1])}
    for name in ("up", "gate") if hasattr(parts.feed_forwards[0], "gate") else ("up",):
        for done, fitted in fits.items():
            def edits(name=name, fitted=fitted):
                pairs = [(getattr(layer, name), layer.down) for layer in parts.feed_forwards]
                return [(one, "weight", Parameter(fitted(two.weight.data))) for pair in pairs
                        for one, two in (pair, pair[::-1])]

            yield Change("feed-forward matrices swapped",
                         f"`{name}` and `down` of the feed-forward layers swapped and {done}",
                         f"`{name}` and `down` were taken for each other", edits, rare=True)


def kinds_of_attention(parts):
    """Self-attention and the attention to the source are in each other's place, in the decoder's blocks."""
    crossing = [block for block in parts.blocks if isinstance(block, CrossBlock)]
    pairs = [(block.attention, block.cross_attention) for block in crossing]
    if pairs and all(one.key.weight.data.shape == two.key.weight.data.shape for one, two in pairs):
        yield Change("self-attention and attention to the source swapped",
                     "self-attention and the attention to the source swapped in the decoder",
                     "the two attentions of each block were taken for each other",
                     lambda: [edit for name in (*PROJECTIONS, "output") for edit in swapped(
                         [(getattr(one, name), getattr(two, name)) for one, two in pairs], "weight")], rare=True)


def stacks(parts):
    """What encoder and decoder both have is in each other's place: the biases of relative positions, and the final norms."""
    if len(parts.relative) == 2 and len({table.weight.data.shape for table in parts.relative}) == 1:
        yield Change("encoder and decoder swapped", "the biases of relative positions of encoder and decoder swapped",
                     "the two biases of relative positions were taken for each other",
                     lambda: swapped([parts.relative], "weight"), rare=True)
    if len(parts.stacks) == 2 and all(stack.norm is not None for stack in parts.stacks):
        yield Change("encoder and decoder swapped", "the final norms of encoder and decoder swapped",
                     "the two final norms were taken for each other", lambda: swapped([parts.stacks], "norm"), rare=True)
