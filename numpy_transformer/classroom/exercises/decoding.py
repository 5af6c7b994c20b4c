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
            ("one token", (model, bos, eos, 1))]


def draw_beam(rng, n, max_len=None, beam=2, alpha=2.0, shows=("BEAM-3a", "BEAM-5"), hides=(), ending=1.0,
              since=1):
    """Draws arguments for which each of the mistakes in `shows` gives a different text; for most models they do not.

    Those in `hides` give the right text.
    """
    exercise = EXERCISES[-1]
    max_len = max_len or n.T
    visible, hidden = ([exercise.target(exercise.edited(wrong.edits)) for wrong in exercise.mistakes
                        if wrong.name in names] for names in (shows, hides))
    while True:
        bos, eos = map(int, rng.choice(n.V, 2, replace=False))
        inputs = draw_model(rng, max_len, n.V, eos, ending, since), bos, eos, max_len, beam, alpha
        right, *others = (text_of(target, inputs) for target in (beam_search, *visible))
        if len({right, *others}) == 1 + len(others) and all(text_of(target, inputs) == right for target in hidden):
            return inputs


def text_of(target, inputs):
    """Returns the ids that a wrong search finds, or None if nothing has finished at its end."""
    try:
        return tuple(target(*inputs)[0].tolist())
    except ValueError:
        return None


