"""The identity, and components one after the other."""

import numpy as np

from ..argument_checks import check_array, check_positive
from ..module import Module
from ..types import Component


class Identity(Module):
    """y = x, where a part is expected and nothing is to be done, such as the norm of a block that has none.

    Shape: x (any) -> y (the same)
    Backward: dx = dy
    """

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_array(self, x)
        self.remember()
        return x

    def backward(self, dy: np.ndarray) -> np.ndarray:
        self.recall()
        return dy


class Sequential(Module):
    """y = part_n(... part_2(part_1(x))): components one after the other, such as an output layer and a SoftCap.

    Parameters: parts : components that take x
    Shape: x -> y, as the parts
    Backward: the parts in reverse order
    Raises: ValueError without parts.
    """

    def __init__(self, *parts: Component) -> None:
        check_positive(**{"the number of parts": len(parts)})
        self.parts = list(parts)

    def forward(self, x: np.ndarray) -> np.ndarray:
        for part in self.parts:
            x = part(x)
        return x

    def backward(self, dx: np.ndarray) -> np.ndarray:
        for part in reversed(self.parts):
            dx = part.backward(dx)
        return dx
