"""Messages about errors, parameters, results of a wrong type, cases and known mistakes. texts/en/verdict.ini says them."""

import functools
import re

from ...texts import Message, listed
from ..sandbox.runs import STOPPED

DIAGNOSIS = "verdict.line.diagnosis"
KNOWN_MISTAKES = "verdict.known."               # begins the kinds that name known mistakes
EXPLANATIONS = "verdict.line.explanation", "verdict.line.explanation_of", "verdict.line.remedy"
REMEDY = EXPLANATIONS[-1]                       # a student reads it when the same mistake is found again
NO_NAME = Message("verdict.line.no_name")
LONGEST = 44                                    # characters of a quoted expression
REMARKS = {                                     # {part of Python's own message: key of [error_remark]}
    "BdbQuit": "breakpoint", "EOFError": "input", "File too large": "too_much_output", "null bytes": "encoding",
    "No space left": "disk", "FileNotFoundError": "no_file", "start new thread": "thread",
    "matmul: Input operand 1 has a mismatch in its core dimension 0": "matmul",
    "operands could not be broadcast together": "broadcast", "argument 'keepdim'": "keepdims", "argument 'dim'": "axis",
    "'Parameter' and '": "parameter", "and 'Parameter'": "parameter", "of type Parameter": "parameter",
    "does not have enough dimensions (has 0": "no_axes", "shape mismatch: indexing arrays": "index_arrays",
    "einstein sum, but no '...'": "ellipsis", "PermissionError": "outside", "Read-only file system": "outside"}


def reported(report, key, kind=str):
    """Returns an entry of a report, or an empty one if it is missing or has the wrong type."""
    return report[key] if isinstance(report.get(key), kind) else kind()


def raised(report):
    """Returns the Message about an error, with the student's line.

    Parameters:
        report : what the student's process reports: "error", "line" and "code", and the "helper" that raised it if any
    """
    error, line, code = (reported(report, key) for key in ("error", "line", "code"))
    if reported(report, "stopped") in STOPPED:
        return Message(f"verdict.error.{report['stopped']}")
    if not line or reported(report, "helper"):
        return Message("verdict.error.plain", error=error)
    if "code" not in report:                    # a mistake in the syntax
        return Message("verdict.error.in_line", error=error, line=line)
    return Message("verdict.error.at", error=error, line=line, code=code)


def about_error(report, paths=()):
    """Does what `raised` does, and adds a remark if Python's own words do not help.

    Parameters:
        paths : attributes such as "gamma.grad" that the checker reads
    """
    said, error, line = raised(report), reported(report, "error"), reported(report, "line")
    remark = None if line else about_missing_names(error, paths)
    remark = remark or next((Message(f"verdict.error_remark.{key}") for part, key in REMARKS.items() if part in error), None)
    return Message("verdict.error.remark", error=said, remark=remark) if remark else said


def about_missing_names(error, paths):
    """Returns a Message about the attributes that the checker did not find, or None."""
    missing = re.search(r"has no attribute '(\w+)'$", error)
    read = [f"self.{path}" for path in paths if missing and missing[1] in path.split(".")]
    return Message("verdict.error_remark.names", names=listed(read)) if read else None


def about_helper(report):
    """Returns the Message about an error inside a given helper: what the student's own line passed to it; or None."""
    helper, shapes, error, line = (reported(report, key) for key in ("helper", "passed", "error", "line"))
    if not helper or not line:
        return None
    key = "shapes"
    if "pop from empty list" in error:
        key = "no_forward"
    elif "." in helper and "backward" in helper and "pop" not in error:
        key = "order"
    if shapes and key != "no_forward":
        key = f"{key}_with"
    return Message(f"verdict.helper.{key}", helper=helper, line=line, code=reported(report, "code"), shapes=shapes)


def about_parameters(exercise, report):
    """Returns the Message about a function or class that cannot be called with the exercise's arguments."""
    return Message("verdict.parameters.other", **parameters(exercise, report), error=reported(report, "error"))


def about_order(exercise, report):
    """Returns the Message about parameters that have the exercise's names in another order, or None."""
    takes, names = reported(report, "takes", list), exercise.parameters
    if takes == names or sorted(map(str, takes)) != sorted(names):
        return None
    return Message("verdict.parameters.order", **parameters(exercise, report))


