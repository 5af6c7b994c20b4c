"""Two small exercises with known mistakes, and what the checker says of wrong answers to them."""

import numpy as np

from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises.definition import Exercise, Mistake

from .students import play


def products(x, w, dy):
    dx = dy @ w.T
    dw = x.T @ dy
    return dx, dw


EXERCISE = Exercise(
    "90.1", "Products", minutes=5, lines=3, hints=("a.", "b.", "c."), outputs=("dx", "dw"),
    solution=products, reference=lambda x, w, dy: (dy @ w.T, x.T @ dy),
    inputs=lambda rng, n: tuple(rng.standard_normal(shape) for shape in ((n.T, n.D), (n.D, n.F), (n.T, n.F))),
    invariants=(("dx must sum to what dy w gives",
                 lambda inputs, outputs: outputs[0].sum() - (inputs[2] @ inputs[1].T).sum()),),
    mistakes=(Mistake("ONE-1", {"dy @ w.T": "2 * dy @ w.T + 1"}, "Twice, and one more."),
              Mistake("ONE-2", {"x.T @ dy": "x.T @ dy / len(x) + 1"}, "Divided, and one more."),
              Mistake("ONE-3", {"return dx, dw": "return dx + dx[0], dw"}, "The first row is added.")))
KEY = AnswerKey(EXERCISE, 3)


def weighted(x, w, p):
    loss = (x * w).sum() + 1
    y = x * p
    return loss, y


SCALED = Exercise(
    "91.1", "Weighted", minutes=5, lines=3, hints=("a.", "b.", "c."), outputs=("loss", "y"),
    solution=weighted, reference=lambda x, w, p: ((x * w).sum() + 1, x * p),
    inputs=lambda rng, n: (*rng.standard_normal((2, *n.lead, n.D)), float(rng.uniform(0.1, 0.4))),
    edges=lambda rng: [("zeros", (np.zeros((2, 3)), np.ones((2, 3)), 0.25)), ("ones", (*np.ones((2, 4, 3)), 0.75))],
    mistakes=(Mistake("TWO-1", {"y = x * p": "x *= p\n    y = x.copy()"}, "x *= writes into the argument."),
              Mistake("TWO-2", {"y = x * p": "y = x * p + 1"}, "One more."),
              Mistake("TWO-3", {"y = x * p": "x *= p\n    y = x + 1"}, "One more, and x *= writes into the argument."),
              Mistake("TWO-5", {"y = x * p": "y = x * p\n    x[:1] *= 2 - len(x) % 2"}, "x is changed if T is even."),
              Mistake("TWO-4", {"y = x * p": "y = x.sum(7)"}, "There is no such axis.")))
SCALED_KEY = AnswerKey(SCALED, 3)


def said(wrong, old="return dx, dw", key=KEY):
    """The verdict on the solution with this text instead of the old one."""
    source = key.exercise.edited()
    assert source.count(old) == 1
    return judge(key, play(key, source.replace(old, wrong)))


def diagnoses(verdict):
    """What the lines say that name mistakes, relations or places."""
    return [line.removeprefix("DIAGNOSIS ") for line in verdict.sentences if line.startswith("DIAGNOSIS")]
