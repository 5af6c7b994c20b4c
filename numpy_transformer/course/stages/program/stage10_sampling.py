"""Stage 10: text from the model, with a key-value cache."""

import math

import numpy as np

from .stage01_loss import softmax
from .stage06_heads import merge_heads, split_heads


def next_probabilities(logits, temperature=1.0, top_k=None):
    """softmax(logits / temperature) (V,) of the top_k most likely tokens; temperature 0: the most likely one has 1."""
    if temperature == 0:
        return (np.arange(len(logits)) == logits.argmax()).astype(float)
    p = softmax((logits - logits.max()) / temperature)
    if top_k is not None:
        p[np.argsort(-p, kind="stable")[top_k:]] = 0
    return p / p.sum()


class KeyValueCache:
    """The keys and values of all tokens so far: one pair (..., num_heads, length, d) for each attention layer."""

    def __init__(self, num_layers):
        self.pairs = [None] * num_layers
        self.length = 0


def cached_attention(attention, x, cache, i):
    """What MultiHeadAttention returns for the new tokens x (..., T, d_model) of a text, whose earlier ones are in the cache.

    Adds the keys and values of x to the pair of layer i; cache.length does not change here. Each token sees those before
    it, and itself.
    """
    q, k, v = (split_heads(part(x), attention.num_heads) for part in (attention.query, attention.key, attention.value))
    if cache.pairs[i] is not None:
        k, v = (np.concatenate(pair, axis=-2) for pair in zip(cache.pairs[i], (k, v)))
    cache.pairs[i] = k, v
    T, S = q.shape[-2], k.shape[-2]
    return attention.output(merge_heads(attention.attention(q, k, v, np.tri(T, S, S - T, dtype=bool))))


def cached_forward(model, ids, cache):
    """The logits (..., T, vocab_size) of new tokens ids (..., T), whose earlier ones are in the cache."""
    start, T = cache.length, ids.shape[-1]
    x = model.embedding(ids) + model.positions.data[start:start + T]
    for i, block in enumerate(model.blocks):
        x = x + cached_attention(block.attention, block.norm1(x), cache, i)
        x = x + block.feed_forward(block.norm2(x))
    cache.length += T
    logits = model.norm(x) @ model.embedding.weight.data.T
    model.forget()                              # no backward will follow
    return logits


def generate(model, ids, count, temperature=1.0, top_k=None, rng=None):
    """The list of prompt ids followed by `count` new ones; the model's max_len is the longest that they can be together."""
    ids, cache = list(ids), KeyValueCache(len(model.blocks))
    logits = cached_forward(model, np.array(ids), cache)
    for n in range(count):
        p = next_probabilities(logits[-1], temperature, top_k)
        ids.append(int(p.argmax()) if temperature == 0 else int(rng.choice(len(p), p=p)))
        if n < count - 1:
            logits = cached_forward(model, np.array(ids[-1:]), cache)
    return ids