def other_beams(rng):
    small = SimpleNamespace(T=4, V=5)           # separates most mistakes
    n = SimpleNamespace(T=7, V=7)
    return [("texts end early and late", draw_beam(rng, small, shows=("BEAM-6", "BEAM-7"))),
            ("a search over many tokens", draw_beam(rng, n, shows=("BEAM-4a", "BEAM-10b"))),
            ("two texts finish at the same step",
             draw_beam(rng, SimpleNamespace(T=5, V=5), alpha=3.0, shows=("BEAM-10b",), hides=("BEAM-10d",), ending=2.0,
                       since=2)),
            ("the best candidate ends early", draw_beam(rng, small, shows=("BEAM-10f",))),
            ("the best text ends at the last step", draw_beam(rng, small, shows=("BEAM-19a",), hides=("BEAM-4b",),
                                                              ending=0.0)),
            ("unfinished texts at the end", draw_beam(rng, small, shows=("BEAM-4d",), ending=0.0)),
            ("a long text with a high log P", draw_beam(rng, SimpleNamespace(T=5, V=5), beam=3, alpha=1.0,
                                                        shows=("BEAM-3d", "BEAM-10a"), ending=0.0)),
            ("more texts finish than the beam has places", draw_beam(rng, SimpleNamespace(T=5, V=5), beam=4, alpha=2.0,
                                                                     shows=("BEAM-10c",), ending=0.0)),
            ("a larger beam", draw_beam(rng, n, beam=4, alpha=1.5, shows=("BEAM-3a", "BEAM-5", "BEAM-13"))),
            ("a beam of 1", draw_beam(rng, n, beam=1, alpha=0.6, shows=("BEAM-13",))),
            ("alpha = 0: the score is log P", draw_beam(rng, n, beam=3, alpha=0.0, shows=())),
            ("one token, and a beam that is larger than the vocabulary",
             draw_beam(rng, n, max_len=1, beam=9, alpha=4.0, shows=("BEAM-19e",))),
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
            Mistake("GRD-20", {"ids[-1] != eos": "eos not in ids[:-1]"},
                    "You generate one more token after eos. Check for eos after each new token, not before it."),
            Mistake("GRD-21", {"max_len and ids": "max_len or ids"},
                    "Your loop runs on as long as one of the two conditions holds. It must end as soon as eos is "
                    "generated, and also when there are max_len tokens."),
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
            Mistake("BEAM-3e", {PENALTY: "length"},
                    "You divide log P by the length. Here the divisor is ((5 + length) / 6)^alpha."),
            Mistake("BEAM-3f", {f" / {PENALTY}": f" * {PENALTY}"},
                    "You multiply log P by the length penalty. log P is negative, so this makes long texts even "
                    "worse. Divide by it."),
            Mistake("BEAM-3g", {PENALTY: "(5 + length / 6) ** alpha"},
                    "Parentheses are missing in your divisor: the sum 5 + length as a whole is divided by 6."),
            Mistake("BEAM-3h", {PENALTY: "((5 + length) / 6 * alpha)"},
                    "You multiply by alpha. It is an exponent."),
            Mistake("BEAM-3i", {PENALTY: "((5 + length - (ids[-1] == eos)) / 6) ** alpha"},
                    "Your length does not count eos. It counts every token after bos, including eos."),
            Mistake("BEAM-3j", {PENALTY: "((5 + max_len) / 6) ** alpha"},
                    "You use max_len in the divisor, which is the same for all texts. The length is that of the text "
                    "itself."),
            Mistake("BEAM-3k", {"np.array(ids), score": "np.array(ids), score * ((5 + len(ids)) / 6) ** alpha"},
                    "Your text is right, but you return its log P. The score is log P divided by "
                    "((5 + length) / 6)^alpha."),
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
            Mistake("BEAM-10d", {"len(finished) >= beam": "len(ended) >= beam"},
                    "You end the search only if `beam` texts finish at the same step. All finished texts count, "
                    "including those of earlier steps.", context="ended"),
            Mistake("BEAM-10e", {"len(finished) >= beam": "len(finished) > beam"},
                    "You end the search only if more than `beam` texts are finished. `beam` of them are enough."),
            Mistake("BEAM-10f", {"len(finished) >= beam": "candidates[0][0][-1] == eos"},
                    "You end the search when the best candidate of a step ends in eos. It ends when there are `beam` "
                    "or more finished texts."),
            Mistake("BEAM-10g", {"len(finished) >= beam": "length >= beam"},
                    "You count steps. The search ends when `beam` or more texts are finished, however many steps that "
                    "takes."),
            Mistake("BEAM-11a", {"max(finished, key=lambda hypothesis: hypothesis[1])": "finished[-1]"},
                    "You return the text that was finished last. The best one has the highest score, whenever it was "
                    "finished."),
            Mistake("BEAM-11b", {"max(finished": "min(finished"},
                    "You return the text with the lowest score. Scores are negative, and the best one is closest to "
                    "0."),
            Mistake("BEAM-14", {"-candidate[1]": "candidate[1]"},
                    "You sort in the wrong order, so you keep the least likely candidates."),
            Mistake("BEAM-15", {"range(len(log_p))": "[log_p.argmax()]"},
                    "You extend each hypothesis by its most likely token only, so there is never more than one "
                    "hypothesis. Extend it by every token.", twin="BEAM-26"),
            Mistake("BEAM-16", {"][:beam]": "][:beam - len(finished)]"},
                    "You keep fewer unfinished texts once others are finished. Finished texts take no place in the "
                    "beam."),
            Mistake("BEAM-17", {"finished += [(ids[1:]": "finished += [(ids"},
                    "Your text begins with bos, which does not belong to the result."),
            Mistake("BEAM-18", {"return np.array(ids), score": "return np.array(ids if ids[-1] != eos else ids[:-1]), "
                                "score"},
                    "You cut off eos. It belongs to the result if it was generated."),
            Mistake("BEAM-19a", {"max_len + 1)": "max_len)"},
                    "Your loop ends one step too early: range(1, n) stops at n - 1. Step max_len is never made, so "
                    "texts that are unfinished there are lost."),
            Mistake("BEAM-19b", {"max_len + 1)": "max_len + 2)", "length == max_len": "length == max_len + 1"},
                    "You write one token more than max_len."),
            Mistake("BEAM-19c", {"max_len + 1)": "max_len)", "length == max_len": "length == max_len - 1"},
                    "You write at most max_len - 1 tokens. max_len does not count bos.", context="max_len"),
            Mistake("BEAM-19d", {"range(1, max_len + 1)": "range(max_len)", "length == max_len": "length == max_len - "
                                 "1"},
                    "Your length is too small by one, because your steps count from 0. A text that is finished at the "
                    "first step has length 1."),
            Mistake("BEAM-19e", {"max_len + 1)": "max_len + 2)"},
                    "Your loop makes one step too many if fewer than `beam` texts are finished after step max_len. The "
                    "search always ends there."),
            Mistake("BEAM-20", {"model(ids)[-1]": "model(ids)[0]"},
                    "You take the logits from row 0 at every step. That row scores the token after bos; the next token "
                    "is scored in the row of the latest one."),
            Mistake("BEAM-21", {"model(ids)": "model(ids[-1:])"},
                    "You give the model the latest token only. The next token depends on all tokens of the "
                    "hypothesis."),
            Mistake("BEAM-22", {"log_softmax(model(ids)[-1])": "log_softmax(model(ids))[-1]"},
                    "You apply log_softmax to all rows at once. The given function normalizes one row of logits (V,), "
                    "so select the last row first."),
            Mistake("BEAM-23", {"candidates[:beam] if": "candidates[:2 * beam] if"},
                    "You finish texts among the 2 `beam` best candidates. Only the `beam` best of a step can "
                    "finish."),
            Mistake("BEAM-24", {"return np.array(ids), score": "return np.array(ids), np.exp(score)"},
                    "You return exp of the score. The score is log P, divided by the length penalty."),
            Mistake("BEAM-25", {"return np.array(ids), score": "return score, np.array(ids)"},
                    "You return the two in the wrong order. The ids come first, then the score."),
            Mistake("BEAM-26", {"    unfinished = [([bos], 0.0)]": "    beam = 1\n    unfinished = [([bos], 0.0)]"},
                    "This is greedy decoding: you keep the one best token at each step. Keep `beam` hypotheses.",
                    twin="BEAM-15"),
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
