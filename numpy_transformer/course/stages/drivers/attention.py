"""Stages 5 to 7."""

import math

import numpy as np

from ..program.stage05_attention import Attention
from ..program.stage06_heads import MultiHeadAttention
from ..program.stage07_block import Block
from .filling import filled, gradients


def attention(q, k, v):
    layer = Attention()
    y = layer.forward(q, k, v)
    return y, layer.weights


def masked_softmax(scores, mask):
    layer, S = Attention(), scores.shape[-1]
    identity = np.broadcast_to(np.eye(S, dtype=scores.dtype), (*scores.shape[:-2], S, S)).copy()
    return layer.forward(scores * math.sqrt(S), identity, identity, mask)


def attention_backward(q, k, v, p, m, dy):
    layer = Attention()
    layer.forward(q, k, v, p > 0)
    dq, dk, dv = layer.backward(dy)
    return dq, dk, dv


def attention_twice(q, k, v, mask, dy, q2, k2, v2, mask2, dy2):
    layer = Attention()
    y, second = layer.forward(q, k, v, mask), layer.forward(q2, k2, v2, mask2)
    dq2, dk2, dv2 = layer.backward(dy2)
    dq, dk, dv = layer.backward(dy)
    return y, second, dq2, dk2, dv2, dq, dk, dv


def self_attention(num_heads, query, key, value, output):
    """Returns an object whose forward takes x and a mask: memory is x."""
    arrays = {f"{name}.{part}": array for name, pair in zip(("query", "key", "value", "output"), (query, key, value, output))
              for part, array in zip(("weight", "bias"), pair)}
    layer = filled(MultiHeadAttention(len(query[0]), num_heads, np.random.default_rng(0)), arrays)
    layer.both = layer.forward, layer.backward
    layer.forward = lambda x, mask: layer.both[0](x, x, mask)

    def backward(dy):
        dx, dmemory = layer.both[1](dy)
        return dx + dmemory

    layer.backward = backward
    return layer


def cross_attention_backward(x, memory, w_q, w_k, w_v, p, dy, dlater):
    D = len(w_q)
    zeros = {f"{name}.bias": np.zeros(D, x.dtype) for name in ("query", "key", "value", "output")}
    layer = filled(MultiHeadAttention(D, 1, np.random.default_rng(0)), {
        "query.weight": w_q, "key.weight": w_k, "value.weight": w_v, "output.weight": np.eye(D, dtype=x.dtype), **zeros})
    layer.forward(x, memory)
    dx, dmemory = layer.backward(dy)
    return dx, dlater + dmemory


def padded_attention(x, memory, mask, dy, num_heads, arrays):
    layer = filled(MultiHeadAttention(x.shape[-1], num_heads, np.random.default_rng(0)), arrays)
    y = layer.forward(x, memory, mask)
    dx, dmemory = layer.backward(dy)
    layer.forward(x, x)
    return y, dx, dmemory, *layer.backward(dy), gradients(layer, arrays)


def block(x, mask, dy, more, dmore, num_heads, arrays):
    layer = Block(x.shape[-1], num_heads, len(arrays["feed_forward.down.weight"]), np.random.default_rng(0))
    layer = filled(layer, arrays)
    y = layer.forward(x, mask)
    second = layer.forward(more)
    dsecond = layer.backward(dmore)
    dx = layer.backward(dy)
    return y, second, dsecond, dx, gradients(layer, arrays)
