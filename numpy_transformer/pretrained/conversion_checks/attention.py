"""Mistakes in the projections of attention: order, heads, scale, and transposed matrices."""

import itertools
import math

import numpy as np

from ...layers.relative_bias import UnscaledAttention
from ...module import Parameter
from .changes import Change, reordered_inputs, reordered_outputs, scaled_output

NAMES = "q", "k", "v"


def changes_of_attention(parts):
    """Yields the changes of q, k, v and the output of attention; those of one stack or one layer alone are rare."""
    if not parts.attentions:
        return
    for where, group in parts.groups:
        where = f" {where}" if where else ""
        for change in itertools.chain(orders(group, where), fused_heads(group, where), strided_heads(group, where),
                                      scales(group, where), transposes(group, where, "")):
            yield Change(change.topic, change.done, change.verdict, change.edits, rare=bool(where))
    if len(parts.stacks) > 1:
        both = [block.attention for stack in parts.stacks for block in stack.blocks]
        yield from transposes(both, " of self-attention in encoder and decoder", "")
    for stack in parts.stacks:
        for number, block in enumerate(stack.blocks):
            yield from transposes([block.attention], "", f" of block {number}", rare=True)


def projections(attention):
    return [attention.query, attention.key, attention.value]


def equal_widths(group):
    return all(len({linear.d_out for linear in projections(attention)}) == 1 for attention in group)


def orders(group, where):
    """q, k and v, or their biases alone, are read in another order."""
    for order in itertools.permutations(range(3)):
        fits = equal_widths(group) or order == (0, 2, 1)        # grouped keys and values have a width of their own
        if order == (0, 1, 2) or not fits:
            continue
        in_file = ", ".join(NAMES[order.index(slot)] for slot in range(3))

        def reordered(attributes, order=order):
            edits = []
            for attention in group:
                linears = projections(attention)
                edits += [(linear, name, getattr(linears[source], name)) for linear, source in zip(linears, order)
                          for name in attributes]
            return edits

        yield Change("order of q, k and v", f"q, k and v{where} read in the order {in_file}",
                     f"the three are stored in the order {in_file}, or were given each other's names",
                     lambda reordered=reordered: reordered(("weight", "bias")))
        if all(linear.bias is not None for attention in group for linear in projections(attention)):
            yield Change("order of the biases of q, k and v",
                         f"the biases of q, k and v{where} read in the order {in_file}",
                         f"these biases alone are in the order {in_file}",
                         lambda reordered=reordered: reordered(("bias",)))


def fused_heads(group, where):
    """A fused matrix of 3 W columns is split into thirds although it is interleaved, or the other way round."""
    if not equal_widths(group):
        return
    width = group[0].query.d_out
    num_heads = group[0].num_heads
    by_head = np.arange(3 * width).reshape(num_heads, 3, -1).swapaxes(0, 1).ravel()
    by_feature = np.arange(3 * width).reshape(width, 3).T.ravel()
    layouts = [("head by head (q, k and v of the first head, then of the second, ...)", by_head)]
    if by_feature.tolist() != by_head.tolist():
        layouts.append(("feature by feature (q, k, v, q, k, v, ...)", by_feature))

    def split_again(order):
        edits = []
        for attention in group:
            linears = projections(attention)
            weight = np.concatenate([linear.weight.data for linear in linears], 1)[:, order]
            edits += [(linear, "weight", Parameter(part)) for linear, part in zip(linears, np.split(weight, 3, 1))]
            if all(linear.bias is not None for linear in linears):
                bias = np.concatenate([linear.bias.data for linear in linears])[order]
                edits += [(linear, "bias", Parameter(part)) for linear, part in zip(linears, np.split(bias, 3))]
        return edits

    for layout, order in layouts:
        yield Change("splitting of the fused q, k and v", f"the fused q, k, v{where} split {layout}",
                     "q, k and v are interleaved in the file, not one after another",
                     lambda order=order: split_again(order))
        yield Change("splitting of the fused q, k and v", f"the fused q, k, v{where} put together {layout}, and split "
                     "into thirds", "q, k and v are one after another in the file, not interleaved",
                     lambda order=order: split_again(np.argsort(order)))


