"""Mistakes in the blocks: norms, feed-forward layers, and the order of the layers."""

import itertools

import numpy as np

from ...layers.activations import GELU, ReLU, SiLU
from ...layers.blocks import CrossBlock
from ...layers.masks import causal_mask, combine_masks
from ...layers.normalization import LayerNorm, RMSNorm
from ...models.text_encoder import TextEncoder
from ...module import Parameter
from .changes import Change, reordered_inputs, reordered_outputs

GELUS = {"none": "the exact GELU", "tanh": "GELU with tanh"}            # by the approximation
ACTIVATIONS = {"ReLU": ReLU, GELUS["none"]: GELU, GELUS["tanh"]: lambda: GELU("tanh"), "SiLU": SiLU}
PARTS_OF_BLOCKS = {"attention": "the attention", "cross_attention": "the attention to the source",
                   "feed_forward": "the feed-forward layers", "norm1": "norm1", "norm2": "norm2", "norm3": "norm3"}
GAINS = 1.0, 2.0, 4.0, 8.0             # of a final norm that is missing; those of the file are unknown
EPS = 1e-12, 1e-8, 1e-6, 1e-5, 1e-3


def changes_of_blocks(parts):
    """Yields the changes of norms, feed-forward layers and the order of the blocks."""
    yield from gains(parts)
    yield from places_of_norms(parts)
    yield from final_norms(parts)
    yield from eps_of_norms(parts)
    yield from activations(parts)
    yield from gates(parts)
    yield from hidden_features(parts)
    yield from square_matrices(parts)
    yield from orders_of_layers(parts)
    yield from causal_encoder(parts)


def gains(parts):
    """γ is stored minus one, or has been increased by one needlessly, or is taken for β."""
    steps = [(1, "1 added to the gains of all norms", "the file holds γ - 1"),
             (-1, "1 subtracted from the gains of all norms", "the file holds γ, and 1 was added to it")]
    for step, done, verdict in steps:
        yield Change("gains of the norms", done, verdict, lambda step=step: [
            (norm, "gamma", Parameter(norm.gamma.data + step)) for norm in parts.norms])
    with_beta = [norm for norm in parts.norms if getattr(norm, "beta", None) is not None]
    if with_beta:
        swapped = "γ and β of all norms swapped"
        yield Change("gains of the norms", swapped, "γ and β were taken for each other", lambda: [
            edit for norm in with_beta for edit in ((norm, "gamma", norm.beta), (norm, "beta", norm.gamma))])
    kinds = {type(norm) for block in parts.blocks for norm in (block.norm1, block.norm2)}
    if kinds == {RMSNorm}:
        yield Change("kind of norm", "the mean subtracted in all norms", "the norms are LayerNorm, not RMSNorm",
                     lambda: [edit for block in parts.blocks for edit in with_other_norms(block)])
    elif kinds == {LayerNorm} and not with_beta:
        yield Change("kind of norm", "no mean subtracted in the norms", "the norms are RMSNorm, not LayerNorm",
                     lambda: [edit for block in parts.blocks for edit in with_other_norms(block)])


def with_other_norms(block):
    """Returns the edits that make each LayerNorm without β of a block an RMSNorm, and each RMSNorm a LayerNorm."""
    edits = []
    for name, norm in vars(block).items():
        if isinstance(norm, (LayerNorm, RMSNorm)):
            other = RMSNorm(norm.d_model, norm.eps) if isinstance(norm, LayerNorm) else LayerNorm(
                norm.d_model, norm.eps, bias=False)
            other.gamma = norm.gamma
            edits.append((block, name, other))
    return edits


def places_of_norms(parts):
    """The norms of a block are in each other's place, or before the sublayers instead of after them."""
    pairs = [("norm1", "norm2")]
    if any(isinstance(block, CrossBlock) for block in parts.blocks):
        pairs += [("norm2", "norm3"), ("norm1", "norm3")]
    for one, two in pairs:
        blocks = [block for block in parts.blocks if hasattr(block, two)]
        yield Change("norms swapped", f"{one} and {two} of each block swapped",
                     f"{one} and {two} were taken for each other",
                     lambda blocks=blocks, one=one, two=two: [
                         edit for block in blocks
                         for edit in ((block, one, getattr(block, two)), (block, two, getattr(block, one)))])
    pre_norm = parts.blocks[0].pre_norm
    placed = "after each residual sum" if pre_norm else "before each sublayer"
    yield Change("pre-norm or post-norm", f"the norms {placed}",
                 f"this is a {'post' if pre_norm else 'pre'}-norm model",
                 lambda: [(block, "pre_norm", not pre_norm) for block in parts.blocks])


