"""One step of a decoder that writes, with the keys and values of earlier tokens kept."""

import math

import numpy as np

from ...decoding import KeyValueCache
from ...layers import ScaledDotProductAttention
from ..exercise import Exercise, Mistake
from .softmax import softmax


def key_value_step(q, k, v, keys, values):
    """Causal attention, softmax(q kᵀ / sqrt(d)) v, of one new token, without computing the earlier ones again.

    q, k, v: (..., 1, d), query, key and value of the new token.
    keys, values: (..., S, d), those of the S earlier tokens, in order; S may be 0.
    Return y: (..., 1, d), the last row of causal attention over all S + 1 tokens; and, for the next step, keys and
    values: (..., S + 1, d), now with those of the new token.
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
    cache.extend("layer", keys, values)
    keys, values = cache.extend("layer", k, v)
    return ScaledDotProductAttention()(q, keys, values), keys, values


SCALE = " / math.sqrt(q.shape[-1])"

EXERCISES = [
    Exercise(
        "12.2", "A decoding step with cached keys and values", minutes=15, lines=5,
        solution=key_value_step, reference=by_cache, given=(softmax,), inputs=draw_step, edges=edges,
        outputs=("y", "keys", "values"),
        hints=("Which keys may the newest token see under a causal mask? Is its own among them?",
               "Append the new key and value along the axis of tokens. The new query then sees all of them: no mask is "
               "needed.",
               "np.concatenate([keys, k], axis=-2), the values likewise; then p = softmax(q keysᵀ / sqrt(d)), y = p "
               "values."),
        mistakes=(
            Mistake("KVS-1", {"q @ keys.mT": "q @ keys[..., :-1, :].mT", "p @ values": "p @ values[..., :-1, :]"},
                    "The new token does not see itself: append its key and value before it attends."),
            Mistake("KVS-2", {"[keys, k]": "[k, keys]", "[values, v]": "[v, values]"},
                    "The new token is put in front of the earlier ones. y does not show it, but the tokens stay in "
                    "order: the newest comes last."),
            Mistake("KVS-3", {"[keys, k]": "[keys[..., 1:, :], k]", "[values, v]": "[values[..., 1:, :], v]"},
                    "The new token takes the place of an old one: the cache does not grow, and the first token is "
                    "forgotten."),
            Mistake("KVS-4", {"k], axis=-2": "k], axis=1", "v], axis=-2": "v], axis=1"},
                    "The new token is appended along axis 1. Counted from the front that is the axis of tokens in some "
                    "shapes and that of heads in others: count from the end."),
            Mistake("KVS-5", {"softmax(scores)": "softmax(np.where(np.tri(1, scores.shape[-1]) > 0, scores, -np.inf))"},
                    "The causal mask is that of a first token: the query sees key 0 alone. The new token is the last "
                    "of all, and sees all of them."),
            Mistake("ATF-4", {"softmax(scores)": "scores"},
                    "The softmax is missing: the weights of a query are positive and sum to 1."),
            Mistake("KVS-6", {"[keys, k]": "[keys, q]"},
                    "The new query is appended to the keys. It serves once and is forgotten; what is kept is the key."),
            Mistake("KVS-7", {"p @ values, keys, values": "p @ values, values, keys"},
                    "Keys and values are returned in the wrong order: the next step would take one for the other."),
            Mistake("KVS-8", {"[keys, k]": "[keys, v]", "[values, v]": "[values, k]"},
                    "The new key is appended to the values, and the new value to the keys."),
            Mistake("KVS-9", {"p @ values, keys, values": "p @ values, keys[..., :-1, :], values[..., :-1, :]"},
                    "The cache is returned as it came: the next token would not find this one."),
            Mistake("ATF-1", {SCALE: ""},
                    "The scores are not divided by sqrt(d): this step would differ from the forward that trained the "
                    "model."),
            Mistake("ATF-2a", {SCALE: " / q.shape[-1]"}, "The scores are divided by d: its root is meant."),
            Mistake("ATF-2b", {SCALE: " / math.sqrt(keys.shape[-2])"},
                    "The root is that of the number of keys, which grows with each step. A score is a sum of d "
                    "products."),
        ),
        alternatives={"einsum": {"q @ keys.mT": 'np.einsum("...td,...sd->...ts", q, keys)'},
                      "copied": {"np.concatenate([keys, k], ": "np.append(keys, k, "}}),
]
