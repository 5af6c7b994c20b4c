"""Find the bug: the same mistake on other arrays has the same name, and rounding errors are no difference."""

import functools

import numpy as np
import pytest
from helpers.answer_keys import answer_key
from helpers.students import play

from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose

RNG = np.random.default_rng(8)
X, DY = RNG.standard_normal((2, 4, 7))
TEXTS = RNG.standard_normal((3, 5, 2))
NO_PADDING = np.ones((3, 5), bool)
PADDING = np.arange(5) < [[2], [5], [3]]
CANCEL = np.array([[[0.1], [0.2], [-0.3], [7.0]]])          # 0.1 + 0.2 - 0.3 is a rounding error


@pytest.fixture
def verdict(monkeypatch):
    """Function that returns the Verdict on these arrays."""
    return functools.partial(verdict_on, monkeypatch)


def verdict_on(monkeypatch, number, *arrays):
    exercise = choose(number)
    source = f"def {exercise.name}():\n    return arrays"
    monkeypatch.setitem(exercise.header_names, "arrays", arrays)
    return judge(answer_key(exercise), play(answer_key(exercise), source))


@pytest.mark.parametrize("number, arrays, name", [
    ("08.4", (X, np.ones(7), DY), "FND-08.4a"),
    ("08.4", (X, np.ones(7), np.ones((4, 7))), "FND-08.4a"),
    ("08.4", (X, np.full(7, 3.0), np.full((4, 7), 2.0)), "FND-08.4b"),
    ("08.4", (X, np.zeros(7), DY), "FND-08.4b"),
    ("08.4", (X, np.arange(7.0), 0 * DY), "FND-08.4c"),
    ("11.6", (TEXTS, NO_PADDING), "FND-11.6a"),
    ("11.6", (0 * TEXTS, PADDING), "FND-11.6b"),
    ("11.6", (CANCEL, np.array([[True, True, True, False]])), "FND-11.6c"),
    ("06.5", (np.zeros((3, 2, 4)), np.array([[1, 0, 1, 0]] * 3)), "FND-06.5a"),
    ("06.5", (np.zeros((1, 2, 4)), np.array([[1, 0, 1, 0]])), "FND-06.5b"),
    ("06.5", (np.zeros((3, 2, 4)), np.ones((3, 4), int)), "FND-06.5c"),
    ("03.3", (np.array([[1, 2]]), np.ones((1, 2, 3))), "FND-03.3a"),
    ("01.7", (X,), "FND-01.7a"), ("01.7", (X[:1],), "FND-01.7b"),
])
def test_the_same_mistake_on_other_arrays(verdict, number, arrays, name):
    found = verdict(number, *arrays)
    assert found.status == "fail" and found.mistakes == ((name,),)


@pytest.mark.parametrize("number, arrays, status", [
    ("08.4", (X, np.arange(7.0), np.ones((4, 7))), "pass"), ("08.4", (0 * X, np.arange(7.0), DY), "pass"),
    ("08.4", (X, np.arange(7.0), DY[:3]), "fail"),                              # does not fit
    ("11.6", (TEXTS, PADDING), "pass"),
    ("11.6", (TEXTS, PADDING & False), "fail"),                                 # texts without a real token
])
def test_other_arrays_have_no_name(verdict, number, arrays, status):
    found = verdict(number, *arrays)
    assert found.status == status and not found.mistakes
