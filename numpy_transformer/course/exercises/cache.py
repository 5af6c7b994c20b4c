"""One decoding step of a decoder that keeps the keys and values of the earlier tokens in a cache."""

import math

import numpy as np

from ...decoding import KeyValueCache
from ...layers import ScaledDotProductAttention
from .definition import Exercise, Mistake
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
            Mistake("KVS-10", {"k], axis=-2": "k], axis=0", "v], axis=-2": "v], axis=0"},
                    "You append along the first axis, which is also what np.concatenate does without axis. The new "
                    "token must be appended along the axis of tokens, the second to last."),
            Mistake("KVS-11", {"k], axis=-2": "k], axis=-1", "v], axis=-2": "v], axis=-1"},
                    "You append along the last axis, that of the features. The new token must be appended along the "
                    "axis of tokens."),
            Mistake("KVS-12a", {"values = np.concatenate([values, v], axis=-2)": "pass"},
                    "You append the new key but not the new value, so there is one weight more than values."),
            Mistake("KVS-12b", {"keys = np.concatenate([keys, k], axis=-2)": "pass"},
                    "You append the new value but not the new key, so there is one value more than weights."),
            Mistake("KVS-13", {"p @ values, keys, values": "p @ values, k, v"},
                    "You return the key and the value of the new token only. The next step needs those of all "
                    "tokens."),
            Mistake("KVS-14", {"p @ values, keys, values": "keys, values, p @ values"},
                    "You return the three arrays in the wrong order. y comes first, then the keys and the values."),
            Mistake("KVS-15", {"keys.mT": "k.mT", "p @ values": "p @ v"},
                    "Your new token attends to itself only, so y is its own value. It may attend to all earlier tokens "
                    "too."),
            Mistake("KVS-16", {"softmax(scores)": "softmax(scores.mT).mT"},
                    "Your softmax is over the queries. There is only one, so every weight is 1. The weights of a "
                    "query sum to 1 over the keys."),
            Mistake("KVS-17", {"softmax(scores)": "softmax(np.where(np.arange(keys.shape[-2]) < keys.shape[-2] - 1, "
                               "scores, -np.inf))"},
                    "Your mask hides the new token from itself. Under a causal mask, a token may attend to itself and "
                    "to all earlier ones."),
            Mistake("KVS-18", {"keys.mT": "keys.T"},
                    ".T reverses all axes. For arrays with more than two of them, swap the last two only."),
            Mistake("KVS-19", {"q @ keys.mT": "k @ keys.mT"},
                    "Your scores use the new key in place of the query."),
            Mistake("KVS-20", {"q @ keys.mT": "q @ values.mT", "p @ values, keys": "p @ keys, keys"},
                    "You compare the query with the values and weight the keys. It is the other way round."),
            Mistake("KVS-21", {"return p @ values": "return p"},
                    "You return the weights. y is the sum of the values with these weights."),
            Mistake("KVS-22", {"[values, v]": "[v, values]"},
                    "You put the new value before the earlier ones, but the new key after them. Each weight then "
                    "belongs to another token's value."),
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
            Mistake("ATF-2c", {SCALE: " * math.sqrt(q.shape[-1])"},
                    "You multiply the scores by sqrt(d). Divide, so that their size does not grow with d."),
            Mistake("ATF-2d", {SCALE: "", "softmax(scores)": f"softmax(scores){SCALE}"},
                    "You divide the weights by sqrt(d), so they no longer sum to 1. The scores are divided, before the "
                    "softmax."),
            Mistake("ATF-2a", {SCALE: " / q.shape[-1]"}, "You divide the scores by d. The divisor is sqrt(d)."),
            Mistake("ATF-2b", {SCALE: " / math.sqrt(keys.shape[-2])"},
                    "You divide by the square root of the number of keys, which grows at each step. A score is a sum "
                    "of d products, so its size depends on d."),
        ),
        alternatives={"einsum": {"q @ keys.mT": 'np.einsum("...td,...sd->...ts", q, keys)'},
                      "copied": {"np.concatenate([keys, k], ": "np.append(keys, k, "}}),
]
