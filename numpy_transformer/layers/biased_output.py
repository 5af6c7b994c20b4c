"""The transposed embedding as an output layer with a bias."""

import numpy as np

from ..module import Parameter
from .embedding import Unembedding
from .fast import rows
from .initial_weights import DTYPE


class BiasedUnembedding(Unembedding):
    """y = c x Eᵀ + b: an Unembedding with a bias for each token.

    Parameters: weight, factor=1.0 : as in Unembedding
    Shape: x (..., d_model) -> logits (..., vocab_size); `bias` (vocab_size,)
    Backward: db = sum over rows of dy, unless b is frozen;   dE and dx as Unembedding
    Raises: as Unembedding
    Source: Devlin et al. 2019, whose published code has one; the published code of Marian (Junczys-Dowmunt et al. 2018).
    """

    def __init__(self, weight: Parameter, factor: float = 1.0) -> None:
        super().__init__(weight, factor)
        self.bias = Parameter(np.zeros(len(weight.data), DTYPE))

    def forward(self, x: np.ndarray) -> np.ndarray:
        return super().forward(x) + self.bias.data

    def backward(self, dy: np.ndarray) -> np.ndarray:
        if not self.bias.frozen:
            self.bias.grad += rows(dy).sum(0)
        return super().backward(dy)
