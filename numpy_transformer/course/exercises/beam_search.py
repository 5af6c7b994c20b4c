"""Beam search: several texts at a time, from the logits of a model."""

from types import SimpleNamespace

import numpy as np

from ...decoding import beam_search as package_beam_search
from .beam_mistakes import MISTAKES, PENALTY
from .decoding import Translator, draw_model
from .definition import Exercise


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


def by_beam_search(model, bos, eos, max_len, beam, alpha):
    found, = package_beam_search(Translator(model), [[0]], bos, eos, max_len, beam, alpha, cached=False)
    return tuple(map(np.array, found[0]))


def draw_beam(rng, n, max_len=None, beam=2, alpha=2.0, shows=("BEAM-3a", "BEAM-5"), hides=(), ending=1.0,
              since=1):
    """Draws arguments for which each of the mistakes in `shows` gives a different text; for most models they do not.

    Those in `hides` give the right text.
    """
    exercise, = EXERCISES
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
    return [("texts end early and late", draw_beam(rng, small, shows=("BEAM-6", "BEAM-7"), hides=("BEAM-30",))),
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


EXERCISES = [
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
        mistakes=MISTAKES,
        alternatives={
            "ranked by score": {"-candidate[1]": f"-candidate[1] / {PENALTY}"},
            "a few tokens per text": {"for token in range(len(log_p))": "for token in np.argsort(-log_p)[:beam + 1]"},
            "sorted in reverse": {"-candidate[1]": "candidate[1], reverse=True"}}),
]
