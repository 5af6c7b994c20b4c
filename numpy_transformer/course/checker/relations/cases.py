"""Which cases and which outputs are correct, and which passes of a class."""

import itertools

import numpy as np

from ....texts import Message, listed
from ...exercises.cases import Case
from ...exercises.observation import observe
from ..comparison import values_agree

MOST_NOTES, MOST_LISTED = 3, 4                  # cases that a sentence lists


def errors(answer_key, answers):
    """Returns sentences about an answer that raises an error in some cases only."""
    raised = [bool(answer.error) for answer in answers]
    if not any(raised) or all(raised):
        return []
    rest = [i for i, answer in enumerate(answers) if not answer.error]
    correct = [answer_key.is_right(i, answers[i]) for i in rest]
    place = where(answer_key, raised)
    key = "error"
    if all(correct):
        key = "error_only_correct_elsewhere" if sum(raised) * 2 <= len(raised) else "error_correct_elsewhere"
    elif not any(correct):
        key = "error_wrong_elsewhere"
    return [Message(f"relations.cases.{key}", where=place)]


def some_cases(answer_key, fine):
    """Returns a sentence about an answer that is correct in some cases only, or None.

    Parameters:
        fine : for each main case, whether the answer is correct there
    """
    if all(fine) or not any(fine):
        return None
    wrong = [not ok for ok in fine]
    key = "wrong_only" if sum(wrong) * 2 <= len(wrong) else "wrong"
    return Message(f"relations.cases.{key}", where=where(answer_key, wrong))


def where(answer_key, chosen):
    """Returns a Message for the chosen main cases, such as "in case 4 (rows without a batch)"."""
    cases = answer_key.main_cases
    inside = [case.note for case, is_chosen in zip(cases, chosen) if is_chosen]
    outside = [case.note for case, is_chosen in zip(cases, chosen) if not is_chosen]
    special = [not case.sizes for case in cases]
    if len(inside) == 1:
        return Message("relations.where.one", number=chosen.index(True) + 1, note=inside[0])
    if chosen == special and len(inside) > MOST_NOTES:
        return Message("relations.where.edge_cases", count=len(inside))
    numbers = ranges([i + 1 for i, is_chosen in enumerate(chosen) if is_chosen])
    notes = "; ".join(inside)
    if len(inside) <= MOST_NOTES and len(inside) <= len(outside):
        return Message("relations.where.listed", numbers=numbers, notes=notes)
    if len(outside) == 1:
        return Message("relations.where.all_but", number=chosen.index(False) + 1, note=outside[0])
    if len(inside) <= MOST_LISTED:
        return Message("relations.where.listed", numbers=numbers, notes=notes)
    if len(outside) <= MOST_LISTED:
        return Message("relations.where.numbered", numbers=numbers)
    return Message("relations.where.count", count=len(inside), total=len(cases))


def ranges(numbers):
    """Returns a value of a message for rising whole numbers, such as "1, 3 and 5 to 7"."""
    groups = []
    for number in numbers:
        if groups and groups[-1][-1] == number - 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    items = []
    for group in groups:
        items += [Message("words.numbers.range", first=group[0], last=group[-1])] if len(group) > 2 else group
    return listed(items)


def outputs(answer_key, correct):
    """Returns a sentence about which outputs are wrong, or None if all are.

    Parameters:
        correct : for each output, whether it is correct in every case
    """
    names = answer_key.exercise.outputs
    wrong = [name for name, ok in zip(names, correct) if not ok]
    right = [name for name, ok in zip(names, correct) if ok]
    if not right or not wrong:
        return None
    passes = class_outputs(answer_key) if answer_key.exercise.is_class else {}
    forward = [name for name in names if passes.get(name) == "forward"]
    if forward and not set(forward) & set(wrong):
        return Message("relations.cases.forward_correct", names=listed(wrong))
    key, names = ("correct", right) if len(right) <= max(len(wrong), 3) else ("only_wrong", wrong)
    return Message(f"relations.cases.{key}", n=len(names), names=listed(names))


def exchanged(answer_key, pairs):
    """Returns a question about two outputs of which each has the other's shape in every case; None if there are none."""
    for (name, ours), (other, theirs) in itertools.combinations(zip(answer_key.exercise.outputs, pairs), 2):
        if any(not p.same_shape for p in ours) and all(p.wrong.shape == q.right.shape and q.wrong.shape == p.right.shape
                                                       for p, q in zip(ours, theirs)):
            return Message("relations.cases.exchanged", name=name, other=other)
    return None


def class_outputs(answer_key):
    """Returns {output: method} for what the calls of a class return; the outputs with a dot are gradients."""
    case = answer_key.main_cases[0]
    made, methods = answer_key.exercise.reference(*case.inputs), []
    with np.errstate(all="ignore"):
        for method, arguments in case.calls:
            result = getattr(made, method)(*arguments)
            methods += [method] * (len(result) if isinstance(result, tuple) else 1)
    return dict(zip(answer_key.exercise.outputs, methods))


def one_pass(answer_key, name, pairs):
    """The gradient of a parameter that contains only one of the backward passes."""
    if "." not in name:
        return None
    alone = None
    for p in pairs:
        fits = {which for which, y in single_passes(answer_key, p.case, name).items() if p.equal(p.wrong, y)}
        alone = fits if alone is None else alone & fits
        if not alone:
            return None
    which, passes = min(alone)
    return Message(f"relations.passes.{which}", passes=passes)


def single_passes(answer_key, case, name):
    """Returns {("first" or "last", number of passes): gradient} for the first and the last backward pass of a case alone."""
    exercise, waiting, passes = answer_key.exercise, [], []
    for method, arguments in case.calls:
        if method == "forward":
            waiting.append(arguments)
        elif method == "backward" and waiting:
            passes.append((("forward", waiting.pop()), ("backward", arguments)))
    if len(passes) < 2 or len(case.calls) != 2 * len(passes):
        return {}
    gradients = {}
    for calls, which in ((passes[0], "first"), (passes[-1], "last")):
        seen = observe(exercise, exercise.reference, Case(case.note, case.inputs, calls))
        if seen.error:
            return {}
        gradients[which, len(passes)] = seen.outputs[exercise.outputs.index(name) - len(exercise.outputs)]
    return gradients if not values_agree(*gradients.values()) else {}
