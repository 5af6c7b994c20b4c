"""One decoding step of a decoder that keeps the keys and values of the earlier tokens in a cache."""

import math

import numpy as np

from ...decoding import KeyValueCache
from ...layers import ScaledDotProductAttention
from .definition import Exercise, Mistake
from .softmax import softmax


def key_value_step(q, k, v, keys, values):
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
    return [("first_token", (q, k, v, *np.zeros((2, 2, 3, 0, 4)))),
            ("second_token", (q, k, v, *rng.standard_normal((2, 2, 3, 1, 4))))]


def by_cache(q, k, v, keys, values):
    cache = KeyValueCache()
    cache.extend("attention", keys, values)
    keys, values = cache.extend("attention", k, v)
    return ScaledDotProductAttention()(q, keys, values), keys, values


EXERCISES = [
    Exercise(
        "12.2", minutes=15, lines=5, size_letters="Sd",
        number_sizes=("tiny", "mixed"),
        powers=({"q": 3, "k": -3, "keys": -3}, {"q": -3, "k": 3, "keys": 3, "v": 3, "values": 3}),
        solution=key_value_step, reference=by_cache, imported=(softmax,), inputs=draw_step, edges=edges,
        outputs=("y", "keys", "values"),
        mistakes=(
            Mistake("KVS-1", {"q @ keys.mT": "q @ keys[..., :-1, :].mT", "p @ values": "p @ values[..., :-1, :]"}),
            Mistake("KVS-2", {"[keys, k]": "[k, keys]", "[values, v]": "[v, values]"}),
            Mistake("KVS-10", {"k], axis=-2": "k], axis=0", "v], axis=-2": "v], axis=0"}),
            Mistake("KVS-11", {"k], axis=-2": "k], axis=-1", "v], axis=-2": "v], axis=-1"}),
            Mistake("KVS-12a", {"values = np.concatenate([values, v], axis=-2)": "pass"}),
            Mistake("KVS-12b", {"keys = np.concatenate([keys, k], axis=-2)": "pass"}),
            Mistake("KVS-16", {"softmax(scores)": "softmax(scores.mT).mT"}),
            Mistake("KVS-5", {
                "softmax(scores)": "softmax(np.where(np.tri(1, scores.shape[-1]) > 0, scores, -np.inf))"}),
            Mistake("ATF-4", {"softmax(scores)": "scores"}),
            Mistake("KVS-7", {"p @ values, keys, values": "p @ values, values, keys"}),
            Mistake("KVS-9", {"p @ values, keys, values": "p @ values, keys[..., :-1, :], values[..., :-1, :]"}),
            Mistake("ATF-1", {" / math.sqrt(q.shape[-1])": ""}),
            Mistake("ATF-2c", {" / math.sqrt(q.shape[-1])": " * math.sqrt(q.shape[-1])"}),
            Mistake("ATF-2d", {
                " / math.sqrt(q.shape[-1])": "",
                "softmax(scores)": "softmax(scores) / math.sqrt(q.shape[-1])"}),
            Mistake("ATF-2a", {" / math.sqrt(q.shape[-1])": " / q.shape[-1]"}),
            Mistake("ATF-2b", {" / math.sqrt(q.shape[-1])": " / math.sqrt(keys.shape[-2])"}),
        ),
        alternatives={"einsum": {"q @ keys.mT": 'np.einsum("...td,...sd->...ts", q, keys)'},
                      "copied": {"np.concatenate([keys, k], ": "np.append(keys, k, "}}),
]
