"""Explains a wrong answer: the known mistakes that give it, or else its relation to the correct one."""

from ...texts import Message
from ..exercises.observation import Observation, changes
from .messages import DIAGNOSIS, NO_NAME, about_mistakes, about_order, reported
from .relations import explains_everything, relations


def explain(answer_key, run, right=False):
    """Returns Messages that explain a wrong answer, and the names of the known mistakes in each possible explanation.

    Parameters:
        right : True if all values are correct, so that there is no relation between wrong and correct ones
    """
    exercise = answer_key.exercise
    found = answers(answer_key, run)
    order = about_order(exercise, run.report)
    if order:
        return [Message(DIAGNOSIS, said=order)], ()
    identified = name_mistakes(answer_key, found)
    if identified:
        names = tuple(tuple(mistake.name for mistake in mistakes) for mistakes in identified)
        return about_mistakes(identified, len(found)), names
    if right or exercise.hides_answers:         # a relation would give the answer away
        return [], ()
    sentences, facts = relations(answer_key, found)
    return [NO_NAME, *(Message(DIAGNOSIS, said=sentence) for sentence in sentences), *facts], ()


def name_mistakes(answer_key, observations):
    """Returns the combinations of known mistakes that explain what a program did in the main cases.

    Several mistakes in one output are not named if it is the correct output times a number, or the like: one wrong
    operator is one mistake.
    """
    identified = answer_key.identify(observations)
    several = [mistakes for mistakes in identified if len(mistakes) > 1]
    if any(map(answer_key.touch_the_same_output, several)) and explains_everything(answer_key, observations):
        return []
    return identified


def answers(answer_key, run):
    """Returns what the program did in the main cases, as Observations."""
    found = []
    for case, result in zip(answer_key.main_cases, run.results):
        expected_count = len(answer_key.exercise.outputs)
        complete = len(result.outputs) == expected_count and all(y is not None for y in result.outputs)
        error = reported(result.report, "error")
        if not error and not complete:
            error = "incomplete"
        if error:
            found.append(Observation(error=error))
        else:
            found.append(Observation(tuple(result.outputs), "", changes(case.arrays(), result.after)))
    return found
