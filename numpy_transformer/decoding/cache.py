"""Keys and values that attention does not compute again while a model generates token by token."""

import numpy as np


class KeyValueCache:
    """The keys and values of the tokens seen so far, for each attention layer.

    A model in eval() receives only the new tokens, with the same cache in every call. Its outputs are those of the
    whole sequence at the new tokens. Self-attention appends the new keys and values; cross-attention keeps those of the
    memory from the first call. `length` is the number of tokens seen, and `token_mask` (B, length) is False where they
    were padding tokens.

    Source: Shazeer 2019, section 2.4 (incremental decoding).
    """

    def __init__(self):
        self.length = 0
        self.token_mask = None
        self.layers = {}

    def __repr__(self):
        return f"KeyValueCache(length={self.length}, layers={len(self.layers)})"

    def __contains__(self, layer):
        return layer in self.layers

    def advance(self, model, token_mask):
        """Counts new tokens, token_mask (B, T); returns the mask of all tokens so far, (B, length)."""
        if model.remembering:
            raise ValueError("a key-value cache serves decoding, and backward would miss the tokens that it holds; "
                             "call model.eval() first, or leave the cache out")
        if self.length:
            if token_mask.shape[:-1] != self.token_mask.shape[:-1]:
                raise ValueError(f"the cache holds a batch of shape {self.token_mask.shape[:-1]}, the new tokens have "
                                 f"{token_mask.shape[:-1]}; use select(), or a new cache for another batch")
            token_mask = np.concatenate([self.token_mask, token_mask], -1)
        self.length = token_mask.shape[-1]
        self.token_mask = token_mask
        return token_mask

    def extend(self, layer, k, v):
        """Appends k and v (B, G, T, d) to those of the layer; returns all of them."""
        keys, values = self.layers.setdefault(layer, (GrowingArray(), GrowingArray()))
        return keys.append(k), values.append(v)

    def get(self, layer):
        """Returns the keys and the values of the layer."""
        keys, values = self.layers[layer]
        return keys.array, values.array

    def select(self, rows):
        """Keeps these rows of the batch, in this order; a row may be named several times (beam search)."""
        if self.length:
            self.token_mask = self.token_mask[rows]
        for pair in self.layers.values():
            for growing in pair:
                growing.buffer = growing.buffer[rows]


class GrowingArray:
    """An array (..., T, d) that grows along T, inside a buffer that doubles its size whenever it is full.

    The buffer stores T as the last axis, because the products with a single query, q kᵀ and P v, then take half the
    time.
    """

    def __init__(self):
        self.length = 0
        self.buffer = np.empty(0)                           # (..., d, at least T)

    @property
    def array(self):
        return self.buffer[..., :self.length].mT

    def append(self, x):
        """Appends x (..., T, d); returns the whole array."""
        start = self.length
        self.length += x.shape[-2]
        if start == 0:
            self.buffer = np.empty((*x.mT.shape[:-1], self.length), x.dtype)
        elif self.length > self.buffer.shape[-1]:
            full = self.buffer
            self.buffer = np.empty((*x.mT.shape[:-1], 2 * self.length), x.dtype)
            self.buffer[..., :start] = full[..., :start]
        self.buffer[..., start:self.length] = x.mT
        return self.array
