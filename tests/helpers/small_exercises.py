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
    "90.1", minutes=5, lines=3, outputs=("dx", "dw"), size_letters="TSdDFV",
    solution=products, reference=lambda x, w, dy: (dy @ w.T, x.T @ dy),
    inputs=lambda rng, n: tuple(rng.standard_normal(shape) for shape in ((n.T, n.D), (n.D, n.F), (n.T, n.F))),
    must_be_zero={"sum": lambda inputs, outputs: outputs[0].sum() - (inputs[2] @ inputs[1].T).sum()},
    mistakes=(Mistake("ONE-1", {"dy @ w.T": "2 * dy @ w.T + 1"}),
              Mistake("ONE-2", {"x.T @ dy": "x.T @ dy / len(x) + 1"}),
              Mistake("ONE-3", {"return dx, dw": "return dx + dx[0], dw"})),
    words={"case.edge": "edge", "invariant.sum": "dx must sum to what dy w gives", "ONE-1": "Twice, and one more.",
           "ONE-2": "Divided, and one more.", "ONE-3": "The first row is added.", "ONE-4": "Another way to say it.",
           "ONE-5": "Nothing is computed.", "ONE-6": "It is turned."})
KEY = AnswerKey(EXERCISE, 3)


def weighted(x, w, p):
    loss = (x * w).sum() + 1
    y = x * p
    return loss, y


SCALED = Exercise(
    "91.1", minutes=5, lines=3, outputs=("loss", "y"), size_letters="TSdDFV",
    solution=weighted, reference=lambda x, w, p: ((x * w).sum() + 1, x * p),
    inputs=lambda rng, n: (*rng.standard_normal((2, *n.lead, n.D)), float(rng.uniform(0.1, 0.4))),
    edges=lambda rng: [("zeros", (np.zeros((2, 3)), np.ones((2, 3)), 0.25)), ("ones", (*np.ones((2, 4, 3)), 0.75))],
    mistakes=(Mistake("TWO-1", {"y = x * p": "x *= p\n    y = x.copy()"}),
              Mistake("TWO-2", {"y = x * p": "y = x * p + 1"}),
              Mistake("TWO-3", {"y = x * p": "x *= p\n    y = x + 1"}),
              Mistake("TWO-5", {"y = x * p": "y = x * p\n    x[:1] *= 2 - len(x) % 2"}),
              Mistake("TWO-4", {"y = x * p": "y = x.sum(7)"})),
    words={"case.zeros": "zeros", "case.ones": "ones", "TWO-1": "x *= writes into the argument.", "TWO-2": "One more.",
           "TWO-3": "One more, and x *= writes into the argument.", "TWO-4": "There is no such axis.",
           "TWO-5": "x is changed if T is even."})
SCALED_KEY = AnswerKey(SCALED, 3)


def said(wrong, old="return dx, dw", key=KEY):
    """The verdict on the solution with this text instead of the old one."""
    source = key.exercise.edited()
    assert source.count(old) == 1
    return judge(key, play(key, source.replace(old, wrong)))


def diagnoses(verdict):
    """What the lines say that name mistakes, relations or places."""
    return [line.removeprefix("DIAGNOSIS ") for line in verdict.sentences if line.startswith("DIAGNOSIS")]
