"""From logits to tokens: greedy decoding and beam search."""

from types import SimpleNamespace

import numpy as np

from ...decoding import beam_search as package_beam_search
from ...decoding import greedy_decode as package_greedy_decode
from ..exercise import Exercise, Mistake
from ..worker import Function


def greedy_decode(model, bos, eos, max_len):
    """The tokens behind bos, each the likeliest one given bos and all tokens before it.

    model: a function of the ids so far, a list or a (T,) array -> logits: (T, V); row t scores the token behind ids[t].
    bos: the id that a text begins with.  eos: another id, which ends it.  max_len: the most tokens to write, 1 or more.
    Return ids: (n,), an array of whole numbers, n at most max_len: without bos, and with eos at its end if it came.
    """
    ids = [bos]
    while len(ids) <= max_len and ids[-1] != eos:
        logits = model(ids)[-1]
        ids.append(np.argmax(logits))
    return np.array(ids[1:])


def log_softmax(z):
    """z: (V,) logits.  Return (V,), the logarithms of their probabilities."""
    z = z - z.max()
    return z - np.log(np.exp(z).sum())


def beam_search(model, bos, eos, max_len, beam, alpha):
    """Follow the `beam` best unfinished texts side by side, and return the best finished one.

    At first there is one text, [bos]. In each step every unfinished text is extended by every token, and all these
    candidates are ranked by log P, the sum of the log probabilities of their tokens. Of the `beam` best candidates
    those that end in eos are finished. The `beam` best that do not end in eos are unfinished, and go on.
    In the step that writes the last token, number max_len, all of the `beam` best candidates are finished. The search
    ends there, or as soon as a step leaves `beam` or more finished texts, those of earlier steps counted.
    The best finished text has the highest score: log P / ((5 + length) / 6)^alpha, length counting eos and not bos.

    model: a function of the ids so far, a list or a (T,) array -> logits: (T, V); row t scores the token behind ids[t].
    bos, eos: different ids.  max_len, beam: whole numbers, 1 or more.  alpha: a number, 0 or more.
    Return ids: (n,), an array, without bos and with eos at its end if it came; score: a number. There are no ties.
    """
    going, finished = [([bos], 0.0)], []
    for length in range(1, max_len + 1):
        candidates = []
        for ids, total in going:
            log_p = log_softmax(model(ids)[-1])
            candidates += [([*ids, token], total + log_p[token]) for token in range(len(log_p))]
        candidates.sort(key=lambda candidate: -candidate[1])
        ended = [(ids, total) for ids, total in candidates[:beam] if ids[-1] == eos or length == max_len]
        finished += [(ids[1:], total / ((5 + length) / 6) ** alpha) for ids, total in ended]
        if len(finished) >= beam:
            break
        going = [(ids, total) for ids, total in candidates if ids[-1] != eos][:beam]
    ids, score = max(finished, key=lambda text: text[1])
    return np.array(ids), score


class Translator:
    """A function of ids in the form that the package decodes: an EncoderDecoder whose source says nothing."""

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
    """Logits that depend on all tokens so far and on their places, and have no ties; `ending` makes eos likelier."""
    table = rng.standard_normal((max_len + 3, V, V))
    table[0, :, eos] += ending
    return Function("lambda ids: np.cumsum(table[np.arange(len(ids)), ids], 0)", table=table)


def draw_greedy(rng, n):
    """eos is a token that greedy decoding meets in its third step or later, but not in the last."""
    while True:
        model, bos, max_len = draw_model(rng, n.S, n.V), int(rng.integers(1, n.V)), n.S
        path = greedy_decode(model, bos, -1, max_len).tolist()
        late = [token for token in path[2:-1] if token not in path[:2]]
        if late and bos not in path:
            return model, bos, late[0], max_len


def other_ends(rng):
    """eos is never met, or at once; and a single step, in which nothing can be fed back wrongly."""
    model, bos, eos, max_len = draw_greedy(rng, SimpleNamespace(S=6, V=9))
    path = greedy_decode(model, bos, -1, max_len).tolist()
    never = next(token for token in range(9) if token not in (*path, bos))
    return [("eos is not reached", (model, bos, never, max_len)), ("eos comes first", (model, bos, path[0], max_len)),
            ("one token", (model, bos, eos, 1))]


def draw_beam(rng, n, max_len=None, beam=2, alpha=2.0, shows=("BEAM-3a", "BEAM-5"), ending=1.0):
    """Arguments for which these mistakes lead to other texts, each to its own: most models are too simple for that."""
    exercise, max_len = EXERCISES[-1], max_len or n.T
    targets = [exercise.target(exercise.edited(wrong.edits)) for wrong in exercise.mistakes if wrong.name in shows]
    while True:
        bos, eos = map(int, rng.choice(n.V, 2, replace=False))
        inputs = draw_model(rng, max_len, n.V, eos, ending), bos, eos, max_len, beam, alpha
        texts = {tuple(target(*inputs)[0].tolist()) for target in (beam_search, *targets)}
        if len(texts) == 1 + len(targets):
            return inputs


