"""Decoding: from the logits of a model to tokens, by greedy decoding and by beam search."""

from types import SimpleNamespace

import numpy as np

from ...decoding import beam_search as package_beam_search
from ...decoding import greedy_decode as package_greedy_decode
from ..exercise import Exercise, Mistake
from ..sandbox import Function


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


def log_softmax(z):
    """z: (V,) logits.  Return (V,), the log probabilities."""
    z = z - z.max()
    return z - np.log(np.exp(z).sum())


def beam_search(model, bos, eos, max_len, beam, alpha):
    """Keeps the `beam` best unfinished hypotheses at each step, and returns the best finished one.

    A hypothesis is a text that the search has written so far; the first one is [bos]. Each step extends every
    unfinished hypothesis by every token, and ranks all these candidates by log P, the sum of the log probabilities of
    their tokens. Among the `beam` best candidates, those that end in eos are finished. The `beam` best candidates that
    do not end in eos stay unfinished and are extended in the next step.
    At step max_len, which writes the last token, all of the `beam` best candidates are finished. The search ends there,
    or earlier, after the first step at which there are `beam` or more finished hypotheses in total.
    The best finished hypothesis has the highest score, log P / ((5 + length) / 6)^alpha, where length counts eos but
    not bos.

    model: a function that maps the ids so far, a list or a (T,) array, to logits (T, V); row t scores the token that
        follows ids[t].
    bos, eos: different ids.
    max_len, beam: integers, at least 1.
    alpha: a number, at least 0.
    Return ids: (n,), an array without bos, whose last entry is eos if it was generated; and score: a number. No two
    hypotheses have the same score.
    """
    unfinished = [([bos], 0.0)]
    finished = []
    for length in range(1, max_len + 1):
        candidates = []
        for ids, total in unfinished:
            log_p = log_softmax(model(ids)[-1])
            candidates += [([*ids, token], total + log_p[token]) for token in range(len(log_p))]
        candidates.sort(key=lambda candidate: -candidate[1])
        ended = [(ids, total) for ids, total in candidates[:beam] if ids[-1] == eos or length == max_len]
        finished += [(ids[1:], total / ((5 + length) / 6) ** alpha) for ids, total in ended]
        if len(finished) >= beam:
            break
        unfinished = [(ids, total) for ids, total in candidates if ids[-1] != eos][:beam]
    ids, score = max(finished, key=lambda hypothesis: hypothesis[1])
    return np.array(ids), score


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


def by_beam_search(model, bos, eos, max_len, beam, alpha):
    found, = package_beam_search(Translator(model), [[0]], bos, eos, max_len, beam, alpha, cached=False)
    return tuple(map(np.array, found[0]))


def draw_model(rng, max_len, V, eos=0, ending=0.0):
    """Returns logits that depend on all tokens so far and on their positions; `ending` makes eos more likely."""
    table = rng.standard_normal((max_len + 3, V, V))
    table[0, :, eos] += ending
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
            ("one token", (model, bos, eos, 1))]


def draw_beam(rng, n, max_len=None, beam=2, alpha=2.0, shows=("BEAM-3a", "BEAM-5"), ending=1.0):
    """Draws arguments for which each of the mistakes in `shows` gives a different text; for most models they do not."""
    exercise = EXERCISES[-1]
    max_len = max_len or n.T
    targets = [exercise.target(exercise.edited(wrong.edits)) for wrong in exercise.mistakes if wrong.name in shows]
    while True:
        bos, eos = map(int, rng.choice(n.V, 2, replace=False))
        inputs = draw_model(rng, max_len, n.V, eos, ending), bos, eos, max_len, beam, alpha
        texts = {tuple(target(*inputs)[0].tolist()) for target in (beam_search, *targets)}
        if len(texts) == 1 + len(targets):
            return inputs


def other_beams(rng):
    small = SimpleNamespace(T=4, V=5)           # separates most mistakes
    n = SimpleNamespace(T=7, V=7)
    return [("texts end early and late", draw_beam(rng, small, shows=("BEAM-6", "BEAM-7"))),
            ("a search over many tokens", draw_beam(rng, n, shows=("BEAM-4a", "BEAM-10b"))),
            ("unfinished texts at the end", draw_beam(rng, small, shows=("BEAM-4d",), ending=0.0)),
            ("a long text with a high log P", draw_beam(rng, SimpleNamespace(T=5, V=5), beam=3, alpha=1.0,
                                                        shows=("BEAM-3d", "BEAM-10a"), ending=0.0)),
            ("more texts finish than the beam has places", draw_beam(rng, SimpleNamespace(T=5, V=5), beam=4, alpha=2.0,
                                                                     shows=("BEAM-10c",), ending=0.0)),
            ("a larger beam", draw_beam(rng, n, beam=4, alpha=1.5, shows=("BEAM-3a", "BEAM-5", "BEAM-13"))),
            ("a beam of 1", draw_beam(rng, n, beam=1, alpha=0.6, shows=("BEAM-13",))),
            ("alpha = 0: the score is log P", draw_beam(rng, n, beam=3, alpha=0.0, shows=())),
            ("one token", draw_beam(rng, n, max_len=1, beam=3, alpha=0.6, shows=())),
            ("eos is very unlikely", draw_beam(rng, n, beam=3, alpha=0.6, shows=(), ending=-20.0))]