def parameters(exercise, report):
    return {"name": exercise.name, "expected": ", ".join(exercise.parameters),
            "yours": ", ".join(reported(report, "takes", list))}


def about_count(exercise, kinds):
    """Returns the Message about results whose number is not that of the exercise's outputs."""
    names = exercise.outputs
    outputs = Message("verdict.outputs.one" if len(names) == 1 else "verdict.outputs.several", count=len(names),
                      names=", ".join(names))
    if exercise.is_class:
        return Message("verdict.type.count_of_class", outputs=outputs, count=len(kinds))
    alone = {"NoneType": "none", "list": "list", "ndarray": "array"}
    key = "several" if kinds else "nothing"
    if len(kinds) == 1:
        key = alone.get(kinds[0], "other")
    returned = Message(f"verdict.returned.{key}", count=len(kinds), kind="".join(kinds[:1]), kinds=", ".join(kinds))
    return Message("verdict.type.count", name=exercise.name, outputs=outputs, returned=returned)


def about_type(exercise, name, kind):
    """Returns the Message about an output that is not an array of real numbers."""
    other = "other_or_number" if exercise.hides_answers else "other"
    key = {"NoneType": "none", "ndarray": "not_real"}.get(kind, other)
    return Message(f"verdict.type.{key}", name=name, kind=kind)


def about_case(answer_key, i):
    """Returns a list with the Message about case i; an empty one for questions, which have a single case."""
    if len(answer_key.cases) == 1:
        return []
    case = answer_key.cases[i]
    return [Message(f"verdict.case.{case.role or 'main'}", number=i + 1, count=len(answer_key.main_cases),
                    case=answer_key.exercise.describe(case))]


def about_mistakes(identified, wrong, cases):
    """Returns Messages that name the known mistakes that an answer matches, and explain each of them.

    Of mistakes with the same explanation, only the first is named.

    Parameters:
        wrong, cases : numbers of cases in which the answer is wrong, and of all
    """
    explained = {}                              # {explanation: the first mistake that has it}
    for mistake in dict.fromkeys(mistake for combination in identified for mistake in combination):
        explained.setdefault(mistake.explanation, mistake)
    different = {}                              # {explanations: the first combination that has them}
    for combination in identified:
        different.setdefault(frozenset(mistake.explanation for mistake in combination), combination)
    key = "one"
    if len(different) > 1:
        key = "each"
    elif len(explained) > 1:
        key = "together"
    names = joined([joined([mistake.name for mistake in combination], "and") for combination in different.values()], "or")
    if cases > 1 and wrong:                     # with 0 wrong cases, the values are correct, but not what was done
        key += "_in_all" if wrong == cases else "_in_some"
    said = [Message(f"{KNOWN_MISTAKES}{key}", names=names, wrong=wrong, cases=cases)]
    for mistake in explained.values():
        what, remedy = mistake.parts
        key = "explanation_of" if len(explained) > 1 else "explanation"
        said.append(Message(f"verdict.line.{key}", mistake=mistake.name, explanation=what))
        said += [Message(REMEDY, remedy=remedy)] * bool(remedy)
    return said


def without_equal_alternatives(identified):
    """Returns the combinations of known mistakes, or what all of them have in common, if there are several reasons.

    A single mistake that gives the same answer as one other is named with it; a longer list would tell nothing.
    """
    reasons = {frozenset(mistake.explanation for mistake in combination): combination for combination in identified}
    if len(reasons) < 2:
        return identified
    common = [mistake for mistake in identified[0] if all(mistake in combination for combination in identified)]
    if common:
        return [tuple(common)]
    return [*reasons.values()] if len(reasons) == 2 and len(identified[0]) == 1 else []


def shortened(text):
    """Returns source that is quoted in a sentence, cut if it is long."""
    return text if len(text) <= LONGEST else text[:LONGEST - 4] + " ..."


def joined(names, word):
    """Returns a value of a Message for names between which the word is repeated, "and" or "or"."""
    return functools.reduce(lambda before, name: Message(f"words.list.{word}", before=before, item=name), names)


def mistake_names(combinations):
    """Returns "A and B or C" for possible combinations of known mistakes: a code of tables, the same in all languages."""
    return " or ".join(" and ".join(names) for names in combinations)
