"""Keys and values that attention need not compute again while a model writes token by token."""

import numpy as np


class KeyValueCache:
    """For each attention layer the keys and values of the tokens seen so far.

    A model in eval() takes the new tokens alone, with the same cache at every call: its outputs are those of the
    whole sequence at the new tokens. Self-attention appends, cross-attention keeps the memory's from the first call.
    `length` counts the tokens seen, `token_mask` (B, length) is False where they were padding.

    Source: Shazeer 2019, section 2.4 (incremental decoding).
    """

    def __init__(self):
        self.length, self.token_mask, self.layers = 0, None, {}

    def advance(self, model, token_mask):
        """Count new tokens, token_mask (B, T); which of all tokens so far are real, (B, length)."""
        if model.remembering:
            raise ValueError("a key-value cache serves decoding, and backward would miss the tokens that it holds; "
                             "call model.eval() first, or leave the cache out")
        if self.length:
            if token_mask.shape[:-1] != self.token_mask.shape[:-1]:
                raise ValueError(f"the cache holds a batch of shape {self.token_mask.shape[:-1]}, the new tokens have "
                                 f"{token_mask.shape[:-1]}; use select(), or a new cache for another batch")
            token_mask = np.concatenate([self.token_mask, token_mask], -1)
        self.length, self.token_mask = token_mask.shape[-1], token_mask
        return token_mask

    def extend(self, layer, k, v):
        """Append k and v (B, G, T, d) to the layer's; all of them."""
        kept = self.layers.setdefault(layer, (GrowingArray(), GrowingArray()))
        return kept[0].append(k), kept[1].append(v)

    def get(self, layer):
        """What the layer has here: keys and values, or nothing yet."""
        return [kept.array for kept in self.layers.get(layer, ())]

    def select(self, rows):
        """Keep these rows of the batch, in this order, each as often as it is named (beam search)."""
        if self.length:
            self.token_mask = self.token_mask[rows]
        for kept in (kept for pair in self.layers.values() for kept in pair):
            kept.buffer = kept.buffer[rows]


class GrowingArray:
    """An array (..., T, d) that grows along T. The buffer is doubled, so that few appends copy, and lies in memory with T
    last: the products with one query, q kᵀ and P v, then take half the time.
    """

    def __init__(self):
        self.length, self.buffer = 0, np.empty(0)             # (..., d, buffer for more than T)

    @property
    def array(self):
        return self.buffer[..., :self.length].mT

    def append(self, x):
        start, self.length = self.length, self.length + x.shape[-2]
        if self.length > self.buffer.shape[-1] or not start:
            buffer = self.length * (2 if start else 1)
            before, self.buffer = self.buffer[..., :start], np.empty((*x.mT.shape[:-1], buffer), x.dtype)
            self.buffer[..., :start] = before
        self.buffer[..., start:self.length] = x.mT
        return self.array
