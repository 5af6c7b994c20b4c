"""Runs a trusted function or class on a case, and describes what it did: its outputs, its error, changed arguments."""

import functools
from dataclasses import dataclass, field

import numpy as np

from ..sandbox.inside.case_arguments import instances, produce


@dataclass(frozen=True)
class Observation:
    """What a function or class did in one case."""

    outputs: tuple = ()
    error: str = ""
    changed: dict = field(default_factory=dict)         # {index: array after} of the arguments that it changed

    @functools.cached_property
    def largest(self):
        """The largest absolute value of all outputs; infinity and NaN do not count."""
        return max((np.max(abs(y), initial=0, where=np.isfinite(y)) for y in self.outputs), default=0)


def observe(exercise, target, case):
    """Runs a trusted function or class on copies of the case's arguments. Returns an Observation."""
    inputs, calls = copy_arrays((case.inputs, case.calls))
    arrays = instances((inputs, calls), np.ndarray)
    try:
        with np.errstate(all="ignore"):
            outputs = produce(target, inputs, calls, exercise.paths)
    except Exception as error:
        return Observation(error=f"{type(error).__name__}: {error}".strip())
    return Observation(tuple(map(np.asarray, outputs)), "", changes(case.arrays(), arrays))


def copy_arrays(value):
    """Copies each array in nested arguments separately, as the worker process does when it reads them."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(copy_arrays, value))
    if isinstance(value, dict):
        return {key: copy_arrays(part) for key, part in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def changed(before, after):
    """Returns the indices of the arrays in `before` that differ in `after`, or are missing there."""
    after = [*after, *[None] * len(before)]
    return tuple(i for i, (a, b) in enumerate(zip(before, after)) if b is None or not same_array(a, b))


def changes(before, after):
    """Returns {index: array after} of the arrays in `before` that differ in `after`; None for those missing there."""
    return {i: after[i] if i < len(after) else None for i in changed(before, after)}


def same_array(a, b):
    """Returns True if two arrays have the same dtype, shape and values; NaN equals NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=True)       # bytes are ten times as fast
