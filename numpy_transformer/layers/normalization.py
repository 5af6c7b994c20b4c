"""LayerNorm and RMSNorm: each token by itself, over its features."""

import numpy as np

from ..module import Module, Parameter
from ..argument_checks import check_last_dim, check_positive
from .fast import column_sums, row_dots, row_means
from .initial_weights import DTYPE


class LayerNorm(Module):
    """y = γ x̂ + β,   x̂ = (x - μ) / sqrt(σ² + eps), μ and σ² over the last axis.

    Parameters: d_model : int; eps : float, inside the root; bias : bool, whether there is a β
    Shape: x (..., d_model) -> y (the same); `gamma`, `beta` (d_model,)
    Backward:
        dγ = sum over rows of dy x̂,   dβ = sum over rows of dy,   and with g = γ dy
        dx = (g - mean(g) - x̂ mean(g x̂)) / sqrt(σ² + eps):
        the two means are the paths through μ and through σ, and so dx is orthogonal to 1 and to x̂
    Raises: ValueError if the last dimension of x is not d_model.
    Source: Ba, Kiros and Hinton 2016, equations 3 and 4; σ² divides by n.
    """

    def __init__(self, d_model, eps=1e-5, bias=True):
        check_positive(d_model=d_model)
        self.d_model, self.eps = d_model, eps
        self.gamma = Parameter(np.ones(d_model, DTYPE))
        self.beta = Parameter(np.zeros(d_model, DTYPE)) if bias else None

    def forward(self, x):
        check_last_dim(self, x, "d_model", self.d_model)
        x_hat = x - row_means(x)
        inverse_std = 1 / np.sqrt(row_dots(x_hat, x_hat) / self.d_model + self.eps)
        x_hat *= inverse_std
        self.remember(x_hat, inverse_std)
        y = x_hat * self.gamma.data
        if self.beta is not None:
            y += self.beta.data
        return y

    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        if self.beta is not None:
            self.beta.grad += column_sums(dy)
        product = dy * x_hat
        self.gamma.grad += column_sums(product)
        dx = dy * self.gamma.data               # g
        dx -= row_means(dx)
        dx -= np.multiply(x_hat, row_dots(product, self.gamma.data) / self.d_model, out=product)
        dx *= inverse_std
        return dx


class RMSNorm(Module):
    """y = γ x̂,   x̂ = x / sqrt(mean(x²) + eps): LayerNorm without the mean and without β.

    Parameters: d_model : int; eps : float, inside the root
    Shape: x (..., d_model) -> y (the same); `gamma` (d_model,)
    Backward:
        dγ = sum over rows of dy x̂,   and with g = γ dy
        dx = (g - x̂ mean(g x̂)) / sqrt(mean(x²) + eps)
    Raises: ValueError if the last dimension of x is not d_model.
    Source: Zhang and Sennrich 2019, equation 4.
    """

    def __init__(self, d_model, eps=1e-6):
        check_positive(d_model=d_model)
        self.d_model, self.eps = d_model, eps
        self.gamma = Parameter(np.ones(d_model, DTYPE))

    def forward(self, x):
        check_last_dim(self, x, "d_model", self.d_model)
        inverse_rms = 1 / np.sqrt(row_dots(x, x) / self.d_model + self.eps)
        x_hat = x * inverse_rms
        self.remember(x_hat, inverse_rms)
        return x_hat * self.gamma.data

    def backward(self, dy):
        x_hat, inverse_rms = self.recall()
        self.gamma.grad += column_sums(dy * x_hat)
        g = dy * self.gamma.data
        dx = g - x_hat * (row_dots(g, x_hat) / self.d_model)
        dx *= inverse_rms
        return dx
