"""Linear: the affine map of the last axis."""

import numpy as np

from ..argument_checks import check_last_dim, check_positive
from ..module import Module, Parameter
from ..types import Seed
from .fast import rows, sum_over_rows
from .initial_weights import DTYPE, xavier_uniform


class Linear(Module):
    """y = x W + b on the last axis.

    Parameters:
        d_in, d_out : int
        bias : bool (True), whether there is a b
        rng : generator or seed of the initial weights, or None; W is Xavier uniform, b starts at zero
    Shape: x (..., d_in) -> y (..., d_out); `weight` (d_in, d_out), `bias` (d_out,)
    Backward: dW = sum over rows of xᵀ dy,   db = sum over rows of dy,   dx = dy Wᵀ
    Raises: ValueError if the last dimension of x is not d_in.
    Source: Rumelhart, Hinton and Williams 1986, equations 1, 6 and 7.
    """

    def __init__(self, d_in: int, d_out: int, bias: bool = True, rng: Seed = None) -> None:
        check_positive(d_in=d_in, d_out=d_out)
        self.d_in = d_in
        self.d_out = d_out
        self.weight = Parameter(xavier_uniform(rng, (d_in, d_out)))
        self.bias = Parameter(np.zeros(d_out, DTYPE)) if bias else None

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_last_dim(self, x, "d_in", self.d_in)
        self.remember(x)
        y = rows(x) @ self.weight.data
        if self.bias is not None:
            y += self.bias.data
        return y.reshape(*x.shape[:-1], self.d_out)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        x = self.recall()
        dy = rows(dy)
        self.weight.grad += rows(x).T @ dy
        if self.bias is not None:
            self.bias.grad += sum_over_rows(dy)
        return (dy @ self.weight.data.T).reshape(x.shape)

    def extra_repr(self) -> str:
        return f"d_in={self.d_in}, d_out={self.d_out}, bias={self.bias is not None}"
