"""Exact match: the accuracy of whole answers per task."""

import numpy as np

from ...data.pairs import EOS, PAD, unframe
from .definition import Exercise, Mistake
from .teacher_forcing import FIRST, Ids


def exact_match(predictions, targets, tasks, count):
    right = []
    for prediction, target in zip(predictions.tolist(), targets.tolist()):
        ends = [row.index(2) if 2 in row else len(row) for row in (prediction, target)]
        right.append(prediction[:ends[0]] == target[:ends[1]])
    rows = np.bincount(tasks, minlength=count)
    return np.bincount(tasks, right, count) / np.maximum(rows, 1)


def answers(rng, text, V, places_left):
    """Returns right and wrong answers to a text, each with what follows it in the row; the first three are right."""
    other = (text + 1 - FIRST) % (V - FIRST) + FIRST
    padding = [EOS, *[PAD] * places_left]
    noise = [EOS, *rng.integers(V, size=places_left)]
    more = [EOS, *text, EOS, *[PAD] * places_left]
    return [(text, padding), (text, noise), (text, more), (text[:-1], noise), ([*text, other[0]], noise),
            (text[::-1], padding), ([*text[:-1], other[-1]], padding), (other, noise), ([*text, text[-1]], padding)]


def draw_answers(rng, N, T, P, count, V, kinds=9):
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


def same_digits(rng):
    """Draws rows of which two are right, and two have only the digits of the right text, such as 34 5 for 3 45."""
    a, b, c, d = map(int, rng.integers(FIRST, 10, 4))
    predictions = np.array([[10 * a + b, c, EOS, a], [10 * c + d, EOS, b, b], [a, 10 * b + c, EOS, EOS], [d, c, EOS, PAD]])
    targets = np.array([[a, 10 * b + c, EOS, PAD], [c, d, EOS, PAD], [a, 10 * b + c, EOS, PAD], [d, c, EOS, PAD]])
    return predictions, targets, np.array([0, 0, 1, 1]), 2


def special_answers(rng):
    predictions, targets, tasks, count = draw_answers(rng, 17, 6, 6, 3, 30)
    return [("tasks_1_4", (predictions, targets, np.where(tasks == 1, 3, tasks), count + 2)),
            ("answers_right", draw_answers(rng, 12, 5, 8, 2, 30, kinds=3)),
            ("row_task", draw_answers(rng, 8, 7, 6, 8, 30)),
            ("same_digits", same_digits(rng)),
            ("empty_texts_long", draw_unusual_texts(rng, 4, 7)),
            ("empty_texts_short", draw_unusual_texts(rng, 7, 4))]


def by_unframe(predictions, targets, tasks, count):
    shares = []
    for task in range(count):
        pairs = [(unframe(Ids(), p), unframe(Ids(), t)) for p, t, n in zip(predictions, targets, tasks) if n == task]
        shares.append(sum(prediction == target for prediction, target in pairs) / max(1, len(pairs)))
    return np.array(shares)


SAME = "prediction[:ends[0]] == target[:ends[1]]"
SHARES = "np.bincount(tasks, right, count) / np.maximum(rows, 1)"


EXERCISES = [
    Exercise(
        "15.2", minutes=15, lines=6,
        solution=exact_match, reference=by_unframe, edges=special_answers,
        further_edges=("same_digits",), outputs=("shares",), mistakes=(
            Mistake("EXM-1", {"prediction[:ends[0]] == target[:ends[1]]": "prediction == target"}),
            Mistake("EXM-2", {
                "prediction[:ends[0]] == target[:ends[1]]":
                    "sum(p == t for p, t in zip(prediction, target[:ends[1]])) / max(1, ends[1])"}),
            Mistake("EXM-3", {"np.maximum(rows, 1)": "len(tasks)"}),
            Mistake("EXM-4", {"row.index(2)": "len(row) - 1 - row[::-1].index(2)"}),
            Mistake("EXM-5", {"prediction[:ends[0]]": "prediction[:ends[1]]"}),
            Mistake("EXM-6", {
                "prediction[:ends[0]] == target[:ends[1]]":
                    "all(p == t for p, t in zip(prediction[:ends[0]], target[:ends[1]]))"}),
            Mistake("EXM-7", {"row.index(2) if 2 in row else len(row)": "row.index(2)"}),
            Mistake("EXM-8", {
                "np.bincount(tasks, right, count) / np.maximum(rows, 1)": "np.full(count, np.mean(right))"}),
            Mistake("EXM-11", {"np.maximum(rows, 1)": "rows"}),
            Mistake("EXM-13", {
                "prediction[:ends[0]] == target[:ends[1]]":
                    "sorted(prediction[:ends[0]]) == sorted(target[:ends[1]])"}),
            Mistake("EXM-16", {"2 in row": "0 in row", "row.index(2)": "row.index(0)"}),
            Mistake("EXM-18a", {"else len(row)": "else 0"}),
            Mistake("EXM-18e", {
                "prediction[:ends[0]] == target[:ends[1]]":
                    "2 in prediction and 2 in target and prediction[:ends[0]] == target[:ends[1]]"}),
            Mistake("EXM-18f", {"[:ends[0]] == target[:ends[1]]": "[:ends[0] + 1] == target[:ends[1] + 1]"}),
            Mistake("EXM-32", {"right, count) / ": "right, count) // "}),
            Mistake("EXM-19", {
                "prediction[:ends[0]] == target[:ends[1]]": "set(prediction[:ends[0]]) == set(target[:ends[1]])"}),
            Mistake("EXM-20b", {
                "prediction[:ends[0]] == target[:ends[1]]":
                    "all(p == t for p, t in zip(prediction, target[:ends[1]]))"}),
            Mistake("EXM-30", {
                "prediction[:ends[0]] == target[:ends[1]]": "prediction[:len(target)] == target[:len(prediction)]"}),
            Mistake("EXM-31", {
                "prediction[:ends[0]] == target[:ends[1]]":
                    "all(p == t for p, t in zip(prediction, target) if t > 2)"}),
            Mistake("EXM-24", {
                "prediction[:ends[0]] == target[:ends[1]]":
                    "[t for t in prediction if t > 2] == [t for t in target if t > 2]"}),
            Mistake("EXM-25", {
                "prediction[:ends[0]] == target[:ends[1]]":
                    "any(p == t for p, t in zip(prediction[:ends[0]], target[:ends[1]]))"}),
            Mistake("EXM-28", {
                "np.bincount(tasks, right, count) / np.maximum(rows, 1)":
                    "np.array([dict(zip(tasks.tolist(), right)).get(task, 0) for task in range(count)])"}),
        ),
        inputs=lambda rng, n: draw_answers(rng, n.D + n.F, n.T, n.S, n.H + 1, n.V + n.D),
        must_be_zero={"share_between_0":
                          lambda inputs, outputs: np.maximum(outputs[0] - 1, 0) + np.maximum(-outputs[0], 0)},
        alternatives={"with means": {SHARES: "np.array([np.mean(np.array(right)[tasks == task]) if task in tasks else "
                                             "0.0 for task in range(count)])"},
                      "strings": {SAME: "str(prediction[:ends[0]]) == str(target[:ends[1]])"}}),
]
