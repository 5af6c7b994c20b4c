"""Checks that attention, heads and rotary positions agree with reference loops over queries and keys."""

import cmath
import math

import numpy as np

from ..layers import (ALiBi, CrossAttention, FlashAttention, MultiHeadAttention, NormedLinear, PositionBias,
                      RelativePositionBias, RescaledAttention, RotaryEmbedding, ScaledDotProductAttention, SelfAttention,
                      SinkSoftmax, SinkWindow, SlidingWindow, SymmetricWindow, UnscaledAttention)
from .reference_layers import affine, for_each_row, normalized_row, reference, softmax_row


def visible_keys(mask, shape, causal=False):
    """Returns booleans of this shape (B, H, T, S): whether a query may attend to a key."""
    T, S = shape[-2:]
    visible = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    return visible & np.tri(T, S, S - T, dtype=bool) if causal else visible


def scores_of(module, q, k):
    """One head: q (T, d), k (S, d) -> (T, S), before the score changes of an attention."""
    scale = 1 if isinstance(module, UnscaledAttention) else 1 / math.sqrt(q.shape[-1])
    if isinstance(module, RescaledAttention):
        scale = module.scale
    return np.array([[math.fsum(float(a) * float(b) for a, b in zip(query, key)) * scale for key in k] for query in q])


