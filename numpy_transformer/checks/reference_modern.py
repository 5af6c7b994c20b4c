"""Checks that the parts of current models agree with plain loops that follow the formulas of the papers."""

import math

import numpy as np

from ..layers import (AbsorbedLatentAttention, BalancedRouter, Bias, BlockSparseAttention, ClampedSwiGLU, ClassToken,
                      GatedSelfAttention, LatentAttention, LinearAttention, MixtureOfExperts, NormedLinear, PartialRotary,
                      Patches, PerHead, RecurrentLinearAttention, Router, ScaledRotary, SeparateSinusoids, ShiftedPositions,
                      Sigmoid, SigmoidRouter, SinkSoftmax, SoftCap, SoftmaxRouter, UnitOffsetRMSNorm, ZLoss)
from .check import check, expect_close, prepared
from .reference_attention import attend, heads_of_one_sequence, rotated, visible_keys
from .reference_layers import affine, cross_entropy, for_each_entry, for_each_row, normalized_row, reference, softmax_row


@reference("soft cap", SoftCap, large=True)
def soft_cap(module, x):
    return for_each_entry(lambda value: module.cap * math.tanh(value / module.cap), x)


@reference("sigmoid", Sigmoid, large=True)
def sigmoid(module, x):
    return for_each_entry(lambda value: 1 / (1 + math.exp(-value)) if value > -700 else 0.0, x)


@reference("z-loss", ZLoss, large=True)
def z_loss(module, logits, targets):
    logs = []
    for position, target in np.ndenumerate(targets):
        if target != module.criterion.ignore_id:
            row = [float(z) for z in logits[position]]
            logs.append(max(row) + math.log(math.fsum(math.exp(z - max(row)) for z in row)))
    return cross_entropy(module.criterion, logits, targets) + module.coefficient * math.fsum(z * z for z in logs) / len(logs)


@reference("softmax with a sink", SinkSoftmax, large=True)
def softmax_with_sink(module, x):
    y = np.empty(x.shape)
    for *batch, h, t in np.ndindex(x.shape[:-1]):
        row = [float(value) for value in x[tuple([*batch, h, t])]]
        y[tuple([*batch, h, t])] = softmax_row([*row, float(module.sinks.data[h])])[:-1]
    return y


@reference("gated attention", GatedSelfAttention)
def gated_attention(module, x, mask=None):
    """Entry by entry: each feature of each head is multiplied by its gate."""
    visible = visible_keys(mask, (len(x), module.attention.num_heads, x.shape[1], x.shape[1]))
    h = np.stack([heads_of_one_sequence(module.attention, one, one, one, visible=seen) for one, seen in zip(x, visible)])
    z = affine(module.gate, x)
    for index in np.ndindex(h.shape):
        h[index] *= 1 / (1 + math.exp(-z[index]))
    return affine(module.output, h)
@reference("block-sparse attention", BlockSparseAttention)
def block_sparse_attention(module, q, k, v, mask=None):
    """Attention with a mask that is the layout, token by token."""
    (B, H, T, _), S = q.shape, k.shape[2]
    visible = visible_keys(mask, (B, H, T, S)).copy()
    for t, s in np.ndindex(T, S):
        i, j = (S - T + t) // module.block_size, s // module.block_size
        visible[:, :, t, s] &= bool(module.layout(i, j) if callable(module.layout) else module.layout[i, j])
    return np.stack([attend(module, q[b], k[b], v[b], visible=visible[b]) for b in range(B)])


def elu_plus_one(value):
    return value + 1 if value > 0 else math.exp(value)


