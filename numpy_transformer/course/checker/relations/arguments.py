"""Which arguments an answer does not depend on, although the correct one does."""

from ....texts import Message, listed
from ...exercises.further_cases import exact
from ...exercises.observation import same_array


def unused(answer_key, results):
    """Returns a Message about arguments that can be changed alone without a change of the answer, or None.

    Parameters:
        results : what a program returned in each case, the further ones included
    """
    exercise, cases = answer_key.exercise, answer_key.cases
    if exercise.is_class or exercise.hides_answers or any(y.dtype.kind != "f" for y in answer_key.expected[0].outputs):
        return None                             # whole numbers and booleans are often the same by chance
    same, other = set(), set()
    for i, case in enumerate(cases):
        if case.role != "other" or not results[i].outputs:
            continue
        first = cases.index(case.reuses)
        changed = [name for name, a, b in zip(exercise.parameters, case.reuses.inputs, case.inputs) if exact(a) != exact(b)]
        if len(changed) != 1 or equal(answer_key.expected_in(i).outputs, answer_key.expected_in(first).outputs):
            continue
        (same if equal(results[i].outputs, results[first].outputs) else other).add(changed[0])
    names = [name for name in exercise.parameters if name in same - other]
    return Message("relations.cases.unused", n=len(names), names=listed(names)) if names else None


def equal(outputs, others):
    """Returns True if two lists of outputs hold the same arrays; an output that is no array, None, equals nothing."""
    return not any(y is None for y in (*outputs, *others)) and len(outputs) == len(others) and all(map(same_array, outputs, others))