def other_beams(rng):
    small, n = SimpleNamespace(T=4, V=5), SimpleNamespace(T=7, V=7)       # the small one tells most mistakes apart
    return [("texts end early and late", draw_beam(rng, small, shows=("BEAM-6", "BEAM-7"))),
            ("a search over many tokens", draw_beam(rng, n, shows=("BEAM-4a", "BEAM-10b"))),
            ("unfinished texts at the end", draw_beam(rng, small, shows=("BEAM-4d",), ending=0.0)),
            ("a long text of high log P", draw_beam(rng, SimpleNamespace(T=5, V=5), beam=3, alpha=1.0,
                                                    shows=("BEAM-3d", "BEAM-10a"), ending=0.0)),
            ("a wider beam", draw_beam(rng, n, beam=4, alpha=1.5)),
            ("a beam of 1", draw_beam(rng, n, beam=1, alpha=0.6, shows=())),
            ("plain log P", draw_beam(rng, n, beam=3, alpha=0.0, shows=())),
            ("one token", draw_beam(rng, n, max_len=1, beam=3, alpha=0.6, shows=())),
            ("eos is hardly possible", draw_beam(rng, n, beam=3, alpha=0.6, shows=(), ending=-20.0))]


LOG_P = "log_softmax(model(ids)[-1])"
PENALTY = "((5 + length) / 6) ** alpha"
LAST = f"last = [(ids[1:], total / {PENALTY}) for ids, total in candidates[:beam]]\n    "

