"""Which cases and which outputs are correct, and which passes of a class."""

import numpy as np

from ...exercises.cases import Case
from ...exercises.observation import observe
from ..matching import equal

MOST_NOTES, MOST_LISTED = 3, 4                  # cases that a sentence lists


def errors(answer_key, answers):
    """Returns sentences about an answer that raises an error in some cases only."""
    raised = [bool(answer.error) for answer in answers]
    if not any(raised) or all(raised):
        return []
    rest = [i for i, answer in enumerate(answers) if not answer.error]
    correct = [answer_key.is_right(i, answers[i]) for i in rest]
    place = where(answer_key, raised)
    if all(correct):
        only = "only " if sum(raised) * 2 <= len(raised) else ""
        return [f"The error comes {only}{place}. Elsewhere your result is correct"]
    if not any(correct):
        return [f"The error comes {place}. In the other cases there is no error, but a wrong result"]
    return [f"The error comes {place}"]


def some_cases(answer_key, fine):
    """Returns a sentence about an answer that is correct in some cases only, or "".

    Parameters:
        fine : for each main case, whether the answer is correct there
    """
    if all(fine) or not any(fine):
        return ""
    wrong = [not ok for ok in fine]
    only = "only " if sum(wrong) * 2 <= len(wrong) else ""
    return f"Your answer is wrong {only}{where(answer_key, wrong)}"


def where(answer_key, chosen):
    """Returns words for the chosen main cases, such as "in the case with rows without a batch"."""
    cases = answer_key.main_cases
    inside = [case.note for case, is_chosen in zip(cases, chosen) if is_chosen]
    outside = [case.note for case, is_chosen in zip(cases, chosen) if not is_chosen]
    special = [not case.sizes for case in cases]
    if len(inside) == 1:
        return f"in case {chosen.index(True) + 1} ({inside[0]})"
    if chosen == special and len(inside) > MOST_NOTES:
        return f"in the {len(inside)} edge cases"
    numbers = [i + 1 for i, is_chosen in enumerate(chosen) if is_chosen]
    if len(inside) <= MOST_NOTES and len(inside) <= len(outside):
        return f"in cases {ranges(numbers)} ({'; '.join(inside)})"
    if len(outside) == 1:
        return f"in all cases but {chosen.index(False) + 1} ({outside[0]})"
    if len(inside) <= MOST_LISTED or len(outside) <= MOST_LISTED:
        notes = f" ({'; '.join(inside)})" if len(inside) <= MOST_LISTED else ""
        return f"in cases {ranges(numbers)}{notes}"
    return f"in {len(inside)} of {len(cases)} cases"


def ranges(numbers):
    """Returns words for rising whole numbers, such as "1, 3 and 5 to 7"."""
    groups = []
    for number in numbers:
        if groups and groups[-1][-1] == number - 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    words = []
    for group in groups:
        words += [f"{group[0]} to {group[-1]}"] if len(group) > 2 else map(str, group)
    return listed(words)


def outputs(answer_key, correct):
    """Returns a sentence about which outputs are wrong, or "" if all are.

    Parameters:
        correct : for each output, whether it is correct in every case
    """
    names = answer_key.exercise.outputs
    wrong = [name for name, ok in zip(names, correct) if not ok]
    right = [name for name, ok in zip(names, correct) if ok]
    if not right or not wrong:
        return ""
    passes = class_outputs(answer_key) if answer_key.exercise.is_class else {}
    forward = [name for name in names if passes.get(name) == "forward"]
    if forward and not set(forward) & set(wrong):
        return f"Your forward is correct in every case; backward gives wrong values of {listed(wrong)}"
    if len(right) <= max(len(wrong), 3):
        return f"{listed(right)} {'is' if len(right) == 1 else 'are'} correct in every case"
    return f"Only {listed(wrong)} {'is' if len(wrong) == 1 else 'are'} wrong"


def listed(names):
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def class_outputs(answer_key):
    """Returns {output: method} for what the calls of a class return; the outputs with a dot are gradients."""
    case = answer_key.main_cases[0]
    made, found = answer_key.exercise.reference(*case.inputs), []
    with np.errstate(all="ignore"):
        for method, arguments in case.calls:
            result = getattr(made, method)(*arguments)
            found += [method] * (len(result) if isinstance(result, tuple) else 1)
    return dict(zip(answer_key.exercise.outputs, found))


def one_pass(answer_key, name, pairs):
    """The gradient of a parameter that contains only one of the backward passes."""
    if "." not in name:
        return ""
    alone = None
    for p in pairs:
        fits = {words for words, y in single_passes(answer_key, p.case, name).items() if p.equal(p.wrong, y)}
        alone = fits if alone is None else alone & fits
        if not alone:
            return ""
    return sorted(alone)[0]


def single_passes(answer_key, case, name):
    """Returns {words: gradient} for each backward pass of a case alone."""
    exercise, waiting, found = answer_key.exercise, [], []
    for method, arguments in case.calls:
        if method == "forward":
            waiting.append(arguments)
        elif method == "backward" and waiting:
            found.append((("forward", waiting.pop()), ("backward", arguments)))
    if len(found) < 2 or len(case.calls) != 2 * len(found):
        return {}
    gradients = {}
    for calls, which in ((found[0], "first"), (found[-1], "last")):
        seen = observe(exercise, exercise.reference, Case(case.note, case.inputs, calls))
        if seen.error:
            return {}
        gradients[f"contains only the {which} of the {len(found)} backward passes"] = seen.outputs[
            exercise.outputs.index(name) - len(exercise.outputs)]
    return gradients if not equal(*gradients.values()) else {}