def strided_heads(group, where):
    """The features of a head lie side by side, or strided: feature i of head h in column i H + h."""
    first = group[0]
    if first.num_heads == 1 or first.query.d_out == first.num_heads:
        return
    verdict = "the features of each head are not where the model looks for them"
    for inverse in (False, True):
        def order(width, heads, inverse=inverse):
            strided = np.arange(width).reshape(-1, heads).T.ravel()
            return np.argsort(strided) if inverse else strided

        def inputs(attention, order=order):
            heads = attention.num_heads, attention.num_kv_heads, attention.num_kv_heads
            return [edit for linear, number in zip(projections(attention), heads)
                    for edit in reordered_outputs(linear, order(linear.d_out, number))]

        def outputs(attention, order=order):
            return reordered_inputs(attention.output, order(attention.output.d_in, attention.num_heads))

        kind = ("all features of a head side by side" if inverse else
                "first feature 0 of every head, then feature 1 of every head, and so on")
        for which, functions in (("q, k, v and of the output matrix's rows", (inputs, outputs)),
                                 ("q, k and v", (inputs,)), ("the output matrix's rows", (outputs,))):
            yield Change("heads interleaved", f"the order of {which}{where} changed to {kind}", verdict,
                         lambda functions=functions: [edit for attention in group for function in functions
                                                      for edit in function(attention)])


def scales(group, where):
    """1 / sqrt(d) is missing, or there twice, or it is that of d_model."""
    d_head = group[0].query.d_out // group[0].num_heads
    d_model = group[0].query.d_in
    if isinstance(group[0].attention, UnscaledAttention):
        factors = [(1 / math.sqrt(d_head), "divided by sqrt(d)", "this model scales its scores"),
                   (math.sqrt(d_head), "multiplied by sqrt(d)", "a factor of the scores is missing")]
    else:
        factors = [(math.sqrt(d_head), "not divided by sqrt(d)", "this model does not scale its scores"),
                   (1 / math.sqrt(d_head), "divided by sqrt(d) once more", "a division by sqrt(d) is missing")]
    if d_head != d_model:
        factors.append((math.sqrt(d_head / d_model), "multiplied by sqrt(d / d_model)",
                        "the scores are scaled by the width of the model"))
    for factor, done, verdict in factors:
        yield Change("scale of the scores", f"the attention scores{where} {done}", verdict, lambda factor=factor: [
            edit for attention in group for edit in scaled_output(attention.query, factor)])
    if len(group) > 1 and not where:
        yield Change("scale of the scores", "the attention scores divided by the number of their layer",
                     "the scores are scaled by the inverse of the layer's number", lambda: [
                         edit for number, attention in enumerate(group, 1)
                         for edit in scaled_output(attention.query, 1 / number)])


def transposes(group, where, layer, rare=False):
    """A square matrix has the right shape even if it is transposed."""
    kinds = [(name,) for name in ("query", "key", "value", "output")
             if all(getattr(attention, name).d_in == getattr(attention, name).d_out for attention in group)]
    if len(kinds) > 1:
        kinds.append(tuple(name for (name,) in kinds))
    if len(kinds) == 5:
        kinds += [("query", "key", "value"), ("query", "key")]
    for kind in kinds:
        names = list(kind)
        text = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        noun = "matrix" if len(names) == 1 else "matrices"
        verdict = "this matrix is stored as" if len(names) == 1 else "these matrices are stored as"
        yield Change("square matrix transposed", f"the {text} {noun}{where}{layer} transposed",
                     f"{verdict} (out, in) where (in, out) is wanted, or the reverse",
                     edits=lambda names=names: [(linear, "weight", Parameter(linear.weight.data.T))
                                          for attention in group for name in names
                                          for linear in [getattr(attention, name)]], rare=rare)
