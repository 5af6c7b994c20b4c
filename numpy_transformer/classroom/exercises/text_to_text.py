"""Text to text: what a decoder reads and what it should say, and how many answers of each task are right."""

import numpy as np

from ...data.pairs import EOS, PAD, Pairs, unframe
from ...layers import CrossEntropyLoss
from ..exercise import Exercise, Mistake

FIRST = EOS + 1                                 # the smallest id of a text


def teacher_forcing(target):
    """What a decoder reads in training, what it should say there, and what of it counts.

    target: (B, T) integers, in each row 1 = BOS, the ids of a text (from 3 on), 2 = EOS, and then 0 = PAD, up to the
    longest row's length. In training the decoder reads the right tokens, whatever it would have said itself, and at
    each one is asked for the one that follows.
    Return three arrays (B, T - 1): decoder_input: the ids read; wanted: the id asked for at each of them; counted:
    boolean, True where wanted is not PAD. The first two are parts of target as they stand there, with the EOS and PAD
    of shorter rows: no id is replaced.
    """
    decoder_input, wanted = target[:, :-1], target[:, 1:]
    counted = wanted != 0
    return decoder_input, wanted, counted


class Ids:
    """In place of a tokenizer: texts are tuples of ids."""

    def encode(self, text):
        return np.array(text, int)

    def decode(self, ids):
        return tuple(ids.tolist())


def draw_targets(rng, lengths, V):
    """Framed texts of these lengths; V is larger than any id."""
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


def exact_match(predictions, targets, tasks, count):
    """The share of answers of each task that are exactly right, from the first token to the last.

    predictions: (N, P) and targets: (N, T) integers, a row of ids each; P and T may differ. A row is a text up to its
    first EOS, 2; neither EOS nor what stands behind it, which may be anything, is a part of the text. A row without EOS
    is a text to its end, where the decoder had to stop. In a text there is neither PAD, 0, nor BOS, 1.
    tasks: (N,) integers from 0 to count - 1, the task of each row.  count: int, the number of tasks.
    Return shares: (count,), for each task the share of its rows in which both texts are the same; 0 for a task that has
    no rows.
    """
    right = []
    for prediction, target in zip(predictions.tolist(), targets.tolist()):
        ends = [row.index(2) if 2 in row else len(row) for row in (prediction, target)]
        right.append(prediction[:ends[0]] == target[:ends[1]])
    rows = np.bincount(tasks, minlength=count)
    return np.bincount(tasks, right, count) / np.maximum(rows, 1)


def answers(rng, text, V, room):
    """Right and wrong answers to a text, and what stands behind them; the first three are right."""
    other = (text + 1 - FIRST) % (V - FIRST) + FIRST
    padding, noise, more = [EOS, *[PAD] * room], [EOS, *rng.integers(V, size=room)], [EOS, *text, EOS, *[PAD] * room]
    return [(text, padding), (text, noise), (text, more), (text[:-1], noise), ([*text, other[0]], noise),
            (text[::-1], padding), ([*text[:-1], other[-1]], padding), (other, noise)]


def draw_answers(rng, N, T, P, count, V, kinds=8):
    """Texts that fill the smaller of both widths, and shorter ones; row 0 is such a full one, and right."""
    predictions, targets = np.full((N, P), PAD), np.full((N, T), PAD)
    for i in range(N):
        length = min(T, P) - rng.integers(min(T, P) - 1) * (i > 0)
        text = rng.permutation(np.arange(FIRST, V))[:length]
        answer, behind = answers(rng, text, V, P)[i % kinds]
        predictions[i], targets[i] = [*answer, *behind][:P], [*text, EOS, *[PAD] * T][:T]
    return predictions, targets, np.append(np.arange(count), rng.integers(count, size=N - count)), count


def special_answers(rng):
    predictions, targets, tasks, count = draw_answers(rng, 17, 6, 6, 3, 30)
    return [("tasks 1 and 4 have no rows", (predictions, targets, np.where(tasks == 1, 3, tasks), count + 2)),
            ("all are right", draw_answers(rng, 12, 5, 8, 2, 30, kinds=3))]


def by_unframe(predictions, targets, tasks, count):
    shares = []
    for task in range(count):
        pairs = [(unframe(Ids(), p), unframe(Ids(), t)) for p, t, n in zip(predictions, targets, tasks) if n == task]
        shares.append(sum(prediction == target for prediction, target in pairs) / max(1, len(pairs)))
    return np.array(shares)


