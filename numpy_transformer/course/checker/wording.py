"""The words of a verdict: of errors, of results of a wrong type, of cases and of known mistakes."""

import re

NOT_ARRAYS = {"NoneType": "None; is a return statement missing?", "ndarray": "an array, but not one of real numbers"}
OUTSIDE = "an exercise needs no other process, no network and no files outside its own folder"
REMARKS = (("BdbQuit", "breakpoint() does not work while the checker runs; run your file by itself to use it"),
           ("EOFError", "input() does not work while the checker runs"),
           ("File too large", "it prints or writes too much"), ("null bytes", "save the file as UTF-8"),
           ("No space left", "it writes more than 64 MB, and an exercise needs no files"),
           ("FileNotFoundError", "an exercise gets all that it needs as arguments"),
           ("start new thread", "an exercise needs no threads"),
           ("matmul: Input operand 1 has a mismatch in its core dimension 0",
            "in a @ b, the last axis of a must be as long as the second-to-last axis of b"),
           ("operands could not be broadcast together",
            "shapes are aligned at their last axes; is a keepdims=True, a sum or a transpose missing?"),
           ("argument 'keepdim'", "did you mean keepdims?"), ("argument 'dim'", "did you mean axis?"),
           ("'Parameter' and '", "a Parameter is not an array; its values are in .data"),
           ("and 'Parameter'", "a Parameter is not an array; its values are in .data"),
           ("of type Parameter", "a Parameter is not an array; its values are in .data"),
           ("does not have enough dimensions (has 0", "one side of @ has no axes: it is a single number, or an object "
            "such as a Parameter, whose values are in .data"),
           ("shape mismatch: indexing arrays", "index arrays are read together, one position from each, so their "
            "shapes must broadcast; flatten leading axes first, or add axes"),
           ("einstein sum, but no '...'", "'...' stands for all leading axes, and the part after -> does not have it; "
            "einsum sums only over letters, so flatten the leading axes into one first and give it a letter"),
           ("PermissionError", OUTSIDE), ("Read-only file system", OUTSIDE))


def reported(report, key, kind=str):
    """Returns an entry of a report, or an empty one if it is missing or has the wrong type."""
    return report[key] if isinstance(report.get(key), kind) else kind()


def explain_call(report):
    """Returns a line about an error inside a given helper: what the student's own line passed to it."""
    helper, call, passed = (reported(report, key) for key in ("helper", "call", "passed"))
    if not helper or not call:
        return ()
    number, _, text = call.partition(": ")
    passed = f" with {passed}" if passed else ""
    if "." in helper and "backward" in helper and "pop" not in reported(report, "error"):
        return (f"Your {number}, {text}, calls {helper}{passed}. {helper} is given and correct. It belongs to the "
                "latest forward of the same layer that has not had a backward yet: do the shapes fit that forward?",)
    if "pop from empty list" in reported(report, "error"):
        return (f"Your {number}, {text}, calls {helper} without a forward before it. Each backward needs a forward of "
                "the same layer that has not had a backward yet.",)
    return (f"Your {number}, {text}, calls {helper}{passed}. {helper} is given and correct, so what it is passed does "
            "not fit: compare the shapes with its docstring.",)


def explain_error(error, paths=()):
    """Returns an explanation of an error whose own message does not help, or "".

    Parameters:
        paths : attributes such as "gamma.grad" that the checker reads
    """
    missing = re.search(r"has no attribute '(\w+)'$", error)     # otherwise the student's line follows
    read = [path for path in paths if missing and missing[1] in path.split(".")]
    if read:
        names = " and ".join(f"self.{path}" for path in read)
        return f"; the checker reads {names}: keep the names of the sheet"
    return next((f"; {words}" for part, words in REMARKS if part in error), "")


def explain_parameters(exercise, report):
    """Returns sentences about a function or class that cannot be called with the exercise's arguments."""
    return (f"The exercise gives {exercise.name}({', '.join(exercise.parameters)}), but yours is "
            f"{exercise.name}({', '.join(reported(report, 'takes', list))}): {reported(report, 'error')}. Keep the "
            "parameters that the exercise gives, in their order.")


def explain_order(exercise, report):
    """Returns a sentence about parameters that have the exercise's names in another order, or ""."""
    takes, names = reported(report, "takes", list), exercise.parameters
    if takes == names or sorted(map(str, takes)) != sorted(names):
        return ""
    return (f"Your parameters are in another order: the exercise gives {exercise.name}({', '.join(names)}), and yours "
            f"is {exercise.name}({', '.join(takes)}). The checker passes the arguments in the exercise's order.")


def wrong_count(exercise, kinds):
    """Describes results whose number is not that of the exercise's outputs."""
    outputs = list_outputs(exercise.outputs)
    if exercise.is_class:
        return (f"The calls' results and the gradients should be {outputs}, but there are {len(kinds)} values. Does "
                "each method return what its docstring says?")
    returned = f"{len(kinds)} values, ({', '.join(kinds)})" if kinds else "an empty tuple"
    if kinds == ["NoneType"]:
        returned = NOT_ARRAYS["NoneType"]
    elif kinds == ["list"]:
        returned = "a list; return a tuple: return a, b"
    elif len(kinds) == 1:
        returned = "a single array" if kinds == ["ndarray"] else f"a single value of type {kinds[0]}"
    return f"{exercise.name} should return {outputs}, but returned {returned}"


def wrong_type(exercise, kind):
    """Describes an output that is not an array of real numbers."""
    wanted = "a number or an array" if exercise.hides_answers else "a NumPy array"
    return NOT_ARRAYS.get(kind, f"a {kind}; return {wanted}")


def list_outputs(names):
    return names[0] if len(names) == 1 else f"{len(names)} values, ({', '.join(names)})"


def case_line(answer_key, i):
    """Returns a tuple with a line that describes case i; an empty tuple for questions, which have a single case."""
    if len(answer_key.cases) == 1:
        return ()
    case = answer_key.cases[i]
    which = {"": f"Case {i + 1} of {len(answer_key.main_cases)}", "again": "The first case again",
             "float32": "The first case in float32"}[case.role]
    return (f"{which}, {answer_key.exercise.describe(case)}",)


def explain_mistakes(identified, cases):
    """Returns lines that name the known mistakes that an answer matches, and explain each of them.

    Of mistakes with the same explanation, only the first is named.
    """
    explained = {}                              # {explanation: name of the first mistake that has it}
    for mistake in dict.fromkeys(mistake for combination in identified for mistake in combination):
        explained.setdefault(mistake.explanation, mistake.name)
    different = {}                              # {explanations: the first combination that has them}
    for combination in identified:
        different.setdefault(frozenset(mistake.explanation for mistake in combination), combination)
    names = " or ".join(" and ".join(mistake.name for mistake in combination) for combination in different.values())
    if len(different) > 1:
        which = "each of these known mistakes"
    elif len(explained) > 1:
        which = "these known mistakes together"
    else:
        which = "this known mistake"
    where = f"In all {cases} cases your" if cases > 1 else "Your"
    lines = [f"DIAGNOSIS [{names}] {where} answer matches {which}:"]
    for explanation, alike in explained.items():
        lines.append(f"{alike}: {explanation}" if len(explained) > 1 else explanation)
    return lines
