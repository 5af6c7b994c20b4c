"""Runs a function or class in this process, on the student's own machine, as the worker runs a file."""

import contextlib
import functools
import io
import linecache
import sys
import time
import warnings

import numpy as np

from ..exercises.observation import copy_arrays
from ..sandbox import CaseResult, ProgramRun
from ..sandbox.inside.case_arguments import Arguments, Returned, produce, reused
from ..sandbox.inside.worker import HELPERS, describe_parameters, helper_call, report_error


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
        results = run_cases(answer, exercise, cases, file)
    return ProgramRun("", 0, time.process_time() - start, printed.getvalue(), parameters, results)


def run_cases(answer, exercise, cases, file):
    """Runs the cases one after the other, and returns a CaseResult for each. Some use the arrays of an earlier one."""
    given, results, returned = {}, [], Returned()
    for i, case in enumerate(cases):
        given[case] = copy_arrays((case.inputs, case.calls))
        if case.reuses in given:
            given[case] = reused(given[case.reuses], given[case])
        results.append(run_case(answer, exercise, given[case], file, functools.partial(returned.keep, i)))
    for i, places in returned.changed().items():
        results[i].report["overwritten"] = list(map(str, places))
    return results


def run_case(answer, exercise, given, file, keep):
    """Does for one case what the worker does for a file.

    Parameters:
        given : (inputs, calls), which the answer may change
        keep : Returned.keep for this case
    """
    inputs, calls = given
    arguments = Arguments(inputs, calls, np.ndarray)
    try:
        outputs = produce(answer, inputs, calls, exercise.paths, functools.partial(keep, arguments.arrays, np))
    except (Exception, SystemExit) as error:
        given = {part.__name__ for part in exercise.given}
        helpers = {name: value for name, value in names_around(answer).items() if hasattr(value, "__dict__")
                   and (name in given or getattr(value, "__module__", "") == HELPERS)}
        call = helper_call(error, file, helpers)
        return CaseResult([], arguments.arrays, {**report_error(error, file, bool(call)), **call})
    after = [array.copy() for array in arguments.arrays]        # the next case may use them again
    report = {"kinds": [type(y).__name__ for y in outputs], "changed": list(map(str, arguments.changed()))}
    return CaseResult([numeric(output) for output in outputs], after, report)


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
