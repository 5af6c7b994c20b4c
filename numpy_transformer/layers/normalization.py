"""LayerNorm and RMSNorm: each token is normalized by itself, over its features."""

from collections.abc import Callable

import numpy as np

from ..argument_checks import check_choice, check_last_dim, check_positive
from ..module import Module, Parameter
from .fast import mean_of_products, mean_over_features as mean, sum_over_rows
from .initial_weights import DTYPE


class LayerNorm(Module):
    """y = γ x̂ + β,   x̂ = (x - μ) / sqrt(σ² + eps), where μ and σ² are mean and variance over the last axis.

    Parameters: d_model : int; eps : float (1e-5), inside the root; bias : bool (True), whether there is a β
    Shape: x (..., d_model) -> y (the same); `gamma`, `beta` (d_model,)
    Backward:
        dγ = sum over rows of dy x̂,   dβ = sum over rows of dy,   and with g = γ dy
        dx = (g - mean(g) - x̂ mean(g x̂)) / sqrt(σ² + eps)
        The two means are the paths through μ and through σ. They make dx orthogonal to the all-ones vector and, up to eps, to x̂.
    Raises: ValueError if the last dimension of x is not d_model.
    Source: Ba, Kiros and Hinton 2016, equations 3 and 4; σ² divides by n.
    """

    def __init__(self, d_model: int, eps: float = 1e-5, bias: bool = True) -> None:
        check_positive(d_model=d_model)
        self.d_model = d_model
        self.eps = eps
        self.gamma = Parameter(np.ones(d_model, DTYPE))
        self.beta = Parameter(np.zeros(d_model, DTYPE)) if bias else None

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_last_dim(self, x, "d_model", self.d_model)
        centered = x - mean(x)
        inverse_std = 1 / np.sqrt(mean_of_products(centered, centered) + self.eps)
        x_hat = centered * inverse_std
        self.remember(x_hat, inverse_std)
        y = x_hat * self.gamma.data
        if self.beta is not None:
            y += self.beta.data
        return y

    def backward(self, dy: np.ndarray) -> np.ndarray:
        x_hat, inverse_std = self.recall()
        gamma = self.gamma.data
        dy_x_hat = dy * x_hat
        if self.beta is not None:
            self.beta.grad += sum_over_rows(dy)
        self.gamma.grad += sum_over_rows(dy_x_hat)
        g = gamma * dy
        mean_g_x_hat = mean_of_products(dy_x_hat, gamma)        # g x̂ = γ (dy x̂)
        return (g - mean(g) - x_hat * mean_g_x_hat) * inverse_std

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, eps={self.eps}, bias={self.beta is not None}"


class RMSNorm(Module):
    """y = γ x̂,   x̂ = x / sqrt(mean(x²) + eps): LayerNorm without the mean and without β.

    Parameters: d_model : int; eps : float (1e-6), inside the root
    Shape: x (..., d_model) -> y (the same); `gamma` (d_model,)
    Backward:
        dγ = sum over rows of dy x̂,   and with g = γ dy
        dx = (g - x̂ mean(g x̂)) / sqrt(mean(x²) + eps)
    Raises: ValueError if the last dimension of x is not d_model.
    Source: Zhang and Sennrich 2019, equation 4.
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        check_positive(d_model=d_model)
        self.d_model = d_model
        self.eps = eps
        self.gamma = Parameter(np.ones(d_model, DTYPE))

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_last_dim(self, x, "d_model", self.d_model)
        inverse_rms = 1 / np.sqrt(mean_of_products(x, x) + self.eps)
        x_hat = x * inverse_rms
        self.remember(x_hat, inverse_rms)
        return x_hat * self.gamma.data

    def backward(self, dy: np.ndarray) -> np.ndarray:
        x_hat, inverse_rms = self.recall()
        self.gamma.grad += sum_over_rows(dy * x_hat)
        g = self.gamma.data * dy
        return (g - x_hat * mean_of_products(g, x_hat)) * inverse_rms


# What `norm_layer` may be: (d_model, eps, bias) -> component
NORMS: dict[str, Callable[..., Module]] = {"layer": LayerNorm, "rms": lambda d_model, eps, bias: RMSNorm(d_model, eps)}


def make_norm(norm_layer: str, d_model: int, eps: float, *, bias: bool = True) -> Module:
    """Returns what NORMS makes of a name: a LayerNorm for "layer", an RMSNorm, which has no bias, for "rms".

    Raises: ValueError for an unknown name.
    """
    check_choice("norm_layer", norm_layer, NORMS)
    return NORMS[norm_layer](d_model, eps, bias=bias)
