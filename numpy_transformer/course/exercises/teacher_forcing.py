"""Teacher forcing: the inputs and targets of a decoder in training."""

import numpy as np

from ...data.pairs import EOS, PAD, Pairs, unframe
from ...layers import CrossEntropyLoss
from .definition import Exercise, Mistake

FIRST = EOS + 1                                 # the smallest id of a text


def teacher_forcing(target):
    decoder_input = target[:, :-1]
    wanted = target[:, 1:]
    counted = wanted != 0
    return decoder_input, wanted, counted


class Ids:
    """Replaces the tokenizer: a text is a tuple of ids."""

    def encode(self, text):
        return np.array(text, int)

    def decode(self, ids):
        return tuple(ids.tolist())


def draw_targets(rng, lengths, V):
    """Draws texts of these lengths with BOS, EOS and PAD; V is larger than any id."""
    target = np.full((len(lengths), max(lengths) + 2), PAD)
    for row, length in zip(target, lengths):
        row[:length + 2] = 1, *rng.integers(FIRST, V, length), EOS
    return (target,)


def by_pairs(target):
    texts = [unframe(Ids(), row) for row in target]
    batch = Pairs([(text, text) for text in texts], Ids(), Ids(), len(texts), seed=0).assemble(np.arange(len(texts)))
    (_, decoder_input), wanted = batch
    _, counted = CrossEntropyLoss(ignore_id=PAD).check_targets(np.zeros((*wanted.shape, wanted.max() + 1)), wanted)
    return decoder_input, wanted, counted.reshape(wanted.shape)


CUT, NEXT, COUNTED = "target[:, :-1]", "target[:, 1:]", "wanted != 0"


EXERCISES = [
    Exercise(
        "15.1", minutes=10, lines=4,
        solution=teacher_forcing, reference=by_pairs,
        inputs=lambda rng, n: draw_targets(
            rng, rng.permutation([n.T, 1, *rng.integers(1, n.T + 1, n.B - 2)]), n.V + FIRST),
        edges=lambda rng: [("empty_text", draw_targets(rng, [1, 0, 3], 9)),
                           ("no_padding", draw_targets(rng, [4, 4], 9)),
                           ("as_many_rows", draw_targets(rng, [4, 1, 3, 2, 4, 2], 9))],
        outputs=("decoder_input", "wanted", "counted"), mistakes=(
            Mistake("TF-1", {"target[:, 1:]": "target[:, :-1]"}),
            Mistake("TF-2", {"decoder_input = target": "wanted = target", "wanted = target": "decoder_input = target"}),
            Mistake("TF-5", {"wanted != 0": "decoder_input != 0"}),
            Mistake("TF-6", {"wanted != 0": "wanted > 2"}),
            Mistake("TF-8", {"wanted != 0": "wanted == 0"}),
            Mistake("TF-11", {"target[:, :-1]": "np.where(target[:, :-1] == 2, 0, target[:, :-1])"}),
            Mistake("TF-12", {"target[:, :-1]": "target[:, 1:-1]", "target[:, 1:]": "target[:, 2:]"}),
            Mistake("TF-14", {"target[:, :-1]": "target[:-1]", "target[:, 1:]": "target[1:]"}),
            Mistake("TF-16", {
                "target[:, 1:]": "np.where(target[:, 1:] == 0, -1, target[:, 1:])",
                "wanted != 0": "wanted != -1"}),
            Mistake("TF-20", {"target[:, 1:]": "target[1:]"}),
            Mistake("TF-23", {"wanted != 0": "decoder_input != 2"}),
        ),
        must_be_zero={"positions_count_row": lambda inputs, outputs: outputs[2].sum(1) - (inputs[0] != PAD).sum(1) + 1},
        alternatives={"above 0": {COUNTED: "wanted > 0"},
                      "copies": {CUT: "target[:, :-1].copy()", NEXT: "target[:, 1:].copy()"}}),
]