CUT, NEXT, COUNTED = "target[:, :-1]", "target[:, 1:]", "wanted != 0"
SAME, SHARES = "prediction[:ends[0]] == target[:ends[1]]", "np.bincount(tasks, right, count) / np.maximum(rows, 1)"

FORCING = (
    Mistake("TF-1", {NEXT: CUT},
            "wanted is what is read: nothing is shifted, and copying the token is all that would be learned. Wanted is "
            "the one that follows."),
    Mistake("TF-2", {"decoder_input, wanted = target": "wanted, decoder_input = target"},
            "The two are swapped: the decoder would read a token and be asked for the one before it."),
    Mistake("TF-3", {CUT: "target"},
            "decoder_input keeps the last column. Nothing follows there, so nothing could be asked."),
    Mistake("TF-4", {NEXT: "np.roll(target, -2, 1)[:, :-1]"},
            "wanted is shifted by two: the decoder would be asked for the token after the next."),
    Mistake("TF-5", {COUNTED: "decoder_input != 0"},
            "It is counted where something is read. At the EOS of a shorter row PAD is wanted, and that would be "
            "learned, too. Look at what is wanted."),
    Mistake("TF-6", {COUNTED: "wanted > 2"},
            "EOS does not count, so the decoder never learns to stop."),
    Mistake("TF-7", {COUNTED: "np.ones_like(wanted, dtype=bool)"},
            "Everything counts, PAD too: in short rows that is most of what would be learned."),
    Mistake("TF-8", {COUNTED: "wanted == 0"}, "counted is turned round: only PAD counts."),
    Mistake("TF-9", {COUNTED: "target != 0"},
            "counted has a column for each token of target. It belongs to wanted, which has one less."),
    Mistake("TF-10", {CUT: "target", NEXT: "np.roll(target, -1, 1)"},
            "np.roll brings BOS back at the end, where it would be asked for. Cut instead: the first column off one, "
            "the last off the other."),
    Mistake("TF-11", {CUT: "np.where(target[:, :-1] == 2, 0, target[:, :-1])"},
            "The EOS in decoder_input became PAD. That does no harm, since nothing is wanted there, but no id was to "
            "be replaced."),
    Mistake("TF-12", {CUT: "target[:, 1:-1]", NEXT: "target[:, 2:]"},
            "BOS is cut off. The decoder begins with it: at BOS it is asked for the first token."),
    Mistake("TF-13", {COUNTED: "(wanted != 0) & (decoder_input != 1)"},
            "At BOS nothing counts, so the first token is never learned."),
    Mistake("TF-14", {CUT: "target[:-1]", NEXT: "target[1:]"},
            "The shift goes along the batch: each row would be asked for the next row. Time is the second axis."),
    Mistake("TF-15", {f"decoder_input, wanted = {CUT}, {NEXT}":
                      f"decoder_input, wanted = {CUT}, {NEXT}\n    decoder_input[decoder_input == 2] = 0"},
            "A slice is a view: what is written into decoder_input stands in target and in wanted, too, and there EOS "
            "is gone."),
    Mistake("TF-16", {NEXT: "np.where(target[:, 1:] == 0, -1, target[:, 1:])", COUNTED: "wanted != -1"},
            "wanted has -1 for PAD. Some losses ignore that, but no id was to be replaced: counted tells what counts."),
    Mistake("TF-17", {"return decoder_input, wanted, counted": "return decoder_input, counted, wanted"},
            "The three come back in another order: decoder_input, wanted, counted."),
)
EXACT = (
    Mistake("EXM-1", {SAME: "prediction == target"},
            "The rows are compared to their ends. What a decoder writes behind EOS is no part of its answer."),
    Mistake("EXM-2", {SAME: "np.mean([p == t for p, t in zip(prediction, target[:ends[1]])])"},
            "That is the share of right tokens. An answer with one wrong token is wrong here."),
    Mistake("EXM-3", {"np.maximum(rows, 1)": "len(tasks)"},
            "Divided by all rows: the share is that of a task's own rows."),
    Mistake("EXM-4", {"row.index(2)": "len(row) - 1 - row[::-1].index(2)"},
            "A row is read to its last EOS. The first one ends the text."),
    Mistake("EXM-5", {"prediction[:ends[0]]": "prediction[:ends[1]]"},
            "The answer is cut to the length of the right text, so one that goes on behind it counts as right."),
    Mistake("EXM-6", {SAME: "all(p == t for p, t in zip(prediction[:ends[0]], target[:ends[1]]))"},
            "zip ends with the shorter text, so one that breaks off, or goes on, counts as right."),
    Mistake("EXM-7", {"row.index(2) if 2 in row else len(row)": "row.index(2)"},
            "There is no EOS in some rows, where the decoder had to stop: they end with the row."),
    Mistake("EXM-8", {SHARES: "np.full(count, np.mean(right))"},
            "One share for all tasks. Each has its own, or an easy task hides a hard one."),
    Mistake("EXM-9", {" / np.maximum(rows, 1)": ""},
            "Those are numbers of right answers: divide by the rows of each task."),
    Mistake("EXM-10", {"np.maximum(rows, 1)": "max(1, sum(right))"},
            "Divided by all right answers: that tells how these are spread over the tasks. The share is that of a "
            "task's own rows."),
    Mistake("EXM-11", {"np.maximum(rows, 1)": "rows"},
            "A task without rows gives 0 / 0, NaN. 0 is asked for there."),
    Mistake("EXM-12", {SHARES: "np.array([np.mean(np.array(right)[tasks == task]) for task in np.unique(tasks)])"},
            "Tasks without rows are left out, and those behind them move up. There is one share for each task, from 0 "
            "to count - 1."),
    Mistake("EXM-13", {SAME: "sorted(prediction[:ends[0]]) == sorted(target[:ends[1]])"},
            "The order is lost: the same tokens in another order are another text."),
    Mistake("EXM-14", {"row.index(2) if": "row.index(2) + 1 if"},
            "EOS is compared, too: a right text that fills its row, without EOS, would be wrong."),
    Mistake("EXM-15", {f"return {SHARES}": f"return 100 * {SHARES}"},
            "Those are per cent: a share lies between 0 and 1."),
    Mistake("EXM-16", {"2 in row": "0 in row", "row.index(2)": "row.index(0)"},
            "The texts are cut at PAD. It is EOS that ends a text; behind it anything may stand."),
    Mistake("EXM-17", {SAME: "prediction[:ends[0]] != target[:ends[1]]"}, "Those are the shares of wrong answers."),
)