LOG_P = "log_softmax(model(ids)[-1])"
PENALTY = "((5 + length) / 6) ** alpha"
LAST = f"last = [(ids[1:], total / {PENALTY}) for ids, total in candidates[:beam]]\n    "

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
        ),
        alternatives={
            "a for loop": {"while len(ids) <= max_len and ids[-1] != eos:":
                           "for _ in range(max_len):\n        if ids[-1] == eos:\n            break"},
            "an array that grows": {"ids = [bos]": "ids = np.array([bos])", "ids.append(np.argmax(logits))":
                                    "ids = np.append(ids, logits.argmax())"},
            "with softmax": {"np.argmax(logits)": "int(np.argmax(np.exp(logits) / np.exp(logits).sum()))"}}),
    Exercise(
        "13.3", "Beam search", minutes=40, lines=15,
        solution=beam_search, reference=by_beam_search, inputs=draw_beam, edges=other_beams, outputs=("ids", "score"),
        given=(log_softmax,),
        hints=("What do you have to keep for each unfinished hypothesis, so that the next step can extend it?",
               "Keep pairs (ids, log P). Each step makes one list with the candidates of all hypotheses, sorts it, and "
               "takes two things from it: the finished ones among the best `beam`, and the best `beam` that are not "
               "finished.",
               "The candidates of (ids, total) are (ids + [token], total + log_p[token]) for each token. Append "
               "(ids[1:], total / ((5 + length) / 6) ** alpha) to finished. The answer is the entry of finished with "
               "the highest score."),
        mistakes=(
            Mistake("BEAM-1", {LOG_P: f"np.exp({LOG_P})"},
                    "You add probabilities. The probability of a text is the product of its tokens' probabilities, so "
                    "you must add their logarithms."),
            Mistake("BEAM-2", {LOG_P: "model(ids)[-1]"},
                    "You add logits. They are not log probabilities: each row differs from them by a constant of its "
                    "own, so the sums of different texts cannot be compared. log_softmax is missing."),
            Mistake("BEAM-3a", {f" / {PENALTY}": ""},
                    "Your score is log P itself. It decreases with each token, so short texts win. The score must "
                    "account for the length."),
            Mistake("BEAM-3b", {PENALTY: "length ** alpha"},
                    "You divide log P by length^alpha. Here the divisor is ((5 + length) / 6)^alpha, which favors long "
                    "texts less."),
            Mistake("BEAM-3c", {PENALTY: "((6 + length) / 6) ** alpha"},
                    "Your length is too large by one, because it counts bos."),
            Mistake("BEAM-3d", {"key=lambda hypothesis: hypothesis[1]":
                                "key=lambda hypothesis: hypothesis[1] * ((5 + len(hypothesis[0])) / 6) ** alpha"},
                    "You compare the finished texts by log P, and account for the length only in the score that you "
                    "return. The best text is the one with the highest score.",
                    context="/ ((5 + length) / 6) ** alpha"),
            Mistake("BEAM-4a", {"ids[-1] == eos or length": "length"},
                    "You lose the finished texts. A text that ends in eos is not extended, but it must be kept, "
                    "together with its score."),
            Mistake("BEAM-4b", {" or length == max_len": ""},
                    "You lose the texts that are unfinished after max_len tokens. At that step, all of the `beam` best "
                    "candidates count as finished."),
            Mistake("BEAM-4c", {" or length == max_len": "", "ids, score = max(finished,": LAST +
                                "ids, score = max(finished or last,"},
                    "You consider the texts that are unfinished after max_len tokens only if no text has finished. At "
                    "that step, all of the `beam` best candidates always count as finished."),
            Mistake("BEAM-4d", {" or length == max_len": "", "ids, score = max(finished,": LAST +
                                "ids, score = max(finished + last if len(finished) < beam else finished,"},
                    "You consider the texts that are unfinished after max_len tokens only if fewer than `beam` texts "
                    "have finished. At that step, all of the `beam` best candidates always count as finished."),
            Mistake("BEAM-5", {"][:beam]": "][:1]"},
                    "You keep one unfinished text at each step, as greedy decoding does. Keep `beam` of them."),
            Mistake("BEAM-6", {"candidates if ids[-1] != eos": "candidates"},
                    "You extend texts after their eos. Those texts are finished; extend only the others."),
            Mistake("BEAM-7", {"candidates if ids[-1] != eos][:beam]": "candidates[:beam] if ids[-1] != eos]"},
                    "Each finished text leaves a gap in your beam. The next best unfinished candidates must fill it, "
                    "so that there are `beam` of them again."),
            Mistake("BEAM-8", {"candidates[:beam] if": "candidates if"},
                    "You finish every candidate that ends in eos, no matter how unlikely it is. It has to be among the "
                    "`beam` best candidates of its step."),
            Mistake("BEAM-10a", {"len(finished) >= beam": "finished"},
                    "You return the first finished text, or end the search with it. Continue until there are `beam` of "
                    "them, because a later one may have a higher score."),
            Mistake("BEAM-10b", {"len(finished) >= beam": "False"},
                    "You always continue to max_len. The search ends after the step at which there are `beam` or more "
                    "finished texts."),
            Mistake("BEAM-10c", {"len(finished) >= beam": "len(finished) == beam"},
                    "Your search ends only if exactly `beam` texts are finished. Several texts may finish at one step, "
                    "so there can be more."),
            Mistake("BEAM-12", {"total + log_p[token]": "log_p[token]"},
                    "Your candidate has the log probability of its last token only. Add it to log P of the hypothesis "
                    "that you extend."),
            Mistake("BEAM-13", {"finished = []": "finished, beam = [], 2"},
                    "Your code does not use the argument beam: it always keeps two hypotheses."),
        ),
        alternatives={
            "ranked by score": {"-candidate[1]": f"-candidate[1] / {PENALTY}"},
            "a few tokens per text": {"for token in range(len(log_p))": "for token in np.argsort(-log_p)[:beam + 1]"},
            "sorted in reverse": {"-candidate[1]": "candidate[1], reverse=True"}}),
]
