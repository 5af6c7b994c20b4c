"""The arguments of a case: calling a student's program with them, and telling afterwards which of them were changed.

It imports nothing but the standard library, so that the sandbox and the package share it.
"""

import functools

BESIDE = "beside."                              # before the name of a method: a second object of the class is called


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


def produce(target, inputs, calls=(), paths=(), keep=lambda first, outputs: None):
    """Returns a list of what a function returns, or what the calls of a class return and its attributes at `paths`.

    What a call returns is copied, because a later one may change it. What a second object returns that is used beside the
    first one is left out.

    Parameters:
        keep : function that takes note of the outputs of a call, and of the number of those before
    """
    if not calls:
        outputs = flat(target(*inputs))
        keep(0, outputs)
        return outputs
    made, returned = target(*inputs), []
    beside = target(*inputs) if any(method.startswith(BESIDE) for method, _ in calls) else None
    for method, arguments in calls:
        if method.startswith(BESIDE):
            getattr(beside, method[len(BESIDE):])(*arguments)
        else:
            outputs = flat(getattr(made, method)(*arguments))
            keep(len(returned), outputs)
            returned += [value.copy() if hasattr(value, "dtype") else value for value in outputs]
    attributes = [functools.reduce(getattr, path.split("."), made) for path in paths]
    keep(len(returned), attributes)
    return returned + attributes


def flat(result):
    return list(result) if isinstance(result, tuple) else [result]


def parts(value):
    """Returns the parts of a tuple or list, or the keys and values of a dictionary; None for anything else."""
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    return list(value) if isinstance(value, (tuple, list)) else None


def instances(value, kind):
    """Returns every instance of this class in nested tuples, lists and dictionaries, in order."""
    if parts(value) is not None:
        return [instance for item in parts(value) for instance in instances(item, kind)]
    return [value] if isinstance(value, kind) else []


def snapshot(value):
    """Returns what must not change in an argument: the objects that it consists of, their order, and their contents."""
    if isinstance(value, Function):
        own = {key: part for key, part in vars(value).items() if key != "compiled"}
        return value, snapshot(own)[1]
    if parts(value) is not None:
        return value, [snapshot(part) for part in parts(value)]
    if hasattr(value, "tobytes"):
        return value, (value.dtype.str, value.shape, value.tobytes())
    return value, None


def is_unchanged(value, before):
    """Returns True if a value consists of the same objects as in the snapshot, with the same contents."""
    former, contents = before
    if isinstance(value, (int, float, str, bytes)) or value is None:
        return type(value) is type(former) and (value == former or value != value)
    if value is not former:
        return False
    if isinstance(value, Function):
        value = {key: part for key, part in vars(value).items() if key != "compiled"}
    if parts(value) is not None:
        return len(parts(value)) == len(contents) and all(map(is_unchanged, parts(value), contents))
    return not hasattr(value, "tobytes") or (value.dtype.str, value.shape, value.tobytes()) == contents


class Arguments:
    """The arguments of one case while a program runs with them: afterwards it says which of them were changed."""

    def __init__(self, inputs, calls, kind):
        self.arguments = [*inputs, *(argument for _, arguments in calls for argument in arguments)]
        self.arrays = instances(self.arguments, kind)
        self.before = [snapshot(argument) for argument in self.arguments]

    def changed(self):
        """Returns the indices of the arguments that are not what they were, those of the calls after the inputs."""
        return [i for i, pair in enumerate(zip(self.arguments, self.before)) if not is_unchanged(*pair)]


class Returned:
    """The arrays that a program returned: at the end it says which of them a later call has changed.

    Those that share memory with an argument of their call do not count, because arguments are used again.
    """

    def __init__(self):
        self.kept = []                          # (case, output, array, snapshot)

    def keep(self, i, arrays, np, first, outputs):
        """Takes note of outputs of case i, whose arguments contain these arrays."""
        for j, output in enumerate(outputs, first):
            for array in instances(output, np.ndarray):
                if not any(np.may_share_memory(array, argument) for argument in arrays):
                    self.kept.append((i, j, array, snapshot(array)))

    def changed(self):
        """Returns {case: indices of its outputs that are not what they were when they were returned}."""
        found = {}
        for i, j, array, before in self.kept:
            if not is_unchanged(array, before):
                found.setdefault(i, []).append(j)
        return found


def reused(former, value):
    """Returns arguments with the contents of `value`, in the arrays and lists of `former` where shapes and dtypes fit.

    A program that knows an array by its identity, and not by what is in it, takes it for the former one.
    """
    if hasattr(value, "tobytes"):
        if getattr(former, "dtype", None) != value.dtype or former.shape != value.shape:
            return value
        former[...] = value
        return former
    if isinstance(value, (tuple, list)) and type(former) is type(value) and len(former) == len(value):
        new = [reused(*pair) for pair in zip(former, value)]
        if isinstance(value, tuple):
            return tuple(new)
        former[:] = new
        return former
    return value


def unpack(cases, blob, np):
    """Returns the arguments of all cases, and for each case its arrays' (dtype, shape, bytes) in order.

    Also returns for each case the index of an earlier one whose arrays it uses again, or None.
    """
    def argument(value, arrays):
        if isinstance(value, dict) and "tuple" in value:
            return tuple(argument(part, arrays) for part in value["tuple"])
        if isinstance(value, dict) and "dictionary" in value:
            return {key: argument(part, arrays) for key, part in value["dictionary"]}
        if isinstance(value, dict) and "array" in value:
            kind, shape, start, end = value["array"]
            arrays.append((kind, tuple(shape), blob[start:end]))
            return np.frombuffer(blob[start:end], kind).reshape(shape).copy()
        if isinstance(value, dict):
            return Function(value["function"], **{key: argument(part, []) for key, part in value["arrays"].items()})
        return [argument(part, arrays) for part in value] if isinstance(value, list) else value

    unpacked = []
    for inputs, calls, _ in cases:
        arrays = []
        inputs = [argument(value, arrays) for value in inputs]
        calls = [(method, [argument(value, arrays) for value in arguments]) for method, arguments in calls]
        unpacked.append((inputs, calls, arrays))
    return unpacked, [reuses for *_, reuses in cases]