EXERCISES = [
    Exercise(
        "15.1", "Teacher forcing", minutes=10, lines=3,
        solution=teacher_forcing, reference=by_pairs,
        inputs=lambda rng, n: draw_targets(rng, [n.T, 1, *rng.integers(1, n.T + 1, n.B - 2)], n.V + FIRST),
        edges=lambda rng: [("one text is empty", draw_targets(rng, [3, 0, 1], 9)),
                           ("no padding", draw_targets(rng, [4, 4], 9)),
                           ("as many rows as columns", draw_targets(rng, [4, 1, 3, 2, 4, 2], 9))],
        outputs=("decoder_input", "wanted", "counted"), mistakes=FORCING,
        invariants=(("each row must count its text and EOS",
                     lambda inputs, outputs: outputs[2].sum(1) - (inputs[0] != PAD).sum(1) + 1),),
        hints=("Write a row, BOS a b EOS PAD, and below each token what is asked for there. Which columns do you have?",
               "Both are the same row, one of them one token later. What is wanted tells what counts.",
               "target[:, :-1], target[:, 1:], and where the latter is not 0."),
        alternatives={"above 0": {COUNTED: "wanted > 0"},
                      "copies": {CUT: "target[:, :-1].copy()", NEXT: "target[:, 1:].copy()"}}),
    Exercise(
        "15.2", "Exact match", minutes=15, lines=6,
        solution=exact_match, reference=by_unframe, edges=special_answers, outputs=("shares",), mistakes=EXACT,
        inputs=lambda rng, n: draw_answers(rng, n.D + n.F, n.T, n.S, n.H + 1, n.V + n.D),
        invariants=(("a share lies between 0 and 1",
                     lambda inputs, outputs: np.maximum(outputs[0] - 1, 0) + np.maximum(-outputs[0], 0)),),
        hints=("When are two texts the same? Where does each of them end?",
               "Each ends at its own first EOS, or with its row: row.index(2) if 2 in row else len(row), for lists. "
               "Then the two pieces must be equal, and so their lengths.",
               "Collect prediction[:end] == target[:end], each with its own end; np.bincount(tasks, right, count) "
               "counts the right ones of each task, np.bincount(tasks, minlength=count) all of them."),
        alternatives={"means": {SHARES: "np.array([np.mean(np.array(right)[tasks == task]) if task in tasks else 0.0 "
                                        "for task in range(count)])"},
                      "strings": {SAME: "str(prediction[:ends[0]]) == str(target[:ends[1]])"}}),
]