EXERCISES = [
    Exercise(
        "12.1", "Greedy decoding", minutes=15, lines=5,
        solution=greedy_decode, reference=by_greedy_decode, inputs=draw_greedy, edges=other_ends, outputs=("ids",),
        hints=("What does the model have to see in step 3 that it did not see in step 2? And what ends the loop?",
               "Begin with [bos]. Each step: the last row of model(ids), its largest entry's place, append. Two "
               "things end it.",
               "while len(ids) <= max_len and ids[-1] != eos: ids.append(np.argmax(model(ids)[-1])); the result is "
               "ids[1:]."),
        mistakes=(
            Mistake("GRD-1", {" and ids[-1] != eos": ""},
                    "The writing goes on behind eos. eos says that the text has ended: stop once it has been "
                    "appended."),
            Mistake("GRD-2", {"ids[1:]": "ids"},
                    "The result begins with bos. The model has not written that one: the text begins behind it."),
            Mistake("GRD-3", {"np.argmax": "np.argmin"}, "In each step the least likely token is taken."),
            Mistake("GRD-4a", {"model(ids)[-1]": "model(ids)[0]"},
                    "The logits are taken from row 0, which scores the token behind bos, in every step. The next token "
                    "is scored behind the last one.", twin="GRD-10"),
            Mistake("GRD-4b", {"model(ids)[-1]": "model(ids)"},
                    "The largest of all T V logits is taken, and argmax counts through all rows. Only one row scores "
                    "the next token."),
            Mistake("GRD-4c", {"model(ids)[-1]": "model(ids)[:, -1]"},
                    "[:, -1] takes the last column: the logit of the last word of the vocabulary, at each place. That "
                    "would be right for logits (B, T, V); here they are (T, V)."),
            Mistake("GRD-5", {"model(ids)": "model(ids[-1:])"},
                    "The model is given the last token alone. The next token depends on all tokens so far, and a model "
                    "knows only what it is given."),
            Mistake("GRD-6", {"ids[1:]": "[token for token in ids[1:] if token != eos]"},
                    "eos is left out of the result. Here it stays: it tells that the text has ended, and was not cut "
                    "off."),
            Mistake("GRD-7a", {"len(ids) <= max_len": "len(ids) < max_len"},
                    "One token too few is written where eos does not come: max_len counts the tokens behind bos."),
            Mistake("GRD-7b", {"len(ids) <= max_len": "len(ids) <= max_len + 1"},
                    "One token too many is written where eos does not come: max_len is the most tokens to write."),
            Mistake("GRD-8", {"np.array(ids[1:])": "np.array(ids[1:] + [eos] * (max_len + 1 - len(ids)))"},
                    "The result is filled up with eos to max_len. One text needs no filling: it ends with the first "
                    "eos."),
            Mistake("GRD-9", {"np.argmax(logits)": "logits.max()"},
                    "The largest logit itself is appended. The token is the place where it stands."),
            Mistake("GRD-10", {"model(ids)": "model([bos])"},
                    "The model is asked about bos alone in every step, so it always answers the same. Give it back "
                    "what it wrote.", twin="GRD-4a"),
        ),
        alternatives={
            "a for loop": {"while len(ids) <= max_len and ids[-1] != eos:":
                           "for _ in range(max_len):\n        if ids[-1] == eos:\n            break"},
            "an array that grows": {"ids = [bos]": "ids = np.array([bos])", "ids.append(np.argmax(logits))":
                                    "ids = np.append(ids, logits.argmax())"},
            "by softmax": {"np.argmax(logits)": "int(np.argmax(np.exp(logits) / np.exp(logits).sum()))"}}),
    Exercise(
        "13.3", "Beam search", minutes=40, lines=14,
        solution=beam_search, reference=by_beam_search, inputs=draw_beam, edges=other_beams, outputs=("ids", "score"),
        given=(log_softmax,),
        hints=("What has to be kept of each unfinished text, so that the next step can go on from it?",
               "Keep pairs (ids, log P). A step makes one list of the candidates of all texts, sorts it, and takes "
               "two things from it: what has ended among the best `beam`, and the best `beam` that have not.",
               "candidates of (ids, total): (ids + [token], total + log_p[token]) for each token. finished gets "
               "(ids[1:], total / ((5 + length) / 6) ** alpha). The answer is the finished one of the largest score."),
        mistakes=(
            Mistake("BEAM-1", {LOG_P: f"np.exp({LOG_P})"},
                    "Probabilities are added. That of a text is the product of its tokens' probabilities, so their "
                    "logarithms are what adds up."),
            Mistake("BEAM-2", {LOG_P: "model(ids)[-1]"},
                    "Logits are added. They are no log probabilities: each row is off by a number of its own, so texts "
                    "cannot be compared. log_softmax is missing."),
            Mistake("BEAM-3a", {f" / {PENALTY}": ""},
                    "The score is plain log P. It falls with each token, so short texts win; the length has to be "
                    "accounted for."),
            Mistake("BEAM-3b", {PENALTY: "length ** alpha"},
                    "log P is divided by length^alpha. Here it is ((5 + length) / 6)^alpha, which favors long texts "
                    "less."),
            Mistake("BEAM-3c", {PENALTY: "((6 + length) / 6) ** alpha"},
                    "The length is one too large: bos does not count."),
            Mistake("BEAM-3d", {"key=lambda text: text[1]":
                                "key=lambda text: text[1] * ((5 + len(text[0])) / 6) ** alpha"},
                    "The finished texts are compared by log P, and the length is only accounted for in the score that "
                    "is returned. The best text is the one of the highest score."),
            Mistake("BEAM-4a", {"ids[-1] == eos or length": "length"},
                    "Finished texts are dropped: what ends in eos does not go on, and nobody keeps it. Put it aside "
                    "with its score."),
            Mistake("BEAM-4b", {" or length == max_len": ""},
                    "What is unfinished after max_len tokens is lost. There the `beam` best candidates count as "
                    "finished."),
            Mistake("BEAM-4c", {" or length == max_len": "", "ids, score = max(finished,": LAST +
                                "ids, score = max(finished or last,"},
                    "What is unfinished after max_len tokens counts only if nothing else has finished. There the "
                    "`beam` best candidates count as finished in any case."),
            Mistake("BEAM-4d", {" or length == max_len": "", "ids, score = max(finished,": LAST +
                                "ids, score = max(finished + last if len(finished) < beam else finished,"},
                    "What is unfinished after max_len tokens counts only if fewer than `beam` texts have finished. "
                    "There the `beam` best candidates count as finished in any case."),
            Mistake("BEAM-5", {"][:beam]": "][:1]"},
                    "One unfinished text is kept in each step, as in greedy decoding. Follow `beam` of them."),
            Mistake("BEAM-6", {"candidates if ids[-1] != eos": "candidates"},
                    "Texts that have ended are extended behind eos. They are finished: only the others go on."),
            Mistake("BEAM-7", {"candidates if ids[-1] != eos][:beam]": "candidates[:beam] if ids[-1] != eos]"},
                    "Each text that ends leaves a gap in the beam. The next best unfinished candidates fill it up to "
                    "`beam`."),
            Mistake("BEAM-8", {"candidates[:beam] if": "candidates if"},
                    "Every candidate with eos counts as finished, however unlikely it is. It has to be among the "
                    "`beam` best candidates of its step."),
            Mistake("BEAM-10a", {"len(finished) >= beam": "finished"},
                    "The first finished text is returned, or the search ends with it. It goes on until there are "
                    "`beam` of them: one that comes later may have a higher score."),
            Mistake("BEAM-10b", {"len(finished) >= beam": "False"},
                    "The search always goes on to max_len. It ends after the step in which the finished texts are "
                    "`beam` or more."),
            Mistake("BEAM-12", {"total + log_p[token]": "log_p[token]"},
                    "A candidate has the log probability of its last token alone. It is added to that of the text so "
                    "far."),
        ),
        alternatives={
            "ranked by score": {"-candidate[1]": f"-candidate[1] / {PENALTY}"},
            "few tokens of each text": {"for token in range(len(log_p))": "for token in np.argsort(-log_p)[:beam + 1]"},
            "the sort reversed": {"-candidate[1]": "candidate[1], reverse=True"}}),
]
