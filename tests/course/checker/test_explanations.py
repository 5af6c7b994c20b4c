"""Explanations of mistakes use only names that the student can see, and none that only the hidden solution has."""

import ast
import re

import pytest

from numpy_transformer.course.exercises import exercises

# Names in solutions that are also words of the language or of the field, and are used as such in the explanations.
WORDS = {"axes", "candidate", "causal", "factor", "keep", "losses", "own", "right", "rows", "scale", "scores",
         "slope", "tokens"}


def names_in(text):
    """Returns the words of a text, without the s of row's and without np.var, which is NumPy's."""
    return set(re.findall(r"\w+", re.sub(r"\b's\b|\bnp\.\w+", "", text)))


def hidden_names(exercise):
    """Returns the names that the solution gives to its own variables and that the student's file does not contain."""
    own = {node.id for node in ast.walk(ast.parse(exercise.code))
           if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return own - names_in(exercise.skeleton()) - names_in(" ".join(exercise.outputs)) - WORDS


@pytest.mark.slow
@pytest.mark.parametrize("exercise", exercises().values(), ids=lambda e: f"{e.number}-{e.name}")
def test_explanations_and_invariants_do_not_use_the_names_of_hidden_variables(exercise):
    said = {mistake.name: mistake.explanation for mistake in exercise.mistakes}
    said |= {sentence: sentence for sentence, _ in exercise.invariants}
    hidden = hidden_names(exercise)
    found = {key: hidden & names_in(text) for key, text in said.items() if hidden & names_in(text)}
    assert not found


def test_a_hidden_name_is_found():
    """The test above must be able to fail: these are variables of a solution, and one of them is in its docstring."""
    assert hidden_names(exercises()["09.3"]) >= {"slope", "dt"} - WORDS
    assert "p" not in hidden_names(exercises()["05.2"]) and "ds" in hidden_names(exercises()["05.2"])
    assert "rows" in names_in("the row's rows") and not {"s", "var"} & names_in("the row's rows, np.var")