def final_norms(parts):
    """A norm after the last block, or after the embeddings, is missing, or should not be there."""
    for stack in parts.stacks:
        kind = parts.name_of(stack)
        block = stack.blocks[0]
        if stack.norm is not None:
            yield Change("final norm", f"the final norm of the {kind} left out", "this model has no final norm",
                         lambda stack=stack: [(stack, "norm", None)])
        elif block.pre_norm:
            for gain in GAINS:
                done = f"a norm with gains of {gain:g} after the {kind}"
                yield Change("final norm", done, "the final norm is missing", lambda stack=stack, block=block, gain=gain: [
                    (stack, "norm", plain_norm(block.norm1, gain))], rare=gain > 1)
    if isinstance(parts.model, TextEncoder):
        present = getattr(parts.model, "embedding_norm", None) is not None
        if present:
            yield Change("norm of the embeddings", "the norm of the embeddings left out",
                         "this model does not normalize its embeddings",
                         lambda: [(parts.model, "embedding_norm", None)])
        else:
            yield Change("norm of the embeddings", "the embeddings normalized", "the norm of the embeddings is missing",
                         lambda: [(parts.model, "embedding_norm", plain_norm(parts.blocks[0].norm1))])


def plain_norm(norm, gain=1.0):
    """Returns a norm of the same kind with equal gains."""
    new = type(norm)(norm.d_model, norm.eps)
    new.gamma.data = np.full_like(new.gamma.data, gain)
    return new.astype(norm.gamma.data.dtype)


def eps_of_norms(parts):
    """Another eps: it matters only where the variances are small."""
    used = {norm.eps for norm in parts.norms}
    for eps in EPS:
        if used != {eps}:
            yield Change("eps of the norms", f"eps = {eps:g} in all norms", f"eps should be {eps:g}",
                         lambda eps=eps: [(norm, "eps", eps) for norm in parts.norms])


def activations(parts):
    """Another activation in the feed-forward layers, or in the head of a masked language model."""
    homes = [("the feed-forward layers", "activation", parts.feed_forwards)] if parts.feed_forwards else []
    if isinstance(getattr(parts.model, "activation", None), (ReLU, GELU, SiLU)):
        homes.append(("the head", "activation of the head", [parts.model]))
    for place, topic, owners in homes:
        used = activation_name(owners[0].activation)
        for name, make in ACTIVATIONS.items():
            if name != used:
                yield Change(topic, f"{name} in {place}", f"the activation is {name}, not {used}",
                             lambda make=make, owners=owners: [(owner, "activation", make()) for owner in owners])


def activation_name(activation):
    if isinstance(activation, GELU):
        return GELUS[activation.approximate]
    return type(activation).__name__


def gates(parts):
    """The gate and the linear branch of gated feed-forward layers are in each other's place."""
    gated = [layer for layer in parts.feed_forwards if hasattr(layer, "gate")]
    if gated:
        yield Change("gate and up swapped", "gate and up of the feed-forward layers swapped",
                     "gate and up were taken for each other", lambda: [
                         edit for layer in gated for edit in ((layer, "gate", layer.up), (layer, "up", layer.gate))])


def hidden_features(parts):
    """The hidden features of gate, up and down are in different orders, or gate and up were fused in another way."""
    layers = parts.feed_forwards
    if not layers:
        return
    features = np.arange(layers[0].up.d_out)
    orders = {"in reverse order": features[::-1], "moved up by one": np.roll(features, 1),
              "moved down by one": np.roll(features, -1)}
    gated = hasattr(layers[0], "gate")
    sides = {"inputs of `down`": ("down", reordered_inputs)}
    if gated:
        sides |= {f"outputs of `{name}`": (name, reordered_outputs) for name in ("gate", "up")}
    for (side, (name, reordered)), (done, order) in itertools.product(sides.items(), orders.items()):
        def edits(name=name, reordered=reordered, order=order):
            return [edit for layer in layers for edit in reordered(getattr(layer, name), order)]

        yield Change("order of the hidden features", f"the {side} {done}",
                     f"the hidden features of the feed-forward layers are in another order in `{name}`", edits, rare=True)
    if gated:
        by_pairs = np.arange(2 * len(features)).reshape(2, -1).T.ravel()
        for done, order in (("taken in turn", by_pairs), ("put together in turn and cut in halves", np.argsort(by_pairs))):
            yield Change("splitting of the fused gate and up", f"the columns of the fused gate and up {done}",
                         "gate and up are fused in the file in another way than they were split",
                         lambda order=order: [edit for layer in layers for edit in split_again(layer, order)], rare=True)


