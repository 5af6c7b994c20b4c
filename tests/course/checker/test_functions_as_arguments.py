"""Functions among the arguments may return their own argument, so that what they return must not be changed in place."""

import pytest
from helpers.answer_keys import answer_key
from helpers.students import judged, play

from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose, exercises
from numpy_transformer.course.exercises.further_cases import Watched
from numpy_transformer.course.sandbox import Function
from numpy_transformer.texts import render

IN_PLACE = {"10.1": "dx = f_b(dy)\ndx += dy\nreturn dx",
            "10.2": "for norm, sublayer in zip(norms, sublayers):\n    y = sublayer(norm(x))\n    y += x\n    x = y\n"
                    "return final_norm(x)",
            "10.3": "dx = final_norm_b(dy)\nfor norm_b, f_b in list(zip(norms_b, sublayers_b))[::-1]:\n"
                    "    dx += norm_b(f_b(dx))\nreturn dx",
            "10.4": "dx = dy\nfor norm_b, f_b in list(zip(norms_b, sublayers_b))[::-1]:\n    du = norm_b(dx)\n"
                    "    du += f_b(du)\n    dx = du\nreturn dx"}


@pytest.mark.parametrize("number", IN_PLACE)
def test_what_a_function_returned_may_be_the_argument_itself(number):
    verdict = judged(answer_key(choose(number)), IN_PLACE[number])
    assert verdict.status == "fail" and verdict.stage in ("arguments changed", "functions")
    assert "functions that return their own argument" in verdict.sentences[0]
    assert verdict.sentences[-1].endswith("write a = a + b, not a += b.")


def test_a_class_that_changes_what_a_part_returned():
    exercise = choose("10.5")
    source = exercise.edited({"a = x + self.attention.forward(self.norm1.forward(x))":
                              "a = self.attention.forward(self.norm1.forward(x))\n        a += x"})
    verdict = judge(answer_key(exercise), play(answer_key(exercise), source))
    assert verdict.stage == "functions" and "The values are correct" not in " ".join(map(render, verdict.lines))


@pytest.mark.slow
def test_the_exercises_with_functions_that_can_return_their_argument():
    """A model that takes ids and returns logits cannot, and neither can a function whose value is a number."""
    found = [number for number, exercise in exercises().items()
             if any(case.role == "functions" for case in exercise.cases(0))]
    assert found == ["10.1", "10.2", "10.3", "10.4", "10.5"]


def test_a_function_returns_an_argument_that_looks_like_its_result():
    x, w = answer_key(choose("02.1")).cases[0].inputs[:2]
    first, second = Watched(Function("lambda x, w: 2 * x")), Watched(Function("lambda x, w: (2 * w, x.sum())"))
    for watched in (first, second):
        watched(x, w)
    assert first.returning()(x, w) is x
    assert second.returning()(x, w)[0] is w and second.returning()(x, w)[1] == x.sum()
    third = Watched(Function("lambda x: x.sum(0)"))
    third(x)
    assert third.returning() is third.function
