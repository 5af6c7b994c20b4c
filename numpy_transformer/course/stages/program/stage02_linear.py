"""Stage 2: the linear layer and the embedding."""

import numpy as np

from .module import Module, Parameter


class Linear(Module):
    """y = x W + b. Shape: x (..., d_in) -> y (..., d_out); weight W (d_in, d_out), bias b (d_out,)."""

    def __init__(self, d_in, d_out, rng):
        self.weight = Parameter(rng.normal(0, 0.02, (d_in, d_out)))
        self.bias = Parameter(np.zeros(d_out))

    def forward(self, x):
        self.remember(x)
        return x @ self.weight.data + self.bias.data

    def backward(self, dy):
        x = self.recall()
        rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        self.weight.grad += rows.T @ drows
        self.bias.grad += drows.sum(0)
        return dy @ self.weight.data.T


class Embedding(Module):
    """The row of the table for each id. Shape: ids (...) integers -> x (..., d_model); weight (vocab_size, d_model).

    backward returns nothing, because ids have no gradient.
    """

    def __init__(self, vocab_size, d_model, rng):
        self.weight = Parameter(rng.normal(0, 0.02, (vocab_size, d_model)))

    def forward(self, ids):
        self.remember(ids)
        return self.weight.data[ids]

    def backward(self, dx):
        ids = self.recall()
        np.add.at(self.weight.grad, ids, dx)
