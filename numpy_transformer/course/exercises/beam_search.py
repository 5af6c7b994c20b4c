"""Beam search: several texts at a time, from the logits of a model."""

from types import SimpleNamespace

import numpy as np

from ...decoding import beam_search as package_beam_search
from .decoding import Translator, draw_model
from .definition import Exercise, Mistake

PENALTY = "((5 + length) / 6) ** alpha"


def log_softmax(z):
    z = z - z.max()
    return z - np.log(np.exp(z).sum())


def beam_search(model, bos, eos, max_len, beam, alpha):
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
    sequences, = package_beam_search(Translator(model), [[0]], bos, eos, max_len, beam, alpha, cached=False)
    return tuple(map(np.array, sequences[0]))


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
    small, five, n = SimpleNamespace(T=4, V=5), SimpleNamespace(T=5, V=5), SimpleNamespace(T=7, V=7)
    return [("texts_end_early", draw_beam(rng, small, shows=("BEAM-6", "BEAM-7"), hides=("BEAM-30",))),
            ("search_over_many", draw_beam(rng, n, shows=("BEAM-4a", "BEAM-10b"))),
            ("two_texts_finish", draw_beam(rng, five, alpha=3.0, shows=("BEAM-10b", "BEAM-10e"), hides=("BEAM-10d",),
                                           ending=2.0, since=2)),
            ("best_candidate_ends", draw_beam(rng, five, alpha=3.0, shows=("BEAM-10d", "BEAM-10f"), ending=2.0)),
            ("best_text_ends", draw_beam(rng, small, shows=("BEAM-19a",), hides=("BEAM-4b",), ending=0.0)),
            ("unfinished_texts_at", draw_beam(rng, small, shows=("BEAM-4d",), ending=0.0)),
            ("long_text_high", draw_beam(rng, five, beam=3, alpha=1.0, shows=("BEAM-3d", "BEAM-10a"), ending=0.0)),
            ("more_texts_finish", draw_beam(rng, five, beam=4, alpha=2.0, shows=("BEAM-10c",), ending=0.0)),
            ("larger_beam", draw_beam(rng, n, beam=4, alpha=1.5, shows=("BEAM-3a", "BEAM-5", "BEAM-13"))),
            ("less_likely_tokens", draw_beam(rng, n, shows=("BEAM-30",))),
            ("beam_1", draw_beam(rng, n, beam=1, alpha=0.6, shows=("BEAM-13",))),
            ("alpha_0_score", draw_beam(rng, n, beam=3, alpha=0.0, shows=())),
            ("token_beam_larger", draw_beam(rng, n, max_len=1, beam=9, alpha=4.0, shows=("BEAM-19e",))),
            ("eos_very_unlikely", draw_beam(rng, n, beam=3, alpha=0.6, shows=(), ending=-20.0))]


