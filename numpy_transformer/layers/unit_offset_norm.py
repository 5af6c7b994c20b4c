"""RMSNorm whose weights are stored as their difference from 1."""

import numpy as np

from ..argument_checks import check_last_dim, check_positive
from ..module import Module, Parameter
from .fast import mean_of_products, sum_over_rows
from .initial_weights import DTYPE


class UnitOffsetRMSNorm(Module):
    """y = (1 + γ) x̂,   x̂ = x / sqrt(mean(x²) + eps): RMSNorm whose γ begins at 0, so that weight decay pulls it to the identity.

    Parameters: d_model : int; eps : float (1e-6), inside the root
    Shape: x (..., d_model) -> y (the same); `gamma` (d_model,)
    Backward:
        dγ = sum over rows of dy x̂,   and with g = (1 + γ) dy
        dx = (g - x̂ mean(g x̂)) / sqrt(mean(x²) + eps)
    Raises: ValueError if the last dimension of x is not d_model.
    Source: the published code of Gemma (Mesnard et al. 2024); RMSNorm: Zhang and Sennrich 2019, equation 4.
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        check_positive(d_model=d_model)
        self.d_model = d_model
        self.eps = eps
        self.gamma = Parameter(np.zeros(d_model, DTYPE))

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_last_dim(self, x, "d_model", self.d_model)
        inverse_rms = 1 / np.sqrt(mean_of_products(x, x) + self.eps)
        x_hat = x * inverse_rms
        self.remember(x_hat, inverse_rms)
        return x_hat * (1 + self.gamma.data)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        x_hat, inverse_rms = self.recall()
        self.gamma.grad += sum_over_rows(dy * x_hat)
        g = (1 + self.gamma.data) * dy
        return (g - x_hat * mean_of_products(g, x_hat)) * inverse_rms
