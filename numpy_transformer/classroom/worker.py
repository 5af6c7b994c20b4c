"""Run one student's file on the cases of one exercise, in a process of its own: `python -I -B worker.py`.

It sees inputs alone. What it saves is raw arrays; the verdict is somebody else's. It stands alone with
`limits.py` beside it: limits are set before NumPy is imported, and nothing of the package is.
"""

import contextlib
import functools
import inspect
import json
import os
import sys
import traceback
import types

SAY = 2000                                      # characters of an error at most


class Function:
    """A function as an argument: its source, which may use np, math and these arrays."""

    def __init__(self, source, **arrays):
        self.source, self.arrays, self.made = source, arrays, None

    def __call__(self, *arguments):
        if self.made is None:
            import math

            import numpy as np
            self.made = eval(self.source, {"np": np, "math": math, **self.arrays})
        return self.made(*arguments)


def produce(target, inputs, calls=(), paths=()):
    """What a function returns; of a class what its calls return, then its attributes at the paths. One flat list."""
    if not calls:
        return flat(target(*inputs))
    made = target(*inputs)
    returned = [part for method, arguments in calls for part in flat(getattr(made, method)(*arguments))]
    return returned + [functools.reduce(getattr, path.split("."), made) for path in paths]


def flat(result):
    return list(result) if isinstance(result, tuple) else [result]


def inside(value, kind):
    """Everything of this kind in nested tuples and lists, in order."""
    if isinstance(value, (tuple, list)):
        return [found for item in value for found in inside(item, kind)]
    return [value] if isinstance(value, kind) else []


def write(name, content):
    """A new file; never through a link or into a file that is there."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        content(file)


def say(name, **words):
    write(name, lambda file: file.write(json.dumps(words).encode()))


def described(error, path):
    """The error and the line of the student's file in which it arose."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    at = f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""
    text = str(error) if isinstance(error, SyntaxError) else f"{error}{at}"
    return f"{type(error).__name__}: {text.strip()}"[:SAY]


def load(path, name):
    """The student's function or class, and what is wrong if there is none."""
    sys.modules["exercise"] = module = types.ModuleType("exercise")
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec"), vars(module))
    names = vars(module)
    if callable(names.get(name)):
        return names[name], sorted(names)
    return None, sorted(key for key, value in names.items() if callable(value) and not key.startswith("_"))


def settle(path, np):
    """A program that draws numbers without a seed draws the same ones at every run."""
    with open(path, "rb") as file:
        if b"random" in file.read():            # else NumPy need not load it
            import random
            random.seed(0)
            np.random.seed(0)


def unpacked(cases, read):
    """The arguments of all cases, from the job's words and files."""
    def argument(value):
        if isinstance(value, dict) and "array" in value:
            return read(value["array"])
        if isinstance(value, dict):
            return Function(value["function"], **{key: argument(part) for key, part in value["arrays"].items()})
        return [argument(part) for part in value] if isinstance(value, list) else value

    return [([argument(value) for value in inputs], [(method, [argument(value) for value in arguments])
             for method, arguments in calls]) for inputs, calls in cases]


def main():
    with open("job.json") as file:
        job = json.load(file)
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from limits import Blocker, guard, limit
    del sys.path[0]
    limit(job["seconds"], job["megabytes"])
    sys.path.append(job["numpy"])
    import numpy as np
    cases, save = unpacked(job["cases"], np.load), np.lib.format.write_array
    sys.meta_path.insert(0, Blocker())
    settle(job["file"], np)
    if os.name == "posix":
        guard([os.path.dirname(os.__file__), sys.prefix, sys.base_prefix, job["numpy"]], job["secret"])
    try:
        target, names = load(job["file"], job["name"])
    except BaseException as error:              # SystemExit too
        return say("said.json", stage="import", error=described(error, job["file"]))
    if target is None:
        return say("said.json", stage="name", names=names[:20])
    try:
        inspect.signature(target).bind(*cases[0][0])
    except TypeError as error:
        return say("said.json", stage="arguments", error=str(error)[:SAY])
    except ValueError:                          # a builtin tells nothing of its arguments
        pass
    for i, (inputs, calls) in enumerate(cases):
        try:
            answer(i, produce(target, inputs, calls, job["paths"])[:len(job["paths"]) + 8], save, np)
            for j, array in enumerate(inside([inputs, [arguments for _, arguments in calls]], np.ndarray)):
                write(f"after_{i}_{j}.npy", functools.partial(save, array=array, allow_pickle=False))
        except BaseException as error:
            say(f"said_{i}.json", kind=type(error).__name__, error=described(error, job["file"]))


def answer(i, outputs, save, np):
    """Save what came back in case i: the arrays of numbers, and what each was."""
    for j, output in enumerate(outputs):
        try:
            array = np.asarray(output)
        except ValueError:                      # a list of arrays of several shapes; its kind is told
            continue
        if array.dtype.kind in "fiub":
            write(f"out_{i}_{j}.npy", functools.partial(save, array=array, allow_pickle=False))
    say(f"said_{i}.json", kinds=[type(output).__name__ for output in outputs])


if __name__ == "__main__":
    try:
        main()
    except BaseException:                       # such as a file that the student's program has put in the way
        traceback.print_exc()
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    os._exit(0)                                 # what the program still has running ends here
