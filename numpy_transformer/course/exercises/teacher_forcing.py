"""Teacher forcing: the inputs and targets of a decoder in training."""

import numpy as np

from ...data.pairs import EOS, PAD, Pairs, unframe
from ...layers import CrossEntropyLoss
from .definition import Exercise, Mistake

FIRST = EOS + 1                                 # the smallest id of a text


def teacher_forcing(target):
    """Splits target sequences into the decoder's inputs and the ids that it has to predict (teacher forcing).

    In training, the decoder reads the correct tokens, whatever it would have predicted itself, and has to predict the
    next token at each position.

    target: (B, T) integers. Each row is 1 = BOS, the ids of a text (at least 3), 2 = EOS, and then 0 = PAD up to the
        length of the longest row.
    Return three arrays (B, T - 1). decoder_input: the ids that the decoder reads. wanted: the id to predict at each
    position. counted: boolean, True where wanted is not PAD. The first two are unchanged parts of target, with the EOS
    and PAD of shorter rows in them.
    """
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
FORCING = (
    Mistake("TF-1", {NEXT: CUT},
            "Your wanted is the decoder's input, without a shift, so the model would learn to copy. It has to predict "
            "the next token."),
    Mistake("TF-2", {"decoder_input = target": "wanted = target", "wanted = target": "decoder_input = target"},
            "You swapped the two: the decoder would read a token and predict the one before it."),
    Mistake("TF-3", {CUT: "target"},
            "Your decoder_input includes the last column. No token follows there, so there is nothing to predict."),
    Mistake("TF-4", {NEXT: "np.roll(target, -2, 1)[:, :-1]"},
            "Your wanted is shifted by two: the decoder would predict the token after the next one."),
    Mistake("TF-5", {COUNTED: "decoder_input != 0"},
            "You count the positions at which decoder_input is not PAD. At the EOS of a shorter row, the decoder would "
            "then learn to predict PAD. What counts depends on wanted."),
    Mistake("TF-6", {COUNTED: "wanted > 2"},
            "You do not count EOS, so the decoder never learns to stop."),
    Mistake("TF-7", {COUNTED: "np.ones_like(wanted, dtype=bool)"},
            "You count everything, including PAD. In short rows, PAD would be most of what the decoder learns."),
    Mistake("TF-8", {COUNTED: "wanted == 0"}, "Your counted is the other way round: only PAD counts."),
    Mistake("TF-9", {COUNTED: "target != 0"},
            "Your counted has one column for each token of target. It belongs to wanted, which has one column less."),
    Mistake("TF-10", {CUT: "target", NEXT: "np.roll(target, -1, 1)"},
            "np.roll moves BOS to the end, where the decoder would have to predict it. Cut instead: the first column "
            "off one array, the last column off the other."),
    Mistake("TF-11", {CUT: "np.where(target[:, :-1] == 2, 0, target[:, :-1])"},
            "You replaced the EOS in decoder_input by PAD. It does no harm, because nothing counts there, but the ids "
            "must stay unchanged."),
    Mistake("TF-12", {CUT: "target[:, 1:-1]", NEXT: "target[:, 2:]"},
            "You cut off BOS. The decoder begins with it: at BOS it has to predict the first token."),
    Mistake("TF-13", {COUNTED: "(wanted != 0) & (decoder_input != 1)"},
            "You do not count the position of BOS, so the decoder never learns to predict the first token."),
    Mistake("TF-14", {CUT: "target[:-1]", NEXT: "target[1:]"},
            "You shift along the batch, so each row would have to predict the next row. The tokens are along axis 1."),
    Mistake("TF-15", {NEXT: f"{NEXT}\n    decoder_input[decoder_input == 2] = 0"},
            "A slice is a view: if you write into decoder_input, you also change target and wanted, and EOS is lost "
            "there."),
    Mistake("TF-16", {NEXT: "np.where(target[:, 1:] == 0, -1, target[:, 1:])", COUNTED: "wanted != -1"},
            "You replaced PAD by -1 in wanted. Some losses ignore -1, but here the ids must stay unchanged; counted "
            "shows what counts."),
    Mistake("TF-17", {"return decoder_input, wanted, counted": "return decoder_input, counted, wanted"},
            "You return the three arrays in the wrong order. It should be decoder_input, wanted, counted."),
    Mistake("TF-18", {NEXT: "np.where(target == 2, 0, target)[:, 1:]"},
            "You replaced EOS by PAD in wanted, so the decoder never learns to stop."),
    Mistake("TF-19", {NEXT: "target[:, 1:-1]"},
            "You also cut off the last column of wanted. Each of the two arrays loses one column, at opposite ends."),
    Mistake("TF-20", {NEXT: "target[1:]"},
            "You cut off the first row, which is a text of its own. The tokens are along axis 1."),
    Mistake("TF-21", {CUT: "target[:, 1:]"},
            "Your decoder_input equals wanted: the decoder would read the token that it has to predict. It begins with "
            "BOS."),
    Mistake("TF-22", {CUT: "np.roll(target, 1, 1)[:, :-1]"},
            "You shift decoder_input to the right, so it begins with the last entry of the row. It is target itself "
            "without the last column; only wanted is shifted."),
    Mistake("TF-23", {COUNTED: "decoder_input != 2"},
            "You leave out the position after EOS, but count the padding that follows. What counts depends on wanted: "
            "everything that is not PAD."),
    Mistake("TF-24a", {COUNTED: "(wanted != 0).sum()"},
            "Your counted is a number. It shows for each position whether it counts."),
    Mistake("TF-24b", {COUNTED: "(wanted != 0).sum(1)"},
            "Your counted is a number for each row. It shows for each position whether it counts."),
    Mistake("TF-25", {"return decoder_input, wanted, counted": "return decoder_input, wanted[counted], counted"},
            "Your wanted contains only the ids that count, without their positions. It keeps its shape; counted shows "
            "what counts."),
)

EXERCISES = [
    Exercise(
        "15.1", "Teacher forcing", minutes=10, lines=4,
        solution=teacher_forcing, reference=by_pairs,
        inputs=lambda rng, n: draw_targets(rng, [n.T, 1, *rng.integers(1, n.T + 1, n.B - 2)], n.V + FIRST),
        edges=lambda rng: [("an empty text", draw_targets(rng, [3, 0, 1], 9)),
                           ("no padding", draw_targets(rng, [4, 4], 9)),
                           ("as many rows as columns", draw_targets(rng, [4, 1, 3, 2, 4, 2], 9))],
        outputs=("decoder_input", "wanted", "counted"), mistakes=FORCING,
        invariants=(("the positions that count in a row must be as many as the tokens of its text and EOS",
                     lambda inputs, outputs: outputs[2].sum(1) - (inputs[0] != PAD).sum(1) + 1),),
        hints=("Write down a row, BOS a b EOS PAD, and below each token the one to predict there. Which columns are "
               "these?",
               "Both arrays are the same row, one of them shifted by one token. What counts depends on wanted.",
               "target[:, :-1], target[:, 1:], and where the latter is not 0."),
        alternatives={"above 0": {COUNTED: "wanted > 0"},
                      "copies": {CUT: "target[:, :-1].copy()", NEXT: "target[:, 1:].copy()"}}),
]