EXERCISES = [
    Exercise(
        "13.3", minutes=40, lines=15,
        number_sizes=(), linked=(("model", "bos", "eos", "max_len"),),
        solution=beam_search, reference=by_beam_search, inputs=draw_beam, edges=other_beams, outputs=("ids", "score"),
        imported=(log_softmax,),
        mistakes=(
            Mistake("BEAM-2", {"log_softmax(model(ids)[-1])": "model(ids)[-1]"}),
            Mistake("BEAM-3a", {" / ((5 + length) / 6) ** alpha": ""}),
            Mistake("BEAM-3f", {" / ((5 + length) / 6) ** alpha": " * ((5 + length) / 6) ** alpha"}),
            Mistake("BEAM-3i", {"((5 + length) / 6) ** alpha": "((5 + length - (ids[-1] == eos)) / 6) ** alpha"}),
            Mistake("BEAM-3c", {"((5 + length) / 6) ** alpha": "((6 + length) / 6) ** alpha"}),
            Mistake("BEAM-3d", {
                "key=lambda hypothesis: hypothesis[1]":
                    "key=lambda hypothesis: hypothesis[1] * ((5 + len(hypothesis[0])) / 6) ** alpha",
                "total / ((5 + length) / 6) ** alpha": "total / ((5 + length) / 6) ** alpha"},     # with no other divisor
                context="/ ((5 + length) / 6) ** alpha"),
            Mistake("BEAM-4a", {"ids[-1] == eos or length": "length"}),
            Mistake("BEAM-4b", {" or length == max_len": ""}),
            Mistake("BEAM-4c", {
                " or length == max_len": "",
                "ids, score = max(finished,":
                    "last = [(ids[1:], total / ((5 + length) / 6) ** alpha) for ids, total in candidates[:beam]]\n"
                    "    ids, score = max(finished or last,"}),
            Mistake("BEAM-4d", {
                " or length == max_len": "",
                "ids, score = max(finished,":
                    "last = [(ids[1:], total / ((5 + length) / 6) ** alpha) for ids, total in candidates[:beam]]\n"
                    "    ids, score = max(finished + last if len(finished) < beam else finished,"}),
            Mistake("BEAM-5", {"][:beam]": "][:1]"}),
            Mistake("BEAM-6", {"candidates if ids[-1] != eos": "candidates"}),
            Mistake("BEAM-7", {"candidates if ids[-1] != eos][:beam]": "candidates[:beam] if ids[-1] != eos]"}),
            Mistake("BEAM-8", {"candidates[:beam] if": "candidates if"}),
            Mistake("BEAM-10a", {"len(finished) >= beam": "finished"}),
            Mistake("BEAM-10b", {"len(finished) >= beam": "False"}),
            Mistake("BEAM-10c", {"len(finished) >= beam": "len(finished) == beam"}),
            Mistake("BEAM-10d", {"len(finished) >= beam": "len(ended) >= beam"}, context="ended = "),
            Mistake("BEAM-10e", {"len(finished) >= beam": "len(finished) > beam"}),
            Mistake("BEAM-10f", {"len(finished) >= beam": "candidates[0][0][-1] == eos"}),
            Mistake("BEAM-10g", {"len(finished) >= beam": "length >= beam"}),
            Mistake("BEAM-11a", {"max(finished, key=lambda hypothesis: hypothesis[1])": "finished[-1]"}),
            Mistake("BEAM-14", {"-candidate[1]": "candidate[1]"}),
            Mistake("BEAM-15", {"range(len(log_p))": "[log_p.argmax()]"}, twin="BEAM-26"),
            Mistake("BEAM-19a", {"max_len + 1)": "max_len)"}),
            Mistake("BEAM-19b", {"max_len + 1)": "max_len + 2)", "length == max_len": "length == max_len + 1"}),
            Mistake("BEAM-19c", {"max_len + 1)": "max_len)", "length == max_len": "length == max_len - 1"}),
            Mistake("BEAM-19e", {"max_len + 1)": "max_len + 2)"}),
            Mistake("BEAM-22", {"log_softmax(model(ids)[-1])": "log_softmax(model(ids))[-1]"}),
            Mistake("BEAM-26", {
                "    unfinished = [([bos], 0.0)]": "    beam = 1\n    unfinished = [([bos], 0.0)]"}, twin="BEAM-15"),
            Mistake("BEAM-29", {
                "total + log_p[token]": "(total + log_p[token]) / ((5 + length) / 6) ** alpha",
                "total / ((5 + length) / 6) ** alpha": "total"}),
            Mistake("BEAM-30", {"range(len(log_p))": "np.argsort(-log_p)[:beam]"}),
            Mistake("BEAM-12", {"total + log_p[token]": "log_p[token]"}),
            Mistake("BEAM-13", {"finished = []": "finished, beam = [], 2"}),
        ),
        alternatives={
            "ranked by score": {"-candidate[1]": f"-candidate[1] / {PENALTY}"},
            "a few tokens per text": {"for token in range(len(log_p))": "for token in np.argsort(-log_p)[:beam + 1]"},
            "sorted in reverse": {"-candidate[1]": "candidate[1], reverse=True"}}),
]