def attend(module, q, k, v, visible):
    """One text: q (H, T, d), k (G, S, d), v (G, S, e), visible (H, T, S) -> (H, T, e), NaN for a fully masked query.

    The components that change the scores have references of their own, and are used as they are.
    """
    H, T, _ = q.shape
    group = H // len(k)
    scores = np.stack([scores_of(module, q[h], k[h // group]) for h in range(H)])
    for change in getattr(module, "score_changes", []):
        scores = change(scores)
    y = np.full((H, T, v.shape[-1]), np.nan)
    for h, t in np.ndindex(H, T):
        keys = [s for s in range(k.shape[1]) if visible[h, t, s]]
        if keys:
            seen = [float(scores[h, t, s]) for s in keys]
            if isinstance(getattr(module, "softmax", None), SinkSoftmax):
                seen.append(float(module.softmax.sinks.data[h]))        # its weight comes last, and has no value
            weights = softmax_row(seen)
            y[h, t] = sum(weight * v[h // group, s].astype(np.float64) for weight, s in zip(weights, keys))
    return y


@reference("attention", ScaledDotProductAttention, FlashAttention, large=True)
def attention(module, q, k, v, mask=None):
    B, H, T, _ = q.shape
    visible = visible_keys(mask, (B, H, T, k.shape[2]), getattr(module, "causal", False))
    return np.stack([attend(module, q[b], k[b], v[b], visible=visible[b]) for b in range(B)])


@reference("position bias", PositionBias)
def position_bias(module, scores):
    formula = alibi if isinstance(module.position_bias, ALiBi) else relative_position_bias
    b = formula(module.position_bias, *scores.shape[-2:])
    y = np.empty(scores.shape)
    for index in np.ndindex(y.shape):
        y[index] = float(scores[index]) + b[index[-3:]]
    return y


@reference("sliding window", SlidingWindow)
def sliding_window(module, scores):
    T, S = scores.shape[-2:]
    y = np.full(scores.shape, -np.inf)
    for *heads, t, s in np.ndindex(y.shape):
        distance = S - T + t - s                            # the queries are the last T tokens
        if isinstance(module, SymmetricWindow):
            distance = abs(distance)
        kept = isinstance(module, SinkWindow) and s < module.num_sinks
        if distance < module.window or kept:
            y[tuple([*heads, t, s])] = scores[tuple([*heads, t, s])]
    return y


def bucket_of(module, distance):
    """Returns the bucket of the distance from a query to a key, found in whole numbers, without logarithms.

    The buckets of the longer distances begin at near (max_distance / near)^(j / n), j = 0 to n - 1.
    """
    count = module.num_buckets if module.causal else module.num_buckets // 2
    near = count // 2
    n = count - near
    length = max(-distance, 0) if module.causal else abs(distance)
    bucket = length
    if length >= near:
        begun = [j for j in range(n) if length ** n * near ** j >= module.max_distance ** j * near ** n]
        bucket = near + begun[-1]
    return bucket if module.causal or distance <= 0 else count + bucket


@reference("relative positions", RelativePositionBias)
def relative_position_bias(module, T, S):
    y = np.empty((module.num_heads, T, S))
    for h, t, s in np.ndindex(y.shape):
        y[h, t, s] = module.weight.data[bucket_of(module, s - (S - T + t)), h]      # the queries are the last T tokens
    return y


def slopes(num_heads):
    """Returns the slopes of ALiBi's heads as the published code finds them: powers of the first one."""
    power = 1 << num_heads.bit_length() - 1                 # the largest power of two that is not above
    first = 2 ** -(2 ** -(math.log2(power) - 3))
    own = [first ** (h + 1) for h in range(power)]
    return own if num_heads == power else own + slopes(2 * power)[::2][:num_heads - power]


@reference("ALiBi", ALiBi)
def alibi(module, T, S, positions=None):
    positions = np.broadcast_to(np.arange(S) if positions is None else positions, (*np.shape(positions)[:-1], S))
    y = np.empty((*positions.shape[:-1], module.num_heads, T, S))
    for *b, h, t, s in np.ndindex(y.shape):
        query, key = (int(positions[tuple([*b, n])]) for n in (S - T + t, s))
        y[tuple([*b, h, t, s])] = -slopes(module.num_heads)[h] * max(query - key, key - query)
    return y


def pairs(module):
    """Returns the indices of the two features of each pair that a RotaryEmbedding rotates."""
    half = module.d_head // 2
    return [(2 * i, 2 * i + 1) if module.interleaved else (i, i + half) for i in range(half)]


def frequency(module, i):
    """Returns θ_i, the angle between two positions by which a RotaryEmbedding rotates the pair i."""
    return module.frequencies[i] if module.base is None else module.base ** (-2 * i / module.d_head)


def rotated(module, x):
    """Returns x (T, d) with each pair i, as a complex number, multiplied by exp(j t θ_i)."""
    y = np.empty(x.shape)
    for i, (first, second) in enumerate(pairs(module)):
        for t in range(len(x)):
            number = complex(x[t, first], x[t, second]) * cmath.exp(1j * t * frequency(module, i))
            y[t, first] = number.real
            y[t, second] = number.imag
    return y


def projected(linear, x, d):
    """Returns what a Linear makes of x (T, d_model), with a norm of each head of width d if it has one."""
    if not isinstance(linear, NormedLinear):
        return affine(linear, x)
    norm = linear.norm.norm
    y = affine(linear.linear, x)
    heads = [for_each_row(lambda row: normalized_row(row, norm.eps, False), y[:, start:start + d]) * norm.gamma.data
             for start in range(0, y.shape[1], d)]
    return np.concatenate(heads, -1)


def heads_of_one_sequence(module, query, key, value, visible):
    """Computes head by head, each with its own columns of the matrices, without splitting or merging an array."""
    H = module.num_heads
    d = module.query.d_out // H
    q, k, v = projected(module.query, query, d), projected(module.key, key, d), affine(module.value, value)
    q, k, v = ([x[:, start:start + d] for start in range(0, x.shape[1], d)] for x in (q, k, v))
    if module.rotary is not None:
        q, k = ([rotated(module.rotary, x) for x in heads] for heads in (q, k))
    heads = attend(module.attention, np.stack(q), np.stack(k), np.stack(v), visible=visible)
    return np.concatenate(list(heads), -1)


@reference("multi-head", MultiHeadAttention)
def multi_head(module, *inputs):
    if isinstance(module, SelfAttention):
        inputs = (inputs[0], *inputs)
    if isinstance(module, (SelfAttention, CrossAttention)):
        inputs = (inputs[0], inputs[1], *inputs[1:])
    query, key, value = (x.astype(np.float64) for x in inputs[:3])
    B, T, S = len(query), query.shape[1], key.shape[1]
    visible = visible_keys(inputs[3] if len(inputs) > 3 else None, (B, module.num_heads, T, S))
    heads = [heads_of_one_sequence(module, query[b], key[b], value[b], visible=visible[b]) for b in range(B)]
    return affine(module.output, np.stack(heads))


@reference("rotary", RotaryEmbedding)
def rotary(module, x, offset=0):
    y = np.empty(x.shape)
    for i, (first, second) in enumerate(pairs(module)):
        for t in range(x.shape[-2]):
            angle = (offset + t) * frequency(module, i)
            a = x[..., t, first]
            b = x[..., t, second]
            y[..., t, first] = a * math.cos(angle) - b * math.sin(angle)
            y[..., t, second] = a * math.sin(angle) + b * math.cos(angle)
    return y