def split_again(layer, order):
    """Returns the edits that split the fused matrix of gate and up, with its columns in another order, into halves."""
    weight = np.concatenate([layer.gate.weight.data, layer.up.weight.data], 1)[:, order]
    return [(linear, "weight", Parameter(part)) for linear, part in zip((layer.gate, layer.up), np.split(weight, 2, 1))]


def square_matrices(parts):
    """Square matrices outside attention have the right shape even if they are transposed."""
    verdict = "stored as (out, in) where (in, out) is wanted, or the reverse"
    square = [linear for layer in parts.feed_forwards for linear in (layer.up, layer.down)
              if linear.d_in == linear.d_out]
    transform = getattr(parts.model, "transform", None)
    if transform is not None:
        yield Change("square matrix transposed", "the matrix before the output layer transposed",
                     f"this matrix is {verdict}", lambda: transposed([transform]))
        of_attention = [linear for attention in parts.attentions for linear in (
            attention.query, attention.key, attention.value, attention.output) if linear.d_in == linear.d_out]
        if of_attention:
            yield Change("square matrix transposed", "all square matrices transposed",
                         f"all these matrices are {verdict}",
                         lambda: transposed([*of_attention, *square, transform]))
    if square:
        yield Change("square matrix transposed", "the matrices of the feed-forward layers transposed",
                     f"these matrices are {verdict}", lambda: transposed(square))


def transposed(linears):
    return [(linear, "weight", Parameter(linear.weight.data.T)) for linear in linears]


def orders_of_layers(parts):
    """Layers, or a part of each, are sorted as text (0, 1, 10, 11, 2, ...), reversed or moved by one, or two are swapped."""
    for stack in parts.stacks:
        kind = parts.name_of(stack)
        orders = usual_orders(len(stack.blocks))
        for order, done in orders.items():
            yield Change("order of the layers", f"the layers of the {kind} {done}", "the layers are in a wrong order",
                         lambda stack=stack, order=order: [(stack, "blocks", [stack.blocks[i] for i in order])])
        swaps = swapped_pairs(len(stack.blocks), orders)
        for order, done in swaps.items():
            yield Change("order of the layers", f"the layers of the {kind} with {done}", "the layers are in a wrong order",
                         lambda stack=stack, order=order: [(stack, "blocks", [stack.blocks[i] for i in order])], rare=True)
        for part, called in PARTS_OF_BLOCKS.items():
            blocks = [block for block in stack.blocks if hasattr(block, part)]
            for order, done in (orders | swaps).items() if len(blocks) == len(stack.blocks) else ():
                yield Change("order of a part of the layers", f"{called} alone, of the {kind}, with the layers {done}",
                             f"the weights of {called} are those of other layers",
                             lambda blocks=blocks, part=part, order=order: [
                                 (block, part, getattr(blocks[i], part)) for block, i in zip(blocks, order)], rare=True)


def usual_orders(number):
    """Returns {order: what was done} of the mistakes that concern all layers."""
    as_text = sorted(range(number), key=str)
    orders = {"sorted by number, not as text (0, 1, 10, 11, 2, ...)": np.argsort(as_text),
              "sorted as text (0, 1, 10, 11, 2, ...)": as_text,
              "in reverse order": range(number)[::-1],
              "moved up by one": np.roll(range(number), 1), "moved down by one": np.roll(range(number), -1)}
    found = {}
    for done, order in orders.items():
        found.setdefault(tuple(map(int, order)), done)
    found.pop(tuple(range(number)), None)
    return found


def swapped_pairs(number, others):
    """Returns {order: what was done} of the swaps of two layers, without other orders."""
    found = {}
    for one, two in itertools.combinations(range(number), 2):
        order = list(range(number))
        order[one], order[two] = two, one
        if tuple(order) not in others:
            found[tuple(order)] = f"{one} and {two} swapped"
    return found


def causal_encoder(parts):
    """An encoder whose tokens may only attend to earlier ones."""
    model = parts.model
    if isinstance(model, TextEncoder):
        def attention_mask(ids, mask=None):
            return combine_masks(causal_mask(np.shape(ids)[-1]), TextEncoder.attention_mask(model, ids, mask))

        yield Change("causal mask", "each token attending only to earlier ones", "the causal mask is missing",
                     lambda: [(model, "attention_mask", attention_mask)])
        yield Change("padding", f"attention to all tokens, also to those with the id {model.pad_id}",
                     f"pad_id = {model.pad_id} is not the id of padding",
                     lambda: [(model, "pad_id", None)])
