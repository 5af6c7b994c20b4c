"""How an array was computed by the code of a composite component."""

from dataclasses import dataclass, field
from typing import Callable

import numpy as np


@dataclass(eq=False, repr=False)
class Computation:
    """How an array was computed.

    Attributes:
        kind : "add", "multiply", "reshape", "select", "own code", ... as in FORMAT.md
        inputs : {slot: Value}
        backward : function from the gradient of the result to {slot: gradient}, or None if it is unknown
        name : what its id ends with
        numbers : {name: number}
        visible : for "own code", all values that it may have used
    """

    kind: str
    inputs: dict
    backward: Callable = None
    name: str = ""
    numbers: dict = field(default_factory=dict)
    visible: list = ()

    def __repr__(self):
        return f"Computation({self.name!r})"

    def __post_init__(self):
        self.name = self.name or self.kind.replace(" ", "_")


def same_array(a, b):
    return np.array_equal(a, b, equal_nan=True)             # False for different shapes


def sum_to(gradient, shape):
    """Sums a gradient over the axes along which an array of this shape was broadcast."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1 and gradient.shape[axis] != 1)
    return gradient.sum(stretched, keepdims=True) if stretched else gradient


def is_close(a, b):
    """Returns True if two arrays are equal up to the rounding of a few additions."""
    return a.shape == b.shape and bool(np.abs(a - b).max(initial=0) <= 1e-13 * np.abs(b).max(initial=0))
