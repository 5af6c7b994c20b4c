"""Formulas of attention: the mask, the two products of plain attention, and FlashAttention, which is one component.

With fewer key heads than query heads (grouped queries), n neighboring query heads share one key head: query head h
reads key head h // n, and key head g collects the gradients of the query heads g n to g n + n - 1.
"""

import math

import numpy as np

from ...layers import (ALiBi, AttentionMask, BlockSparseAttention, FlashAttention, LinearAttention, RecurrentLinearAttention,
                       RelativePositionBias, SlidingWindow)
from .normalization import LARGE
from .writers import lines, spells


@spells(AttentionMask, "mask")
def attention_mask(op):
    if not op.has("mask"):
        yield "y[...] = scores[...]"
        yield "dscores[...] = dy[...]"
        return
    yield "y[..., t, j] = scores[..., t, j] if mask[..., t, j] else -inf"
    yield "dscores[..., t, j] = dy[..., t, j] if mask[..., t, j] else 0"


class Heads:
    """The indices of query heads and key heads, and the sums over all query heads of a key head.

    Attributes:
        q, k : beginning of an index of an array with query heads, or with key heads, where h is the query head
        collected : beginning of an index of an array with key heads, where g is the key head
        sender : beginning of an index of an array with query heads, of the query heads of key head g
        group : the range of the sum over those heads, or ""
    """

    def __init__(self, op, query="q", key="k"):
        self.q = self.k = self.collected = self.sender = "..."
        self.group = ""
        if op.shape(query)[:-2] != op.shape(key)[:-2]:
            op.name(n=op.shape(query)[-3] // op.shape(key)[-3])
            self.q = "..., h"
            self.k = "..., h // n"
            self.collected = "..., g"
            self.sender = "..., g * n + r"
            self.group = "r < n, "


@spells("scores")
def scores(op):
    heads = Heads(op)
    scale = scale_of(op)
    visible = f"mask[{heads.q}, t, j]" if op.has("mask") else ""
    product = f"sum(c, q[{heads.q}, t, c] * k[{heads.k}, j, c]){scale}"
    yield f"y[{heads.q}, t, j] = {product}" + (f" if {visible} else -inf" if visible else "")
    visible = f", where={visible}" if visible else ""
    yield f"dq[{heads.q}, t, c] = sum(j, dy[{heads.q}, t, j] * k[{heads.k}, j, c]{visible}){scale}"
    if visible:
        visible = f", where=mask[{heads.sender}, t, j]"
    yield (f"dk[{heads.collected}, j, c] = "
           f"sum({heads.group}t, dy[{heads.sender}, t, j] * q[{heads.sender}, t, c]{visible}){scale}")


def scale_of(op):
    """Returns the text of the factor 1 / sqrt(d), or of another one that the call or the component has."""
    d = op.shape("q")[-1]
    scale = op.numbers.get("scale", getattr(op.module, "scale", 1 / math.sqrt(d)))
    if scale == 1:
        return ""
    if math.isclose(scale, 1 / math.sqrt(d)):
        op.name(d=d)
        return " / sqrt(d)"
    op.name(scale=scale)
    return " * scale"


@spells(RelativePositionBias)
def relative_position_bias(op):
    """Distances below `near` have a bucket each; the buckets of the longer ones grow with the distance."""
    module = op.module
    op.name(near=module.near, longest=module.max_distance, last=module.count - 1, count=module.count,
            far_buckets=module.count - module.near, before=op.numbers["S"] - op.numbers["T"])
    distance = "t + before - j"                             # from the key to the query
    length = f"{distance} if j <= t + before else 0" if module.causal else f"abs({distance})"
    ahead = "" if module.causal else " + (count if j > t + before else 0)"
    buckets = f"""
        n[t, j] = {length}
        far[t, j] = near + far_buckets * log(n[t, j] / near) / log(longest / near) // 1
        own[t, j] = n[t, j] if n[t, j] < near else (far[t, j] if far[t, j] < last else last)
        bucket[t, j] = own[t, j]{ahead}
    """
    yield lines(buckets, "y[h, t, j] = weight[bucket[t, j], h]")
    yield lines(buckets, "dweight[i, h] = sum(t, j, dy[h, t, j], where=bucket[t, j] == i)")


@spells(ALiBi)
def alibi(op):
    """Each head has a slope of its own; without positions, query t stands at t + before."""
    slopes = [f"slope_{head}" for head in range(op.module.num_heads)]
    op.name(before=op.numbers["S"] - op.numbers["T"], **dict(zip(slopes, op.module.slopes.tolist())))
    slope = "".join(f"{name} if h == {head} else " for head, name in enumerate(slopes[:-1])) + slopes[-1]
    distance, rows = "t + before - j", ""
    if op.has("positions"):
        rows = "b, " if op.arrays["positions"].ndim > 1 else ""
        distance = f"positions[{rows}t + before] - positions[{rows}j]"
    yield f"y[{rows}h, t, j] = -({slope}) * abs({distance})"


@spells(SlidingWindow)
def sliding_window(op):
    """The queries are the last tokens: query t is token t + before."""
    T, S = op.shape("scores")[-2:]
    op.name(before=S - T, window=op.module.window)
    near = "t + before - j < window"
    yield f"y[..., t, j] = scores[..., t, j] if {near} else -inf"
    yield f"dscores[..., t, j] = dy[..., t, j] if {near} else 0"


@spells("weighted sum")
def weighted_sum(op):
    heads = Heads(op, "p", "v")
    yield f"y[{heads.q}, t, e] = sum(j, p[{heads.q}, t, j] * v[{heads.k}, j, e])"
    yield f"dp[{heads.q}, t, j] = sum(e, dy[{heads.q}, t, e] * v[{heads.k}, j, e])"
    yield f"dv[{heads.collected}, j, e] = sum({heads.group}t, p[{heads.sender}, t, j] * dy[{heads.sender}, t, e])"


@spells(FlashAttention)
def flash_attention(op):
    """The formulas of plain attention in one piece: the blocks only change the order of the computation."""
    heads = Heads(op)
    conditions = visible_to_query(op, heads)
    if op.module.causal:
        conditions.append("j <= t + ahead" if op.numbers["ahead"] else "j <= t")
    yield from attention_in_one_piece(op, heads, conditions)


@spells(BlockSparseAttention)
def block_sparse_attention(op):
    """Plain attention in one piece, with the condition that the layout names the block of the key for that of the query."""
    heads = Heads(op)
    n = op.module.block_size
    op.name(size=n)
    conditions = [*visible_to_query(op, heads), "seen[t, j] > 0"]
    seen = "0"
    for i, j in zip(*np.nonzero(op.module.seen_blocks(-(-op.shape("k")[-2] // n)))):
        seen = f"(1 if (t + ahead) // size == {i} and j // size == {j} else {seen})"
    yield from attention_in_one_piece(op, heads, conditions, f"seen[t, j] = {seen}")


def visible_to_query(op, heads):
    """Returns the conditions for key j to be visible to query t, which the mask gives; and names the keys before query 0."""
    op.name(ahead=op.shape("k")[-2] - op.shape("q")[-2])
    return [f"mask[{heads.q}, t, j]"] if op.has("mask") and not getattr(op.module, "mask_off", False) else []


def attention_in_one_piece(op, heads, conditions, before=""):
    """Yields the formulas of attention from q, k, v to y and of its gradients, with these conditions for a key to be visible."""
    q, k, sender = heads.q, heads.k, heads.sender
    scale = scale_of(op)
    masked = f" if {' and '.join(conditions)} else -inf" if conditions else ""
    top = f"top[{q}, t] = max(j, s[{q}, t, j])" if largest_score(op) > LARGE else ""
    minus_top = f" - top[{q}, t]" if top else ""
    no_keys = f" if total[{q}, t] > 0 else 0" if conditions else ""
    if top and conditions:
        no_keys = f" if top[{q}, t] > -inf else 0"
    weights = lines(
        before, f"s[{q}, t, j] = sum(c, q[{q}, t, c] * k[{k}, j, c]){scale}{masked}", top,
        f"total[{q}, t] = sum(j, exp(s[{q}, t, j]{minus_top}))",
        f"p[{q}, t, j] = exp(s[{q}, t, j]{minus_top}) / total[{q}, t]{no_keys}")
    dscores = lines(
        weights, f"dp[{q}, t, j] = sum(e, dy[{q}, t, e] * v[{k}, j, e])",
        f"dot[{q}, t] = sum(e, dy[{q}, t, e] * y[{q}, t, e])",
        f"ds[{q}, t, j] = p[{q}, t, j] * (dp[{q}, t, j] - dot[{q}, t])")
    yield lines(weights, f"y[{q}, t, e] = sum(j, p[{q}, t, j] * v[{k}, j, e])")
    yield lines(dscores, f"dq[{q}, t, c] = sum(j, ds[{q}, t, j] * k[{k}, j, c]){scale}")
    yield lines(dscores, f"dk[{heads.collected}, j, c] = "
                         f"sum({heads.group}t, ds[{sender}, t, j] * q[{sender}, t, c]){scale}")
    yield lines(weights, f"dv[{heads.collected}, j, e] = "
                         f"sum({heads.group}t, p[{sender}, t, j] * dy[{sender}, t, e])")


@spells(LinearAttention, RecurrentLinearAttention)
def linear_attention(op):
    """Both forms in one piece: the running state only changes the order of the sums."""
    heads = Heads(op)
    q, k, sender = heads.q, heads.k, heads.sender
    conditions = visible_to_query(op, heads)
    if isinstance(op.module, RecurrentLinearAttention):
        conditions.append("j <= t + ahead")
    masked = f" if {' and '.join(conditions)} else 0" if conditions else ""
    weights = lines(
        f"fq[{q}, t, c] = q[{q}, t, c] + 1 if q[{q}, t, c] > 0 else exp(q[{q}, t, c])",
        f"fk[{heads.collected}, j, c] = k[{heads.collected}, j, c] + 1 if k[{heads.collected}, j, c] > 0 "
        f"else exp(k[{heads.collected}, j, c])",
        f"a[{q}, t, j] = sum(c, fq[{q}, t, c] * fk[{k}, j, c]){masked}",
        f"total[{q}, t] = sum(j, a[{q}, t, j])",
        f"p[{q}, t, j] = a[{q}, t, j] / total[{q}, t]" + (f" if total[{q}, t] > 0 else 0" if conditions else ""))
    da = lines(
        weights, f"dp[{q}, t, j] = sum(e, dy[{q}, t, e] * v[{k}, j, e])",
        f"dot[{q}, t] = sum(e, dy[{q}, t, e] * y[{q}, t, e])",
        f"da[{q}, t, j] = (dp[{q}, t, j] - dot[{q}, t]) / total[{q}, t]{masked}")
    yield lines(weights, f"y[{q}, t, e] = sum(j, p[{q}, t, j] * v[{k}, j, e])")
    yield lines(da, f"slope[{q}, t, c] = 1 if q[{q}, t, c] > 0 else fq[{q}, t, c]",
                f"dq[{q}, t, c] = slope[{q}, t, c] * sum(j, da[{q}, t, j] * fk[{k}, j, c])")
    yield lines(da, f"slope[{heads.collected}, j, c] = 1 if k[{heads.collected}, j, c] > 0 else fk[{heads.collected}, j, c]",
                f"dk[{heads.collected}, j, c] = slope[{heads.collected}, j, c] * "
                f"sum({heads.group}t, da[{sender}, t, j] * fq[{sender}, t, c])")
    yield lines(weights, f"dv[{heads.collected}, j, e] = sum({heads.group}t, p[{sender}, t, j] * dy[{sender}, t, e])")


def largest_score(op):
    """Returns a bound of all scores, scaled or not: no product is larger than the product of the lengths."""
    return math.prod(np.linalg.norm(op.arrays[name], axis=-1).max() for name in "qk")