@reference("linear attention", LinearAttention, RecurrentLinearAttention)
def linear_attention(module, q, k, v, mask=None):
    """A weighted mean for each query, with the products of features as weights; NaN for a fully masked query."""
    (B, H, T, _), S = q.shape, k.shape[2]
    visible = visible_keys(mask, (B, H, T, S), getattr(module, "causal", False))
    q, k = (for_each_entry(elu_plus_one, x.astype(np.float64)) for x in (q, k))
    y = np.full((B, H, T, v.shape[-1]), np.nan)
    for b, h, t in np.ndindex(B, H, T):
        g = h // (H // k.shape[1])
        keys = [s for s in range(S) if visible[b, h, t, s]]
        similar = [math.fsum(q[b, h, t] * k[b, g, s]) for s in keys]
        if keys:
            y[b, h, t] = sum(a * v[b, g, s].astype(np.float64) for a, s in zip(similar, keys)) / math.fsum(similar)
    return y


@reference("RMSNorm with 1 + weight", UnitOffsetRMSNorm)
def unit_offset_norm(module, x):
    return for_each_row(lambda row: normalized_row(row, module.eps, False), x) * (1 + module.gamma.data)


@reference("norm of a linear map", NormedLinear)
def normed_linear(module, x):
    y = affine(module.linear, x)
    return for_each_row(lambda row: normalized_row(row, module.norm.eps, False), y) * module.norm.gamma.data


