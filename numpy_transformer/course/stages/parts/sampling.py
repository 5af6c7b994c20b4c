"""Stage 10: probabilities, the key-value cache and drawing tokens."""

import numpy as np

from ...exercises.definition import Mistake
from ..drivers import filled
from ..drivers import sampling as drivers
from .making import built, new_part, normal, of_exercise
from .models import draw_language_model


def draw_logits(rng, n):
    return 3 * normal(rng, n.V), round(float(rng.uniform(0.4, 0.9)), 3), int(rng.integers(2, n.V - 2))


def other_settings(rng):
    z = 3 * normal(rng, 7)
    return [("temperature_0", (z, 0, None)), ("all_tokens", (z, 1.7, None)), ("large_logits", (z + 1000, 0.01, 3)),
            ("top_k_1", (z, 1.0, 1)), ("more_than_all", (z, 1.0, 9)), ("flat", (0.1 * z, 0.001, None))]


def probabilities_by_hand(logits, temperature, top_k):
    if temperature == 0:
        return (np.arange(len(logits)) == logits.argmax()).astype(float)
    kept = set(sorted(range(len(logits)), key=lambda i: -logits[i])[:top_k])
    e = np.array([np.exp((z - logits.max()) / temperature) if i in kept else 0.0 for i, z in enumerate(logits)])
    return e / e.sum()


def draw_cached(rng, n):
    ids, *_, num_heads, num_layers, arrays = draw_language_model(rng, n)
    return ids, [2, 3], num_heads, num_layers, arrays


def full_logits(ids, ends, num_heads, num_layers, arrays):
    return model_of(arrays, num_heads, num_layers).forward(ids), np.array(ids.shape[-1]), np.array(0)


def model_of(arrays, num_heads, num_layers):
    """Returns the package's language model with these weights."""
    (V, D), d_ff = arrays["embedding.weight"].shape, len(arrays["blocks.0.feed_forward.down.weight"])
    model = built("LanguageModel", V, len(arrays["positions"]), D, num_heads, d_ff, num_layers, 0)
    return filled(model, {name: array.copy() for name, array in arrays.items()})


def draw_prompt(rng, n):
    _, _, num_heads, num_layers, arrays = draw_cached(rng, n)
    return rng.integers(0, n.V, 2).tolist(), 4, num_heads, num_layers, arrays


def draw_to_draw(rng, n):
    ids, _, num_heads, num_layers, arrays = draw_prompt(rng, n)
    longer = rng.standard_normal((16, arrays["positions"].shape[1]))
    return ids, 700, 0.7, 3, num_heads, num_layers, {**arrays, "positions": longer}


def never(*arguments):
    return (np.array(False),) * 5


def by_argmax(ids, count, num_heads, num_layers, arrays):
    model, text = model_of(arrays, num_heads, num_layers), list(ids)
    for _ in range(count):
        text.append(int(model.forward(np.array(text))[-1].argmax()))
    return np.array(text), np.array(text)


def stage_10():
    return (new_part(10, 1, drivers.probabilities, ("next_probabilities",), draw_logits, ("p",), (
                Mistake("SAM-1", {"(logits - logits.max()) / temperature": "(logits - logits.max()) * temperature"}),
                Mistake("SAM-2", {"    return p / p.sum()": "    return p"}),
                Mistake("SAM-3", {"[top_k:]] = 0": "[:top_k]] = 0"}),
                Mistake("SAM-4", {"np.argsort(-p, kind=\"stable\")": "np.argsort(p, kind=\"stable\")"}),
                Mistake("SAM-5", {"p[np.argsort(-p, kind=\"stable\")[top_k:]] = 0": "p[top_k:] = 0"}),
                Mistake("SAM-7", {
                    "softmax((logits - logits.max()) / temperature)": "softmax(logits) ** (1 / temperature)"}),
                Mistake("SAM-6", {"softmax((logits - logits.max()) / temperature)": "softmax(logits) / temperature"}),
            ), edges=other_settings, reference=probabilities_by_hand),
            of_exercise(10, "12.2", drivers.key_value_step, ("cached_attention",)),
            new_part(10, 3, drivers.cached_logits, ("cached_forward", "cached_attention"), draw_cached,
                     ("logits", "cache.length", "cache.length after cached_attention"), (
                Mistake("KV-1", {"model.positions.data[start:start + T]": "model.positions.data[:T]"}),
                Mistake("KV-2", {"    cache.length += T\n": ""}),
                Mistake("KV-3", {", np.tri(T, S, S - T, dtype=bool))": ")"}),
                Mistake("KV-4", {"np.tri(T, S, S - T, dtype=bool)": "np.tri(T, S, dtype=bool)"}),
                Mistake("KV-5", {"cached_attention(block.attention, block.norm1(x), cache, i)":
                                 "cached_attention(block.attention, block.norm1(x), cache, 0)"}),
                Mistake("KV-6", {"    cache.pairs[i] = k, v\n": ""}),
                Mistake("KV-7", {"zip(cache.pairs[i], (k, v))": "zip((k, v), cache.pairs[i])"}),
                Mistake("KV-10", {
                    "    cache.pairs[i] = k, v\n":
                        "    cache.pairs[i] = k, v\n"
                        "    cache.length += x.shape[-2] if i == 0 else 0\n",
                    "    cache.length += T\n": ""}),
                Mistake("KV-9", {"np.tri(T, S, S - T, dtype=bool)": "np.tri(T, S, dtype=bool) if S == T else None"}),
                Mistake("KV-8", {"model.norm(x) @": "x @"}),
            ), reference=full_logits),
            new_part(10, 4, drivers.generated, ("generate",), draw_prompt, ("likely", "with top_k 1"), (
                Mistake("GEN-1", {"return ids\n": "return ids[len(ids) - count:]\n"}),
                Mistake("GEN-2", {
                    "cached_forward(model, np.array(ids[-1:]), cache)": "cached_forward(model, np.array(ids), cache)"}),
                Mistake("GEN-3", {"logits[-1], temperature": "logits[0], temperature"}),
                Mistake("GEN-4", {"range(count)": "range(count - 1)"}),
            ), reference=by_argmax),
            new_part(10, 5, drivers.drawn, ("generate",), draw_to_draw, ("drawn otherwise than p says", "tokens outside the top_k",
                     "two texts from one seed", "one text from two seeds",
                     "always the most likely token"), (
                Mistake("GEN-5", {
                    "int(p.argmax()) if temperature == 0 else int(rng.choice(len(p), p=p))": "int(p.argmax())"}),
                Mistake("GEN-6", {"(logits[-1], temperature, top_k)": "(logits[-1], temperature)"}),
                Mistake("GEN-7", {"(logits[-1], temperature, top_k)": "(logits[-1], 1.0, top_k)"}),
                Mistake("GEN-8", {"rng.choice(len(p), p=p)": "np.random.default_rng().choice(len(p), p=p)"}),
                Mistake("GEN-9", {"rng.choice(len(p), p=p)": "np.random.default_rng(0).choice(len(p), p=p)"}),
            ), reference=never))
