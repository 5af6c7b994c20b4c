"""Exercises in a notebook or a script: `nt.exercise.check("05.2", attention_backward)` checks a function as it is."""

import contextlib
import io
import warnings

import numpy as np

from .checked import Checked
from .diagnosis import AnswerKey
from .exercise import copy_arrays
from .exercises import choose_one
from .sandbox import CaseResult, Run
from .sandbox.inside.worker import describe_error, instances, produce, takes_arguments
from .verdict import judge

__all__ = ["check", "hint", "sheet"]

shown_hints = {}                                # {number: hints shown in this session}


def check(number, answer, seed=0):
    """Checks a function or class as `numpy-transformer exercise check` checks a file, and returns the result.

    `print(result)` shows the text. A notebook also shows the arrays of the first wrong case, yours beside the expected
    ones.

    The answer runs here, in your own process, on copies of the arguments, and what it raises is part of the result.
    There is no time limit: interrupt a loop that never ends with Ctrl-C, or with the notebook's stop button. Running the
    text of its cell in a process of its own would be safer, but a function in a notebook may use imports, functions and
    values from other cells, and a lambda has no text of its own. The code is yours and so is the machine; a teacher who
    grades the code of others uses `numpy-transformer grade`.

    Parameters:
        number : such as "05.2"; everything that `numpy-transformer exercise hint` understands
        answer : the function or class; its name does not matter
        seed : int, the seed of the arrays in the cases
    Raises: ValueError if there is no such exercise, TypeError if the answer cannot be called
    """
    exercise = choose_one(str(number))
    if not callable(answer):
        kind = "class" if exercise.is_class else "function"
        raise TypeError(f'check takes the {kind} itself, as in check("{exercise.number}", {exercise.name}), but got '
                        f"{describe(answer)}; leave out the parentheses after its name")
    if exercise.is_class and not isinstance(answer, type):
        raise TypeError(f'exercise {exercise.number} asks for a class, as in check("{exercise.number}", {exercise.name}), '
                        f"but got {describe(answer)}")
    answer_key = AnswerKey(exercise, seed)
    run = run_here(answer, exercise, answer_key.cases)
    return Checked(answer_key, run, judge(answer_key, run), answer)


def hint(number):
    """Prints the hints of an exercise: at the first call one, and one more at each further call."""
    exercise = choose_one(str(number))
    count = shown_hints[exercise.number] = min(3, shown_hints.get(exercise.number, 0) + 1)
    for i, text in enumerate(exercise.hints[:count], 1):
        print(f"{i}. {text}")
    if count < len(exercise.hints):
        print("(Run the same line again for the next hint.)")


def sheet(number):
    """Prints the task of an exercise: the file that `numpy-transformer exercise start` would write."""
    print(choose_one(str(number)).skeleton())


def describe(value):
    article = "an" if type(value).__name__[0].lower() in "aeiou" else "a"
    return f"{article} {type(value).__name__}"


def run_here(answer, exercise, cases):
    """Runs a function or class on the cases in this process, without limits. Returns a Run."""
    problem = takes_arguments(answer, cases[0].inputs)
    if problem:
        return Run("", 0, 0.0, "", {"stage": "arguments", "error": problem})
    printed = io.StringIO()
    with (contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings(),
          np.errstate()):
        warnings.simplefilter("default")
        warnings.showwarning = lambda *warning, **_: printed.write(warnings.formatwarning(*warning[:4]))
        results = [run_case(answer, exercise, case) for case in cases]
    return Run("", 0, 0.0, printed.getvalue(), {}, results)


def run_case(answer, exercise, case):
    """Does for one case what the worker does for a file."""
    inputs, calls = copy_arrays((case.inputs, case.calls))
    try:
        outputs = produce(answer, inputs, calls, exercise.paths)
    except (Exception, SystemExit) as error:
        report = {"kind": type(error).__name__, "error": describe_error(error, file_of(answer))}
        return CaseResult([], case.arrays(), report)
    arrays = [numeric(output) for output in outputs]
    return CaseResult(arrays, instances((inputs, calls), np.ndarray), {"kinds": [type(y).__name__ for y in outputs]})


def numeric(output):
    """Returns a copy of an output as an array of numbers, or None if it is anything else."""
    try:
        array = np.array(output)
    except ValueError:                          # a list of arrays with different shapes
        return None
    return array if array.dtype.kind in "fiub" else None


def file_of(answer):
    """Returns the name of the file or cell that defines a function or class, or None if there is none."""
    methods = vars(answer).values() if isinstance(answer, type) else [answer]
    codes = [getattr(getattr(method, "__wrapped__", method), "__code__", None) for method in methods]
    return next((code.co_filename for code in codes if code is not None), None)
