"""Decoding: from the logits of a model to tokens, by greedy decoding."""

from types import SimpleNamespace

import numpy as np

from ...decoding import greedy_decode as package_greedy_decode
from ..sandbox import Function
from .definition import Exercise, Mistake


def greedy_decode(model, bos, eos, max_len):
    ids = [bos]
    while len(ids) <= max_len and ids[-1] != eos:
        logits = model(ids)[-1]
        ids.append(np.argmax(logits))
    return np.array(ids[1:])


class Translator:
    """Wraps a function of ids as an encoder-decoder model whose source has no influence, as the package decodes it."""

    def __init__(self, model):
        self.model = model

    def encode(self, source):
        return source

    def decode(self, target, memory, source):
        return np.stack([self.model(ids) for ids in target])


def by_greedy_decode(model, bos, eos, max_len):
    return package_greedy_decode(Translator(model), [[0]], bos, eos, max_len, cached=False)[0]


def draw_model(rng, max_len, V, eos=0, ending=0.0, since=1):
    """Returns logits that depend on all tokens so far and on their positions.

    `ending` makes eos more likely from step `since` on.
    """
    table = rng.standard_normal((max_len + 3, V, V))
    table[since - 1, :, eos] += ending
    return Function("lambda ids: np.cumsum(table[np.arange(len(ids)), ids], 0)", table=table)


def draw_greedy(rng, n):
    """Draws a model and an eos that greedy decoding generates at its third step or later, but not at the last."""
    while True:
        max_len = n.S
        model = draw_model(rng, max_len, n.V)
        bos = int(rng.integers(1, n.V))
        path = greedy_decode(model, bos, -1, max_len).tolist()
        late = [token for token in path[2:-1] if token not in path[:2]]
        if late and bos not in path:
            return model, bos, late[0], max_len


def other_ends(rng):
    """Returns cases in which eos is never generated, is generated first, or only one token is generated."""
    model, bos, eos, max_len = draw_greedy(rng, SimpleNamespace(S=6, V=9))
    path = greedy_decode(model, bos, -1, max_len).tolist()
    never = next(token for token in range(9) if token not in (*path, bos))
    return [("eos_never_generated", (model, bos, never, max_len)),
            ("eos_generated_first", (model, bos, path[0], max_len)),
            ("token", (model, bos, eos, 1)),
            ("bos_generated_too", draw_repeated(rng))]


def draw_repeated(rng, max_len=7, V=5):
    """Draws a model that generates bos among other tokens, but never eos."""
    while True:
        model = draw_model(rng, max_len, V)
        bos, eos = map(int, rng.choice(V, 2, replace=False))
        path = greedy_decode(model, bos, -1, max_len).tolist()
        if bos in path[1:-1] and eos not in path:
            return model, bos, eos, max_len


EXERCISES = [
    Exercise(
        "12.1", minutes=15, lines=5,
        number_sizes=("tiny",), linked=(("model", "bos", "eos", "max_len"),),
        solution=greedy_decode, reference=by_greedy_decode, inputs=draw_greedy, edges=other_ends, outputs=("ids",),
        mistakes=(
            Mistake("GRD-1", {" and ids[-1] != eos": ""}),
            Mistake("GRD-2", {"ids[1:]": "ids"}),
            Mistake("GRD-4a", {"model(ids)[-1]": "model(ids)[0]"}, twin="GRD-10"),
            Mistake("GRD-4b", {"model(ids)[-1]": "model(ids)"}),
            Mistake("GRD-25", {"np.argmax(logits)": "np.argmax(logits) % logits.shape[-1]", "model(ids)[-1]": "model(ids)"}),
            Mistake("GRD-5", {"model(ids)": "model(ids[-1:])"}),
            Mistake("GRD-6", {"ids[1:]": "[token for token in ids[1:] if token != eos]"}),
            Mistake("GRD-7a", {"len(ids) <= max_len": "len(ids) < max_len"}),
            Mistake("GRD-9", {"np.argmax(logits)": "logits.max()"}),
            Mistake("GRD-10", {"model(ids)": "model([bos])"}, twin="GRD-4a"),
            Mistake("GRD-12", {"ids[1:]": "ids[:-1]"}),
            Mistake("GRD-23", {"model(ids)[-1]": "model(ids).sum(0)"}),
            Mistake("GRD-24", {"len(ids) <= max_len": "len(ids) < max_len", "ids[1:]": "ids"}),
            Mistake("GRD-20", {"ids[-1] != eos": "eos not in ids[:-1]"}),
        ),
        alternatives={
            "a for loop": {"while len(ids) <= max_len and ids[-1] != eos:":
                           "for _ in range(max_len):\n        if ids[-1] == eos:\n            break"},
            "an array that grows": {"ids = [bos]": "ids = np.array([bos])", "ids.append(np.argmax(logits))":
                                    "ids = np.append(ids, logits.argmax())"},
            "with softmax": {"np.argmax(logits)": "int(np.argmax(np.exp(logits) / np.exp(logits).sum()))"}}),
]
