"""Multi-head attention and its two uses: a sequence attends to itself, or to another sequence."""

import numpy as np

from ..argument_checks import check_divides, check_positive
from ..module import Module
from .attention import ScaledDotProductAttention
from .linear import Linear


def split_heads(x, num_heads):
    """(..., T, H d) -> (..., H, T, d), a view: head h holds the features from h d to (h + 1) d."""
    return x.reshape(*x.shape[:-1], num_heads, -1).swapaxes(-2, -3)


def merge_heads(x):
    """(..., H, T, d) -> (..., T, H d), the inverse of split_heads."""
    x = x.swapaxes(-2, -3)
    return x.reshape(*x.shape[:-2], -1)


def width_of_head(d_model, num_heads, d_head=None):
    """Returns d_head, or d_model / num_heads if it is None.

    Raises: ValueError unless the result is a positive integer.
    """
    if d_head is None:
        check_divides("d_model", d_model, "num_heads", num_heads)
        return d_model // num_heads
    check_positive(d_head=d_head)
    return d_head


class MultiHeadAttention(Module):
    """y = concat(head_1, ..., head_H) W_O,   head_h = Attention(query W_Q^h, key W_K^h, value W_V^h).

    Parameters:
        d_model : int
        num_heads : int, divides d_model; each head has d = d_model / num_heads features, unless d_head is given
        num_kv_heads : int or None (num_heads); fewer let groups of query heads share keys and values
        dropout : float (0.0), on the attention weights
        bias : bool (True), in the Linears `query`, `key`, `value` and `output`
        rotary : RotaryEmbedding or None; rotates queries and keys
        attention : ScaledDotProductAttention (None: a new one) or FlashAttention
        rng : generator or seed of initial weights and dropout, or None
        d_head : int or None (d_model / num_heads), the width d of a head
        qkv_bias : bool or None (the value of bias), in the Linears `query`, `key` and `value`
    Shape: query (B, T, d_model), key and value (B, S, d_model), mask 2-D or 4-D -> y (B, T, d_model); B may be absent.
        `weights` (B, H, T, S) are those of the latest forward. `positions` (T,) or (B, T) go to the rotary embedding
        where they are not 0 to T - 1. `cache`, a KeyValueCache, holds the keys and values of earlier tokens.
    Backward: each step of forward in reverse; returns dquery, dkey, dvalue
    Raises: ValueError if num_kv_heads does not divide num_heads or, without d_head, num_heads does not divide d_model.
    Source: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(self, d_model, num_heads, num_kv_heads=None, dropout=0.0, bias=True, rotary=None, attention=None,
                 rng=None, d_head=None, qkv_bias=None):
        d_head = width_of_head(d_model, num_heads, d_head)
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_divides("num_heads", num_heads, "num_kv_heads", num_kv_heads)
        qkv_bias = bias if qkv_bias is None else qkv_bias
        rng = np.random.default_rng(rng)
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.query = Linear(d_model, num_heads * d_head, qkv_bias, rng)
        self.key = Linear(d_model, num_kv_heads * d_head, qkv_bias, rng)
        self.value = Linear(d_model, num_kv_heads * d_head, qkv_bias, rng)
        self.rotary = rotary
        self.attention = ScaledDotProductAttention(dropout, rng) if attention is None else attention
        self.output = Linear(num_heads * d_head, d_model, bias, rng)

    @property
    def weights(self):
        """The attention weights (B, H, T, S) of the latest forward."""
        return self.attention.weights

    def forward(self, query, key, value, mask=None, positions=None, cache=None):
        if np.ndim(query) < 2 or np.ndim(key) < 2:
            raise ValueError(f"attention takes (B, T, d_model) or (T, d_model), got shapes {np.shape(query)} and "
                             f"{np.shape(key)}; add the missing axis with x[None]")
        q = split_heads(self.query(query), self.num_heads)
        if self.rotary is not None:
            q = self.rotary(q, positions=positions)
        k, v = self.keys_and_values(key, value, positions, cache)
        return self.output(merge_heads(self.attention(q, k, v, mask)))

    def backward(self, dy):
        dq, dk, dv = self.attention.backward(split_heads(self.output.backward(dy), self.num_heads))
        if self.rotary is not None:
            dk = self.rotary.backward(dk)       # last in, first out
            dq = self.rotary.backward(dq)
        dquery = self.query.backward(merge_heads(dq))
        dkey = self.key.backward(merge_heads(dk))
        dvalue = self.value.backward(merge_heads(dv))
        return dquery, dkey, dvalue

    def keys_and_values(self, key, value, positions, cache):
        """Returns k and v (B, G, S, d): those of the given tokens, after those in the cache."""
        k = split_heads(self.key(key), self.num_kv_heads)
        v = split_heads(self.value(value), self.num_kv_heads)
        if self.rotary is not None:
            k = self.rotary(k, positions=positions)
        return (k, v) if cache is None else cache.extend(self, k, v)


class SelfAttention(MultiHeadAttention):
    """Multi-head attention of a sequence to itself: x is query, key and value.

    Shape: x (B, T, d_model), mask -> y (B, T, d_model); B may be absent
    Backward: dx = dquery + dkey + dvalue, because x was used three times
    Parameters, Raises and Source as in MultiHeadAttention.
    """

    def forward(self, x, mask=None, positions=None, cache=None):
        return super().forward(x, x, x, mask, positions, cache)

    def backward(self, dy):
        dquery, dkey, dvalue = super().backward(dy)
        return dquery + dkey + dvalue


class CrossAttention(MultiHeadAttention):
    """Multi-head attention of a sequence to another one: queries from x, keys and values from memory.

    Shape: x (B, T, d_model), memory (B, S, d_model), mask -> y (B, T, d_model); B may be absent
    Backward: dx = dquery,   dmemory = dkey + dvalue, because memory was used twice
    Parameters, Raises and Source as in MultiHeadAttention.
    """

    def forward(self, x, memory, mask=None, cache=None):
        return super().forward(x, memory, memory, mask, cache=cache)

    def backward(self, dy):
        dquery, dkey, dvalue = super().backward(dy)
        return dquery, dkey + dvalue

    def keys_and_values(self, key, value, positions, cache):
        if cache is not None and self in cache:
            return cache.get(self)              # memory stays the same, so its keys and values do too
        return super().keys_and_values(key, value, positions, cache)
