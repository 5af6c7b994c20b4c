"""Decoding: from the logits of a model to tokens, by greedy decoding."""

from types import SimpleNamespace

import numpy as np

from ...decoding import greedy_decode as package_greedy_decode
from ..sandbox import Function
from .definition import Exercise, Mistake


def greedy_decode(model, bos, eos, max_len):
    """Generates tokens one at a time, each the most likely one given bos and all tokens before it.

    model: a function that maps the ids so far, a list or a (T,) array, to logits (T, V); row t scores the token that
        follows ids[t].
    bos: the id that every text begins with.
    eos: another id, which ends a text.
    max_len: the maximum number of tokens to generate, at least 1.
    Return ids: (n,), an integer array with n <= max_len, without bos. If eos was generated, it is the last entry.
    """
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
    return [("eos is never generated", (model, bos, never, max_len)),
            ("eos is generated first", (model, bos, path[0], max_len)),
            ("one token", (model, bos, eos, 1)),
            ("bos is generated too", draw_repeated(rng))]


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
        "12.1", "Greedy decoding", minutes=15, lines=5,
        solution=greedy_decode, reference=by_greedy_decode, inputs=draw_greedy, edges=other_ends, outputs=("ids",),
        hints=("What must the model see at step 3 that it did not see at step 2? And what ends the loop?",
               "Start with [bos]. At each step, take the last row of model(ids), find the index of its largest entry, "
               "and append it to ids. Two conditions can end the loop.",
               "while len(ids) <= max_len and ids[-1] != eos: ids.append(np.argmax(model(ids)[-1])); the result is "
               "ids[1:]."),
        mistakes=(
            Mistake("GRD-1", {" and ids[-1] != eos": ""},
                    "You continue to generate after eos. eos means that the text has ended, so stop once it has been "
                    "appended."),
            Mistake("GRD-2", {"ids[1:]": "ids"},
                    "Your result begins with bos. The model did not generate it; the text begins after it."),
            Mistake("GRD-3", {"np.argmax": "np.argmin"}, "You take the least likely token at each step."),
            Mistake("GRD-4a", {"model(ids)[-1]": "model(ids)[0]"},
                    "You take the logits from row 0 at every step. That row scores the token after bos; the next token "
                    "is scored in the row of the latest one.", twin="GRD-10"),
            Mistake("GRD-4b", {"model(ids)[-1]": "model(ids)"},
                    "You take the largest of all T V logits, and argmax then returns an index into all rows together. "
                    "Only one row scores the next token."),
            Mistake("GRD-4c", {"model(ids)[-1]": "model(ids)[:, -1]"},
                    "[:, -1] selects the last column: the logit of the last token of the vocabulary, at every "
                    "position. It would be right for logits of shape (B, T, V); here they are (T, V)."),
            Mistake("GRD-5", {"model(ids)": "model(ids[-1:])"},
                    "You give the model the latest token only. The next token depends on all tokens so far, and the "
                    "model knows only what you give it."),
            Mistake("GRD-6", {"ids[1:]": "[token for token in ids[1:] if token != eos]"},
                    "You leave eos out of the result. Here it belongs there, because it shows that the text has ended "
                    "and was not cut off."),
            Mistake("GRD-7a", {"len(ids) <= max_len": "len(ids) < max_len"},
                    "You generate one token too few if eos does not occur. max_len counts the tokens after bos."),
            Mistake("GRD-7b", {"len(ids) <= max_len": "len(ids) <= max_len + 1"},
                    "You generate one token too many if eos does not occur. max_len is the maximum number of tokens "
                    "to generate."),
            Mistake("GRD-8", {"np.array(ids[1:])": "np.array(ids[1:] + [eos] * (max_len + 1 - len(ids)))"},
                    "You fill up the result with eos to max_len. A single text needs no padding; it ends with the "
                    "first eos."),
            Mistake("GRD-9", {"np.argmax(logits)": "logits.max()"},
                    "You append the largest logit itself. The token is the index of that logit."),
            Mistake("GRD-10", {"model(ids)": "model([bos])"},
                    "You give the model nothing but bos at every step, so its answer is always the same. Give it the "
                    "tokens that it has generated.", twin="GRD-4a"),
            Mistake("GRD-11", {"ids[1:]": "ids[1:-1]"},
                    "You always cut off the last token. If eos was generated, it belongs to the result; if not, you "
                    "lose a word."),
            Mistake("GRD-12", {"ids[1:]": "ids[:-1]"},
                    "You cut off the last token instead of bos. bos is the first one, and was not generated."),
            Mistake("GRD-13", {"while": "if"},
                    "You generate one token only. Is there a return inside your loop, or no loop at all?"),
            Mistake("GRD-14", {"np.array(ids[1:])": "np.array((ids[1:] + [0] * max_len)[:max_len])"},
                    "Your result always has max_len entries. Those after the last generated token were never written; "
                    "cut them off."),
            Mistake("GRD-15", {"model(ids)": "model((ids + [0] * max_len)[:max_len + 1])"},
                    "You give the model a whole array, most of which is not yet written, and take the last row. The "
                    "next token is scored in the row of the latest token that was generated."),
            Mistake("GRD-16", {"model(ids)[-1]": "model(ids)[len(ids)]"},
                    "The logits have no row len(ids). Rows count from 0, so that of the latest token is one before."),
            Mistake("GRD-17", {"np.argmax(logits)": "np.argmax(model(ids), axis=-1)"},
                    "You append the most likely tokens of all rows at once. Only the row of the latest token scores "
                    "the next one."),
            Mistake("GRD-18", {"model(ids)": "model(ids[1:] or ids)"},
                    "You leave out bos once another token has been generated. The model must see bos and all tokens "
                    "after it."),
            Mistake("GRD-19", {"np.array(ids[1:])": "np.array(ids[1:] if ids[-1] == eos else [*ids[1:], eos])"},
                    "You append eos where it was not generated. A text that was cut off at max_len ends without it."),
            Mistake("GRD-22", {"np.array(ids[1:])": "np.array([token for token in ids if token != bos])"},
                    "You take bos out wherever it occurs. Only the first entry is not generated; the model may "
                    "generate the same id later."),
            Mistake("GRD-23", {"model(ids)[-1]": "model(ids).sum(0)"},
                    "You add the logits of all rows. Only the row of the latest token scores the next one."),
            Mistake("GRD-24", {"len(ids) <= max_len": "len(ids) < max_len", "ids[1:]": "ids"},
                    "You count bos as a generated token: it is part of your result and takes one of the max_len "
                    "places."),
            Mistake("GRD-20", {"ids[-1] != eos": "eos not in ids[:-1]"},
                    "You generate one more token after eos. Check for eos after each new token, not before it."),
        ),
        alternatives={
            "a for loop": {"while len(ids) <= max_len and ids[-1] != eos:":
                           "for _ in range(max_len):\n        if ids[-1] == eos:\n            break"},
            "an array that grows": {"ids = [bos]": "ids = np.array([bos])", "ids.append(np.argmax(logits))":
                                    "ids = np.append(ids, logits.argmax())"},
            "with softmax": {"np.argmax(logits)": "int(np.argmax(np.exp(logits) / np.exp(logits).sum()))"}}),
]