@reference("norm of each head", PerHead)
def per_head(module, x):
    d = module.norm.d_model
    y = np.empty(x.shape)
    for start in range(0, x.shape[-1], d):
        head = x[..., start:start + d]
        y[..., start:start + d] = for_each_row(lambda row: normalized_row(row, module.norm.eps, False), head)
    return y * np.tile(module.norm.gamma.data, x.shape[-1] // d)


@reference("partial rotary", PartialRotary)
def partial_rotary(module, x):
    n = module.rotary.d_head
    y = x.copy()
    for index in np.ndindex(x.shape[:-2]):
        y[index][:, :n] = rotated(module.rotary, x[index][:, :n])
    return y


@reference("scaled rotary", ScaledRotary)
def scaled_rotary(module, x):
    y = np.empty(x.shape)
    for index in np.ndindex(x.shape[:-2]):
        y[index] = module.factor * rotated(module.rotary, x[index])
    return y


def largest(values, k):
    """Returns the indices of the k largest values, of equal ones the first."""
    return sorted(range(len(values)), key=lambda i: (-values[i], i))[:k]


def gates(module, logits):
    """Returns the gates of one token as a list, from its logits."""
    if isinstance(module, SigmoidRouter):
        s = [1 / (1 + math.exp(-z)) for z in logits]
        corrected = [a + float(c) for a, c in zip(s, module.correction.data)]
        size = len(s) // module.num_groups
        groups = [corrected[start:start + size] for start in range(0, len(s), size)]
        best = largest([sum(sorted(group)[-2:]) for group in groups], module.top_groups)
        allowed = [e for e in range(len(s)) if e // size in best]
        chosen = [allowed[i] for i in largest([corrected[e] for e in allowed], module.top_k)]
        total = math.fsum(s[e] for e in chosen)
        return [module.factor * s[e] / total if e in chosen else 0.0 for e in range(len(s))]
    chosen = largest(logits, module.top_k)
    if isinstance(module, SoftmaxRouter):
        return [p if e in chosen else 0.0 for e, p in enumerate(softmax_row(logits))]
    weights = dict(zip(chosen, softmax_row([logits[e] for e in chosen])))
    return [weights.get(e, 0.0) for e in range(len(logits))]


@reference("router", Router, BalancedRouter)
def router(module, x):
    plain = getattr(module, "router", module)
    return for_each_row(lambda row: gates(plain, row), affine(plain.linear, x))


@check("balancing loss reference", BalancedRouter)
def balancing_loss(module, x):
    """coefficient E sum_e f_e P_e, where f counts the gates that are not 0."""
    module, (x,) = prepared(module, (x,))
    g = router(module, x)
    probabilities = [softmax_row([float(value) for value in row]) for row in affine(module.router.linear, x)]
    E, total = module.num_experts, np.count_nonzero(g)
    products = [np.count_nonzero(g[:, e]) / total * math.fsum(p[e] for p in probabilities) / len(x) for e in range(E)]
    module(x)
    expect_close("auxiliary_loss", module.auxiliary_loss, module.coefficient * E * math.fsum(products))


@reference("mixture of experts", MixtureOfExperts)
def mixture_of_experts(module, x):
    """Every expert is computed for every token; most of its outputs are multiplied by 0."""
    g = router(module.router, x)
    y = sum(g[..., e, None] * expert(x) for e, expert in enumerate(module.experts))
    return y if module.shared is None else y + module.shared(x)


@reference("clamped gate", ClampedSwiGLU)
def clamped_swiglu(module, x):
    z, u = affine(module.gate, x), affine(module.up, x)
    h = np.empty(z.shape)
    for index in np.ndindex(z.shape):
        a = min(float(z[index]), module.limit)
        b = max(-module.limit, min(float(u[index]), module.limit))
        h[index] = (b + 1) * a / (1 + math.exp(-1.702 * a))
    return affine(module.down, h)


def rows_of(norm, x):
    return for_each_row(lambda row: normalized_row(row, norm.eps, False), x) * norm.gamma.data


@reference("latent attention", LatentAttention, AbsorbedLatentAttention)
def latent_attention(module, x, mask=None):
    """Head by head, with the keys and values of each written out."""
    H, n = module.num_heads, module.d_head
    q = affine(module.query, x)
    c = rows_of(module.norm, affine(module.down, x))
    kv = affine(module.up, c)
    shared = affine(module.rotary_key, x)
    width, e = q.shape[-1] // H, kv.shape[-1] // H - n
    visible = visible_keys(mask, (len(x), H, x.shape[1], x.shape[1]))
    heads = np.full((*x.shape[:2], H * e), np.nan)
    for b, h in np.ndindex(len(x), H):
        q_h = q[b, :, h * width:(h + 1) * width]
        k_h, v_h = kv[b, :, h * (n + e):h * (n + e) + n], kv[b, :, h * (n + e) + n:(h + 1) * (n + e)]
        q_h = np.concatenate([q_h[:, :n], rotated(module.rotary, q_h[:, n:])], -1)
        k_h = np.concatenate([k_h, rotated(module.rotary, shared[b])], -1)
        for t in range(x.shape[1]):
            keys = np.flatnonzero(visible[b, h, t])
            scores = [math.fsum(q_h[t] * k_h[s]) / math.sqrt(width) for s in keys]
            heads[b, t, h * e:(h + 1) * e] = sum(p * v_h[s] for p, s in zip(softmax_row(scores), keys))
    return affine(module.output, heads)


@reference("bias", Bias)
def bias(module, x):
    return np.stack([x[..., i].astype(np.float64) + float(value) for i, value in enumerate(module.bias.data)], -1)


@reference("positions from 2 on", ShiftedPositions)
def shifted_positions(module, x):
    return np.stack([x[..., t, :] + module.positions.weight.data[2 + t] for t in range(x.shape[-2])], -2)


@reference("sines and cosines apart", SeparateSinusoids)
def separate_sinusoids(module, x):
    y = x.astype(np.float64)
    D = x.shape[-1]
    for t in range(x.shape[-2]):
        for i in range(D // 2):
            angle = t / 10000 ** (2 * i / D)
            y[..., t, i] += math.sin(angle)
            y[..., t, D // 2 + i] += math.cos(angle)
    return y


@reference("patches", Patches)
def patches(module, x):
    p, q = module.patch
    found = []
    for top in range(0, x.shape[-2], p):
        for left in range(0, x.shape[-1], q):
            found.append(np.stack([x[..., c, top + i, left + j] for c in range(x.shape[-3]) for i in range(p)
                                   for j in range(q)], -1))
    return np.stack(found, -2)


@reference("class token", ClassToken)
def class_token(module, x):
    return np.array([[module.weight.data, *sequence] for sequence in x])
