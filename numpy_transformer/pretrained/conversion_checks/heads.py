"""A wrong number of heads, and query heads that are given to the wrong key heads."""

import numpy as np

from ...layers.normed_linear import PerHead
from ...layers.relative_bias import RelativePositionBias
from ...layers.rotary import RotaryEmbedding
from ...module import Parameter
from .changes import Change, reordered_inputs, reordered_outputs
from .rotary import base_of

PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "the output matrix's rows"}


def changes_of_heads(parts):
    """Yields the changes of the number of heads and of their grouping."""
    if not parts.attentions:
        return
    yield from numbers(parts)
    yield from tiled(parts.attentions)
    yield from orders_in_one_projection(parts.attentions)


def numbers(parts):
    """config.json has half of the true number of heads, or twice as many; the widths of q, k and v stay as they are."""
    first = parts.attentions[0]
    heads, groups = first.num_heads, first.num_kv_heads
    d_head = first.query.d_out // heads
    for new, new_groups, new_d in ((heads // 2, groups // 2, 2 * d_head), (2 * heads, 2 * groups, d_head // 2)):
        fits = new_groups and new * new_d == heads * d_head and new_groups * new_d == groups * d_head
        if not fits or not can_rotate(parts, new_d):
            continue
        wanted = f"num_heads should be {new}, not {heads}"
        if groups != heads:
            wanted += f", and num_kv_heads {new_groups}, not {groups}"
        yield Change("number of heads", f"{new} heads of {new_d} features",
                     f"{wanted}: check the number of heads in config.json",
                     lambda new=new, new_groups=new_groups, new_d=new_d: with_heads(parts, new, new_groups, new_d))


def can_rotate(parts, d_head):
    """Returns True if heads of another width can have the rotary positions, and the norms of heads, of the model."""
    kinds = {type(attention.rotary) for attention in parts.attentions if attention.rotary is not None}
    normed = any(isinstance(getattr(attention.query, "norm", None), PerHead) for attention in parts.attentions)
    return not normed and kinds <= {RotaryEmbedding} and not (kinds and d_head % 2)


def with_heads(parts, num_heads, num_kv_heads, d_head):
    """Returns the edits that split q, k and v into other heads."""
    edits = []
    for attention in parts.attentions:
        edits += [(attention, "num_heads", num_heads), (attention, "num_kv_heads", num_kv_heads)]
    rotating = [attention for attention in parts.attentions if attention.rotary is not None]
    if rotating:
        old = rotating[0].rotary
        rotary = RotaryEmbedding(d_head, base_of(old), old.interleaved)
        edits += [(attention, "rotary", rotary) for attention in rotating]
    for table in parts.relative:                # the rows of a bias are those of the file as far as they go
        other = RelativePositionBias(num_heads, table.num_buckets, table.max_distance, table.causal)
        other.weight = Parameter(np.resize(table.weight.data.T, (num_heads, table.num_buckets)).T)
        edits += [(module, "position_bias", other) for module in parts.modules
                  if getattr(module, "position_bias", None) is table]
    return edits


def tiled(group):
    """Query head h uses key head h mod G in the file, and h // (H / G) in the model, or the other way round."""
    heads, groups = group[0].num_heads, group[0].num_kv_heads
    if groups in (1, heads):
        return
    order = np.arange(heads).reshape(-1, groups).T.ravel()
    for number, each in enumerate(dict.fromkeys((tuple(order), tuple(np.argsort(order))))):
        def regrouped(each=np.array(each)):
            return [edit for attention in group for edit in (
                *reordered_outputs(attention.query, features(each, attention.query.d_out)),
                *reordered_inputs(attention.output, features(each, attention.output.d_in)))]

        found, wanted = ("in turn", "side by side") if number == 0 else ("side by side", "in turn")
        yield Change("grouping of the query heads",
                     f"the query heads of a key head taken {found} instead of {wanted}",
                     "the query heads are in another order in the file, and some were given the wrong key head", regrouped)


def features(order, width):
    """Returns the order of the features of heads in the given order."""
    return np.arange(width).reshape(len(order), -1)[order].ravel()


def orders_in_one_projection(group):
    """The heads of q, k, v or the output alone, or the features of each head, are in another order than the others'."""
    for name, called in PROJECTIONS.items():
        for done, order in orders_of_heads(group[0], name).items():
            def reordered(name=name, order=order):
                change = reordered_inputs if name == "output" else reordered_outputs
                return [edit for attention in group for edit in change(getattr(attention, name), order)]

            yield Change("order of the heads of one projection", f"{done} {called}",
                         f"the heads or features of {called} are in another order than those of the other projections",
                         reordered, rare=True)


def orders_of_heads(attention, name):
    """Returns {what was done: order} of the features of one projection."""
    width = attention.output.d_in if name == "output" else getattr(attention, name).d_out
    heads = attention.num_kv_heads if name in ("key", "value") else attention.num_heads
    features = np.arange(width).reshape(heads, -1)
    orders = {"the heads in reverse order in": features[::-1], "the heads moved up by one in": np.roll(features, 1, 0),
              "the heads moved down by one in": np.roll(features, -1, 0),
              "the features of each head in reverse order in": features[:, ::-1],
              "the heads strided in": features.reshape(-1, heads).T, "the heads side by side in": features.T}
    if features.shape[1] % 2 == 0:
        by_pairs = features.reshape(heads, 2, -1).swapaxes(1, 2)
        orders |= {"halves made pairs in": by_pairs, "pairs made halves in": np.argsort(by_pairs.ravel())}
    for head in range(heads - 1) if name in ("key", "value") else ():
        swapped = np.arange(heads)
        swapped[[head, head + 1]] = head + 1, head
        orders[f"the heads {head} and {head + 1} swapped in"] = features[swapped]
    found = {}
    for done, order in orders.items():
        found.setdefault(tuple(np.ravel(order).tolist()), done)
    found.pop(tuple(range(width)), None)
    return {done: np.array(order) for order, done in found.items()}
