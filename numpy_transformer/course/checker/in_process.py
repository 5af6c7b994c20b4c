"""Runs a function or class in this process, on the student's own machine, as the worker runs a file."""

import contextlib
import io
import linecache
import sys
import time
import warnings

import numpy as np

from ..exercises.observation import copy_arrays
from ..sandbox import CaseResult, ProgramRun
from ..sandbox.inside.worker import HELPERS, describe_parameters, helper_call, instances, produce, report_error


def run_in_this_process(answer, exercise, cases, file):
    """Runs a function or class on the cases in this process, without limits. Returns a ProgramRun.

    Parameters:
        file : name of the file or cell whose lines are named in errors, or None
    """
    parameters = describe_parameters(answer, cases[0].inputs)
    if "error" in parameters:
        return ProgramRun("", 0, 0.0, "", parameters)
    printed, start = io.StringIO(), time.process_time()
    with (contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings(),
          np.errstate()):
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, kind, file, line, *_, **__: printed.write(
            f"{kind.__name__}: {message} (line {line}: {linecache.getline(file, line).strip()})\n")
        results = [run_case(answer, exercise, case, file) for case in cases]
    return ProgramRun("", 0, time.process_time() - start, printed.getvalue(), parameters, results)


def run_case(answer, exercise, case, file):
    """Does for one case what the worker does for a file."""
    inputs, calls = copy_arrays((case.inputs, case.calls))
    try:
        outputs = produce(answer, inputs, calls, exercise.paths)
    except (Exception, SystemExit) as error:
        given = {part.__name__ for part in exercise.given}
        helpers = {name: value for name, value in names_around(answer).items() if hasattr(value, "__dict__")
                   and (name in given or getattr(value, "__module__", "") == HELPERS)}
        call = helper_call(error, file, helpers)
        return CaseResult([], case.arrays(), {**report_error(error, file, bool(call)), **call})
    arrays = [numeric(output) for output in outputs]
    return CaseResult(arrays, instances((inputs, calls), np.ndarray), {"kinds": [type(y).__name__ for y in outputs]})


def names_around(answer):
    """Returns {name: value} of the module or notebook in which a function or class is defined."""
    if hasattr(answer, "__globals__"):
        return answer.__globals__
    module = sys.modules.get(getattr(answer, "__module__", None))
    return {} if module is None else vars(module)


def numeric(output):
    """Returns a copy of an output as an array of numbers, or None if it is anything else."""
    try:
        array = np.array(output)
    except ValueError:                          # a list of arrays with different shapes
        return None
    return array if array.dtype.kind in "fiub" else None
