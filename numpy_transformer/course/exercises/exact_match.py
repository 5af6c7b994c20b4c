"""Exact match: the accuracy of whole answers per task."""

import numpy as np

from ...data.pairs import EOS, PAD, unframe
from .definition import Exercise, Mistake
from .teacher_forcing import FIRST, Ids


def exact_match(predictions, targets, tasks, count):
    """Computes the share of exactly right answers for each task (exact match).

    predictions: (N, P) and targets: (N, T) integers, one row of ids per text; P and T may differ. The text of a row
        ends before its first EOS, 2. What follows EOS is arbitrary and not part of the text. A row without EOS is a
        text that fills the row, because the decoder had to stop. PAD, 0, and BOS, 1, do not occur in a text.
    tasks: (N,) integers from 0 to count - 1, the task of each row.
    count: int, the number of tasks.
    Return shares: (count,), for each task the share of its rows in which both texts are the same, and 0 for a task
    without rows.
    """
    right = []
    for prediction, target in zip(predictions.tolist(), targets.tolist()):
        ends = [row.index(2) if 2 in row else len(row) for row in (prediction, target)]
        right.append(prediction[:ends[0]] == target[:ends[1]])
    rows = np.bincount(tasks, minlength=count)
    return np.bincount(tasks, right, count) / np.maximum(rows, 1)


def answers(rng, text, V, room):
    """Returns right and wrong answers to a text, each with what follows it in the row; the first three are right."""
    other = (text + 1 - FIRST) % (V - FIRST) + FIRST
    padding = [EOS, *[PAD] * room]
    noise = [EOS, *rng.integers(V, size=room)]
    more = [EOS, *text, EOS, *[PAD] * room]
    return [(text, padding), (text, noise), (text, more), (text[:-1], noise), ([*text, other[0]], noise),
            (text[::-1], padding), ([*text[:-1], other[-1]], padding), (other, noise)]


def draw_answers(rng, N, T, P, count, V, kinds=8):
    """Draws texts of various lengths; that of row 0 fills the narrower array and has a right answer."""
    predictions, targets = np.full((N, P), PAD), np.full((N, T), PAD)
    for i in range(N):
        length = min(T, P) - rng.integers(min(T, P) - 1) * (i > 0)
        text = rng.permutation(np.arange(FIRST, V))[:length]
        answer, rest = answers(rng, text, V, P)[i % kinds]
        predictions[i] = [*answer, *rest][:P]
        targets[i] = [*text, EOS, *[PAD] * T][:T]
    return predictions, targets, np.append(np.arange(count), rng.integers(count, size=N - count)), count


def draw_unusual_texts(rng, T, P, V=30):
    """Draws answers of which one has no EOS, as its target, and three are empty, or should be."""
    predictions, targets, tasks, count = draw_answers(rng, 12, T, P, 2, V)
    words = rng.permutation(np.arange(FIRST, V))
    predictions[2], targets[2] = words[:P], words[:T]       # the same up to the end of the narrower array
    predictions[4:6, 0] = targets[5:7, 0] = EOS             # 4: no answer, 5: both are empty, 6: no answer was wanted
    return predictions, targets, tasks, count


def special_answers(rng):
    predictions, targets, tasks, count = draw_answers(rng, 17, 6, 6, 3, 30)
    return [("tasks 1 and 4 have no rows", (predictions, targets, np.where(tasks == 1, 3, tasks), count + 2)),
            ("all answers are right", draw_answers(rng, 12, 5, 8, 2, 30, kinds=3)),
            ("one row for each task", draw_answers(rng, 8, 7, 6, 8, 30)),
            ("empty texts, and a long answer without EOS", draw_unusual_texts(rng, 4, 7)),
            ("empty texts, and a short answer without EOS", draw_unusual_texts(rng, 7, 4))]


def by_unframe(predictions, targets, tasks, count):
    shares = []
    for task in range(count):
        pairs = [(unframe(Ids(), p), unframe(Ids(), t)) for p, t, n in zip(predictions, targets, tasks) if n == task]
        shares.append(sum(prediction == target for prediction, target in pairs) / max(1, len(pairs)))
    return np.array(shares)


