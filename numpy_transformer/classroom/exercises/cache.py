"""One decoding step of a decoder that keeps the keys and values of the earlier tokens in a cache."""

import math

import numpy as np

from ...decoding import KeyValueCache
from ...layers import ScaledDotProductAttention
from ..exercise import Exercise, Mistake
from .softmax import softmax


def key_value_step(q, k, v, keys, values):
    """Computes causal attention for one new token, without computing the earlier tokens again.

    q, k, v: (..., 1, d), query, key and value of the new token.
    keys, values: (..., S, d), the cached keys and values of the S earlier tokens, in order; S may be 0.
    Return y: (..., 1, d), the last row of softmax(q kᵀ / sqrt(d)) v for all S + 1 tokens under a causal mask; and, for
    the next step, keys and values: (..., S + 1, d), which include those of the new token.
    """
    keys = np.concatenate([keys, k], axis=-2)
    values = np.concatenate([values, v], axis=-2)
    scores = q @ keys.mT / math.sqrt(q.shape[-1])
    p = softmax(scores)
    return p @ values, keys, values


def draw_step(rng, n):
    batch = n.lead[:-1]
    return (*rng.standard_normal((3, *batch, 1, n.d)), *rng.standard_normal((2, *batch, n.S, n.d)))


def edges(rng):
    q, k, v = rng.standard_normal((3, 2, 3, 1, 4))
    return [("the first token", (q, k, v, *np.zeros((2, 2, 3, 0, 4)))),
            ("the second token", (q, k, v, *rng.standard_normal((2, 2, 3, 1, 4))))]


def by_cache(q, k, v, keys, values):
    cache = KeyValueCache()
    cache.extend("attention", keys, values)
    keys, values = cache.extend("attention", k, v)
    return ScaledDotProductAttention()(q, keys, values), keys, values


SCALE = " / math.sqrt(q.shape[-1])"

EXERCISES = [
    Exercise(
        "12.2", "A decoding step with cached keys and values", minutes=15, lines=5,
        solution=key_value_step, reference=by_cache, given=(softmax,), inputs=draw_step, edges=edges,
        outputs=("y", "keys", "values"),
        hints=("Which keys may the latest token attend to under a causal mask? Is its own key one of them?",
               "Append the new key and value along the axis of tokens. The new query may attend to all of them, so no "
               "mask is needed.",
               "np.concatenate([keys, k], axis=-2), and the same for the values; then p = softmax(q keysᵀ / sqrt(d)) "
               "and y = p values."),
        mistakes=(
            Mistake("KVS-1", {"q @ keys.mT": "q @ keys[..., :-1, :].mT", "p @ values": "p @ values[..., :-1, :]"},
                    "Your new token does not attend to itself. Append its key and value before you compute the "
                    "attention."),
            Mistake("KVS-2", {"[keys, k]": "[k, keys]", "[values, v]": "[v, values]"},
                    "You put the new token before the earlier ones. This does not change y, but the cache must keep "
                    "the tokens in order, the latest last."),
            Mistake("KVS-3", {"[keys, k]": "[keys[..., 1:, :], k]", "[values, v]": "[values[..., 1:, :], v]"},
                    "Your new token replaces an old one. The cache must grow by one token; yours forgets the first."),
            Mistake("KVS-4", {"k], axis=-2": "k], axis=1", "v], axis=-2": "v], axis=1"},
                    "You append the new token along axis 1. In some shapes this is the axis of tokens, in others that "
                    "of heads. Count axes from the end."),
            Mistake("KVS-5", {"softmax(scores)": "softmax(np.where(np.tri(1, scores.shape[-1]) > 0, scores, -np.inf))"},
                    "Your causal mask is that of the first token, so the query attends to key 0 only. The new token is "
                    "the last one, and may attend to all keys."),
            Mistake("ATF-4", {"softmax(scores)": "scores"},
                    "The softmax is missing. The weights of a query must be positive and sum to 1."),
            Mistake("KVS-6", {"[keys, k]": "[keys, q]"},
                    "You append the new query to the keys. A query is used once and is not cached; the key is."),
            Mistake("KVS-7", {"p @ values, keys, values": "p @ values, values, keys"},
                    "You return keys and values in the wrong order, so the next step would mistake each for the "
                    "other."),
            Mistake("KVS-8", {"[keys, k]": "[keys, v]", "[values, v]": "[values, k]"},
                    "You append the new key to the values, and the new value to the keys."),
            Mistake("KVS-9", {"p @ values, keys, values": "p @ values, keys[..., :-1, :], values[..., :-1, :]"},
                    "You return the cache without the new token, so the next step could not attend to it."),
            Mistake("ATF-1", {SCALE: ""},
                    "You do not divide the scores by sqrt(d). This step then differs from the forward pass with which "
                    "the model was trained."),
            Mistake("ATF-2a", {SCALE: " / q.shape[-1]"}, "You divide the scores by d. The divisor is sqrt(d)."),
            Mistake("ATF-2b", {SCALE: " / math.sqrt(keys.shape[-2])"},
                    "You divide by the square root of the number of keys, which grows at each step. A score is a sum "
                    "of d products, so its size depends on d."),
        ),
        alternatives={"einsum": {"q @ keys.mT": 'np.einsum("...td,...sd->...ts", q, keys)'},
                      "copied": {"np.concatenate([keys, k], ": "np.append(keys, k, "}}),
]
