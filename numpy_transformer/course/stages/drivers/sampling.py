"""Stage 10."""

import numpy as np

from ..program.stage05_attention import Attention
from ..program.stage10_sampling import KeyValueCache, cached_attention, cached_forward, generate, next_probabilities
from .models import language_model_of


class Recorded:
    """A linear layer that takes its part of the features, so that queries, keys and values can be given."""

    def __init__(self, start, end):
        self.start, self.end = start, end

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        return x[..., self.start:self.end]


class GivenAttention:
    """What cached_attention takes for a MultiHeadAttention of one head."""

    def __init__(self, d, attention):
        self.num_heads, self.attention = 1, attention
        self.query, self.key, self.value = Recorded(0, d), Recorded(d, 2 * d), Recorded(2 * d, 3 * d)
        self.output = Recorded(0, d)


def probabilities(logits, temperature, top_k):
    return next_probabilities(logits, temperature, top_k)


def key_value_step(q, k, v, keys, values):
    cache = KeyValueCache(2)
    if keys.shape[-2]:
        cache.pairs[1], cache.length = (keys[..., None, :, :], values[..., None, :, :]), keys.shape[-2]
    y = cached_attention(GivenAttention(q.shape[-1], Attention()), np.concatenate([q, k, v], -1), cache, 1)
    keys, values = cache.pairs[1]
    return y, keys[..., 0, :, :], values[..., 0, :, :]


def cached_logits(ids, ends, num_heads, num_layers, arrays):
    model, cache = language_model_of(arrays, num_heads, num_layers), KeyValueCache(num_layers)
    parts = np.split(ids, list(ends), axis=-1)
    logits = np.concatenate([cached_forward(model, part, cache) for part in parts], -2)
    apart = KeyValueCache(num_layers)
    cached_attention(model.blocks[0].attention, model.embedding.forward(ids), apart, 0)
    return logits, np.array(cache.length), np.array(apart.length)


def generated(ids, count, num_heads, num_layers, arrays):
    model = language_model_of(arrays, num_heads, num_layers)
    with_top_k = generate(model, list(ids), count, temperature=0.7, top_k=1, rng=np.random.default_rng(0))
    return np.array(generate(model, ids, count, temperature=0)), np.array(with_top_k)


def drawn(ids, draws, temperature, top_k, num_heads, num_layers, arrays):
    """Returns whether tokens are drawn more or less often than their probabilities say, by more than five standard
    deviations; whether others than the top_k are; whether one seed gives two texts; whether two seeds give one; and whether
    the most likely token is always drawn.
    """
    model, rng = language_model_of(arrays, num_heads, num_layers), np.random.default_rng(1)
    z = model.forward(np.array(ids))[-1] / temperature
    p = np.where(z >= np.sort(z)[-top_k], np.exp(z - z.max()), 0)
    p = p / p.sum()
    counts = np.bincount([generate(model, list(ids), 1, temperature, top_k, rng)[-1] for _ in range(draws)], minlength=len(p))
    deviations = abs(counts / draws - p) - 5 * np.sqrt(p * (1 - p) / draws)
    texts = [generate(model, list(ids), 12, 3.0, None, np.random.default_rng(seed)) for seed in (2, 2, 3)]
    return (np.array(deviations.max() > 1e-12), np.array(counts[p == 0].sum() > 0), np.array(texts[0] != texts[1]),
            np.array(texts[0] == texts[2]), np.array(texts[0] == generate(model, list(ids), 12, temperature=0)))