SAME = "prediction[:ends[0]] == target[:ends[1]]"
SHARES = "np.bincount(tasks, right, count) / np.maximum(rows, 1)"

EXACT = (
    Mistake("EXM-1", {SAME: "prediction == target"},
            "You compare the whole rows. What a decoder writes after EOS is not part of its answer."),
    Mistake("EXM-2", {SAME: "sum(p == t for p, t in zip(prediction, target[:ends[1]])) / max(1, ends[1])"},
            "You return the share of right tokens. Here an answer with one wrong token is wrong."),
    Mistake("EXM-3", {"np.maximum(rows, 1)": "len(tasks)"},
            "You divide by the number of all rows. The share is among the rows of each task."),
    Mistake("EXM-4", {"row.index(2)": "len(row) - 1 - row[::-1].index(2)"},
            "You read each row up to its last EOS. The first EOS ends the text."),
    Mistake("EXM-5", {"prediction[:ends[0]]": "prediction[:ends[1]]"},
            "You cut the answer to the length of the right text, so an answer that continues after it counts as "
            "right."),
    Mistake("EXM-6", {SAME: "all(p == t for p, t in zip(prediction[:ends[0]], target[:ends[1]]))"},
            "zip stops at the end of the shorter text, so an answer that is too short or too long counts as right."),
    Mistake("EXM-7", {"row.index(2) if 2 in row else len(row)": "row.index(2)"},
            "Some rows have no EOS, because the decoder had to stop. Their text ends with the row."),
    Mistake("EXM-8", {SHARES: "np.full(count, np.mean(right))"},
            "You return one share for all tasks. Each task needs its own; otherwise an easy task hides a hard one."),
    Mistake("EXM-9", {" / np.maximum(rows, 1)": ""},
            "You return the number of right answers. Divide it by the number of rows of each task."),
    Mistake("EXM-10", {"np.maximum(rows, 1)": "max(1, sum(right))"},
            "You divide by the number of all right answers, which shows how they are distributed over the tasks. The "
            "share is among the rows of each task."),
    Mistake("EXM-11", {"np.maximum(rows, 1)": "rows"},
            "A task without rows gives 0 / 0, which is NaN. Its share should be 0."),
    Mistake("EXM-12", {SHARES: "np.array([np.mean(np.array(right)[tasks == task]) for task in np.unique(tasks)])"},
            "You leave out tasks without rows, so the following shares have the wrong index. There is one share for "
            "each task from 0 to count - 1."),
    Mistake("EXM-13", {SAME: "sorted(prediction[:ends[0]]) == sorted(target[:ends[1]])"},
            "You ignore the order. The same tokens in another order are another text."),
    Mistake("EXM-14", {"row.index(2) if": "row.index(2) + 1 if"},
            "You also compare EOS. A right answer that fills its row has no EOS and would count as wrong."),
    Mistake("EXM-15", {f"return {SHARES}": f"return 100 * {SHARES}"},
            "You return percentages. A share is between 0 and 1."),
    Mistake("EXM-16", {"2 in row": "0 in row", "row.index(2)": "row.index(0)"},
            "You cut the texts at PAD. A text ends at EOS, and anything may follow it."),
    Mistake("EXM-17", {SAME: "prediction[:ends[0]] != target[:ends[1]]"}, "You return the shares of wrong answers."),
    Mistake("EXM-18a", {"else len(row)": "else 0"},
            "You treat a row without EOS as an empty text. It is a text that fills the row."),
    Mistake("EXM-18b", {"else len(row)": "else len(row) - 1"},
            "You cut off the last token of a row without EOS. Such a text fills the row."),
    Mistake("EXM-18c", {SAME: f"2 in prediction and {SAME}"},
            "You count an answer without EOS as wrong. It is right if it fills its row with the right text."),
    Mistake("EXM-18e", {SAME: f"2 in prediction and 2 in target and {SAME}"},
            "You count a row as wrong if the answer or the right text has no EOS. Such a text fills its row, and is "
            "compared like any other."),
    Mistake("EXM-18d", {"else len(row)": "else len(target)"},
            "A row without EOS ends where this row ends, not where that of the other array ends: predictions and "
            "targets may differ in length."),
    Mistake("EXM-19", {SAME: "set(prediction[:ends[0]]) == set(target[:ends[1]])"},
            "You compare which tokens occur, not their order and number. Another order is another text."),
    Mistake("EXM-20a", {SAME: "target[:ends[1]][:ends[0]] == prediction[:ends[0]]"},
            "You compare only as many tokens as the answer has, so an answer that stops too early counts as right."),
    Mistake("EXM-20b", {SAME: "all(p == t for p, t in zip(prediction, target[:ends[1]]))"},
            "You compare only the tokens of the right text, so an answer that continues after it counts as right. The "
            "answer must end there, too."),
    Mistake("EXM-30", {SAME: "prediction[:len(target)] == target[:len(prediction)]"},
            "You compare all columns that both arrays have. What follows EOS is not part of a text."),
    Mistake("EXM-31", {SAME: "all(p == t for p, t in zip(prediction, target) if t > 2)"},
            "You compare wherever the right row has neither EOS nor PAD. An answer that continues after its text then "
            "counts as right, and what follows EOS in the right row is compared too."),
    Mistake("EXM-21", {"np.bincount(tasks, minlength=count)": "np.bincount(tasks)",
                       "np.bincount(tasks, right, count)": "np.bincount(tasks, right)"},
            "Your result ends at the last task that has rows. There is one share for each task from 0 to count - 1."),
    Mistake("EXM-22", {"np.maximum(rows, 1)": "(rows + 1)"},
            "You add 1 to the number of rows, also where it is not 0, so all shares become too small."),
    Mistake("EXM-23", {SHARES: f"np.where(rows == 0, 1.0, {SHARES})"},
            "Your share of a task without rows is 1. It should be 0."),
    Mistake("EXM-24", {SAME: "[t for t in prediction if t > 2] == [t for t in target if t > 2]"},
            "You take out EOS and PAD and compare what is left. What follows the first EOS is not part of the text, "
            "even if it is a word."),
    Mistake("EXM-25", {SAME: "any(p == t for p, t in zip(prediction[:ends[0]], target[:ends[1]]))"},
            "Your answer counts as right as soon as one token is right. All of them must be."),
    Mistake("EXM-26", {"np.maximum(rows, 1)": "count"},
            "You divide by the number of tasks. Divide by the number of rows of each task."),
    Mistake("EXM-27", {"/ np.maximum": "// np.maximum"},
            "// rounds down, so every share below 1 becomes 0. Divide with /."),
    Mistake("EXM-28", {SHARES: "np.array([dict(zip(tasks.tolist(), right)).get(task, 0) for task in range(count)])"},
            "Each row overwrites the result of the rows before it, so your shares show the last row of each task only. "
            "Add them up."),
    Mistake("EXM-29", {SAME: f"ends[1] > 0 and {SAME}"},
            "You never count an empty text as right. If both texts are empty, they are the same."),
)

EXERCISES = [
    Exercise(
        "15.2", "Exact match", minutes=15, lines=6,
        solution=exact_match, reference=by_unframe, edges=special_answers, outputs=("shares",), mistakes=EXACT,
        inputs=lambda rng, n: draw_answers(rng, n.D + n.F, n.T, n.S, n.H + 1, n.V + n.D),
        invariants=(("a share must be between 0 and 1",
                     lambda inputs, outputs: np.maximum(outputs[0] - 1, 0) + np.maximum(-outputs[0], 0)),),
        hints=("When are two texts the same? Where does each of them end?",
               "Each ends at its own first EOS, or with its row: row.index(2) if 2 in row else len(row), for lists. "
               "Then the two pieces must be equal, which includes their lengths.",
               "Collect prediction[:end] == target[:end], each with its own end. np.bincount(tasks, right, count) "
               "counts the right answers of each task, np.bincount(tasks, minlength=count) all of its rows."),
        alternatives={"with means": {SHARES: "np.array([np.mean(np.array(right)[tasks == task]) if task in tasks else "
                                             "0.0 for task in range(count)])"},
                      "strings": {SAME: "str(prediction[:ends[0]]) == str(target[:ends[1]])"}}),
]
