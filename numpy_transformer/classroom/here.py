"""Runs a function or class in this process, on the student's own machine, as the worker runs a file."""

import contextlib
import io
import warnings

import numpy as np

from .exercise import copy_arrays
from .sandbox import CaseResult, Run
from .sandbox.inside.worker import describe_error, instances, produce, takes_arguments


def run_here(answer, exercise, cases, file=None):
    """Runs a function or class on the cases in this process, without limits. Returns a Run.

    Parameters:
        file : name of the file or cell whose lines are named in errors; None: the one that defines the answer
    """
    file = file or file_of(answer)
    problem = takes_arguments(answer, cases[0].inputs)
    if problem:
        return Run("", 0, 0.0, "", {"stage": "arguments", "error": problem})
    printed = io.StringIO()
    with (contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings(),
          np.errstate()):
        warnings.simplefilter("default")
        warnings.showwarning = lambda *warning, **_: printed.write(warnings.formatwarning(*warning[:4]))
        results = [run_case(answer, exercise, case, file) for case in cases]
    return Run("", 0, 0.0, printed.getvalue(), {}, results)


def run_case(answer, exercise, case, file):
    """Does for one case what the worker does for a file."""
    inputs, calls = copy_arrays((case.inputs, case.calls))
    try:
        outputs = produce(answer, inputs, calls, exercise.paths)
    except (Exception, SystemExit) as error:
        report = {"kind": type(error).__name__, "error": describe_error(error, file)}
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
