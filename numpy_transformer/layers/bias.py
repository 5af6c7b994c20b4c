"""A bias alone, such as that of logits whose matrix is the embedding."""

import numpy as np

from ..argument_checks import check_last_dim, check_positive
from ..module import Module, Parameter
from .fast import sum_over_rows
from .initial_weights import DTYPE


class Bias(Module):
    """y = x + b.

    Parameters: width : int; b begins at 0
    Shape: x (..., width) -> y (the same); `bias` (width,)
    Backward: dx = dy,   db = sum over rows of dy, unless b is frozen
    Raises: ValueError if the last dimension of x is not the width.
    Source: the bias of the logits in the published code of BERT (Devlin et al. 2019) and Marian (Junczys-Dowmunt et al. 2018).
    """

    def __init__(self, width: int) -> None:
        check_positive(width=width)
        self.bias = Parameter(np.zeros(width, DTYPE))

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_last_dim(self, x, "width", self.bias.data.size)
        self.remember()
        return x + self.bias.data

    def backward(self, dy: np.ndarray) -> np.ndarray:
        self.recall()
        if not self.bias.frozen:
            self.bias.grad += sum_over_rows(dy)
        return dy

    def extra_repr(self) -> str:
        return f"width={self.bias.data.size}"
