"""Runs one student's file on the cases of one exercise in a separate process: `python -I -B worker.py`.

The worker sees only the inputs. It saves raw arrays and short messages, and the grader judges them. The file imports
only `limits.py`, which lies beside it, because the limits are set before NumPy is imported and the package is never
imported here.
"""

import contextlib
import functools
import inspect
import json
import os
import sys
import traceback
import types

MESSAGE_LENGTH = 2000                           # characters of an error message, at most
MOST_RESULTS = 8                                # returned values that are saved; no exercise has more


class Function:
    """A function as an argument of an exercise, given by its source, which may use np, math and these arrays."""

    def __init__(self, source, **arrays):
        self.source, self.arrays, self.compiled = source, arrays, None

    def __call__(self, *arguments):
        if self.compiled is None:
            import math

            import numpy as np
            self.compiled = eval(self.source, {"np": np, "math": math, **self.arrays})
        return self.compiled(*arguments)


def produce(target, inputs, calls=(), paths=()):
    """Returns a list of what a function returns, or what the calls of a class return and its attributes at `paths`."""
    if not calls:
        return flat(target(*inputs))
    made = target(*inputs)
    returned = [part for method, arguments in calls for part in flat(getattr(made, method)(*arguments))]
    return returned + [functools.reduce(getattr, path.split("."), made) for path in paths]


def flat(result):
    return list(result) if isinstance(result, tuple) else [result]


def instances(value, kind):
    """Returns every instance of this class in nested tuples and lists, in order."""
    if isinstance(value, (tuple, list)):
        return [found for item in value for found in instances(item, kind)]
    return [value] if isinstance(value, kind) else []


def write_new(name, content):
    """Writes a new file. Never follows a link and never opens an existing file."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        content(file)


def write_report(name, **fields):
    write_new(name, lambda file: file.write(json.dumps(fields).encode()))


def describe_error(error, path):
    """Returns the error and the line of the student's file that raised it."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    at = f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""
    text = str(error) if isinstance(error, SyntaxError) else f"{error}{at}"
    return f"{type(error).__name__}: {text.strip()}"[:MESSAGE_LENGTH]


def load(path, name):
    """Returns the student's function or class (None if it is missing) and the names that the file defines."""
    sys.modules["exercise"] = module = types.ModuleType("exercise")
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec"), vars(module))
    names = vars(module)
    if callable(names.get(name)):
        return names[name], sorted(names)
    return None, sorted(key for key, value in names.items() if callable(value) and not key.startswith("_"))


def seed_global_generators(path, np):
    """Seeds the global random generators, so that a program without a seed of its own is reproducible."""
    with open(path, "rb") as file:
        if b"random" in file.read():            # otherwise NumPy need not load its random module
            import random
            random.seed(0)
            np.random.seed(0)


def read_arguments(cases, read):
    """Returns the arguments of all cases, read from the job's JSON and its array files."""
    def argument(value):
        if isinstance(value, dict) and "array" in value:
            return read(value["array"])
        if isinstance(value, dict):
            return Function(value["function"], **{key: argument(part) for key, part in value["arrays"].items()})
        return [argument(part) for part in value] if isinstance(value, list) else value

    return [([argument(value) for value in inputs], [(method, [argument(value) for value in arguments])
             for method, arguments in calls]) for inputs, calls in cases]


def takes_arguments(target, inputs):
    """Returns "" if the function or class can be called with these arguments, else why not."""
    try:
        inspect.signature(target).bind(*inputs)
    except TypeError as error:
        return str(error)[:MESSAGE_LENGTH]
    except ValueError:                          # builtins have no signature; calling them will show any problem
        return ""
    return ""


def main():
    with open("job.json") as file:
        job = json.load(file)
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from limits import ImportBlocker, install_audit_hook, set_limits
    del sys.path[0]
    set_limits(job["seconds"], job["megabytes"])
    sys.path.append(job["numpy"])
    import numpy as np
    cases, save = read_arguments(job["cases"], np.load), np.lib.format.write_array
    sys.meta_path.insert(0, ImportBlocker())
    seed_global_generators(job["file"], np)
    if os.name == "posix":
        install_audit_hook([os.path.dirname(os.__file__), sys.prefix, sys.base_prefix, job["numpy"]], job["secret"])
    try:
        target, names = load(job["file"], job["name"])
    except BaseException as error:              # SystemExit too
        return write_report("report.json", stage="import", error=describe_error(error, job["file"]))
    if target is None:
        return write_report("report.json", stage="name", names=names[:20])
    problem = takes_arguments(target, cases[0][0])
    if problem:
        return write_report("report.json", stage="arguments", error=problem)
    for i, (inputs, calls) in enumerate(cases):
        try:
            outputs = produce(target, inputs, calls, job["paths"])[:len(job["paths"]) + MOST_RESULTS]
            save_outputs(i, outputs, save, np)
            for j, array in enumerate(instances([inputs, [arguments for _, arguments in calls]], np.ndarray)):
                write_new(f"after_{i}_{j}.npy", functools.partial(save, array=array, allow_pickle=False))
        except BaseException as error:
            write_report(f"report_{i}.json", kind=type(error).__name__, error=describe_error(error, job["file"]))


def save_outputs(i, outputs, save, np):
    """Saves the outputs of case i that are numeric arrays, and reports the type of each output."""
    for j, output in enumerate(outputs):
        try:
            array = np.asarray(output)
        except ValueError:                      # a list of arrays with different shapes: only its type is reported
            continue
        if array.dtype.kind in "fiub":
            write_new(f"out_{i}_{j}.npy", functools.partial(save, array=array, allow_pickle=False))
    write_report(f"report_{i}.json", kinds=[type(output).__name__ for output in outputs])


if __name__ == "__main__":
    try:
        main()
    except BaseException:                       # such as a file that the student's program has put in the way
        traceback.print_exc()
    with contextlib.suppress(BaseException):    # the student's program may have closed or replaced stdout
        sys.stdout.flush()
    os._exit(0)                                 # ends threads and exit handlers of the student's program
