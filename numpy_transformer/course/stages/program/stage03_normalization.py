"""Stage 3: layer normalization."""

import numpy as np

from .module import Module, Parameter


class LayerNorm(Module):
    """y = gamma (x - mean) / sqrt(variance + eps) + beta, over the last axis.

    Shape: x (..., d_model) -> y (the same); gamma and beta (d_model,). The variance divides by d_model.
    """

    def __init__(self, d_model, eps=1e-5):
        self.eps = eps
        self.gamma = Parameter(np.ones(d_model))
        self.beta = Parameter(np.zeros(d_model))

    def forward(self, x):
        centered = x - x.mean(-1, keepdims=True)
        std = np.sqrt((centered ** 2).mean(-1, keepdims=True) + self.eps)
        x_hat = centered / std
        self.remember(x_hat, std)
        return self.gamma.data * x_hat + self.beta.data

    def backward(self, dy):
        x_hat, std = self.recall()
        rows = tuple(range(dy.ndim - 1))
        self.gamma.grad += (dy * x_hat).sum(rows)
        self.beta.grad += dy.sum(rows)
        g = self.gamma.data * dy
        return (g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True)) / std
