"""Muon: momentum whose update is made orthogonal, for the matrices inside a model."""

import math
from collections.abc import Iterable

import numpy as np

from ..argument_checks import check_numbers
from ..module import Module, Parameter
from .combined import CombinedOptimizer
from .optimizers import AdamW, Buffer, LargeParameter, Optimizer
from .parameter_groups import hidden_weights, linear_weights

COEFFICIENTS = 3.4445, -4.7750, 2.0315          # a, b, c of the polynomial
ITERATIONS = 5


def orthogonalize(G: np.ndarray) -> np.ndarray:
    """Returns about U Vᵀ for a matrix G = U Σ Vᵀ: the same singular vectors, and all but the smallest singular values near 1.

    X starts as G divided by its norm, so that its singular values are at most 1. Each of five Newton-Schulz iterations

        X = a X + b (X Xᵀ) X + c (X Xᵀ)² X

    maps every singular value s to a s + b s³ + c s⁵, and leaves the singular vectors as they are. The coefficients let small
    values grow quickly, 3.4 times in an iteration, and not converge to 1. Those from 0.0016 times the norm of G on end between
    0.68 and 1.21. A smaller one may still be below 0.68, and one that is 0 stays 0.

    Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks".
    """
    a, b, c = COEFFICIENTS
    largest = abs(G).max()
    if largest == 0:
        return np.zeros_like(G)
    X = G / largest                             # the squares of very small numbers would be 0
    X /= np.linalg.norm(X)
    if X.shape[0] > X.shape[1]:                 # X Xᵀ is smaller for a wide matrix
        X = X.T
    for _ in range(ITERATIONS):
        XXt = X @ X.T
        X = a * X + (b * XXt + c * XXt @ XXt) @ X
    return X if X.shape == G.shape else X.T


class Muon(Optimizer):
    """w -= lr sqrt(max(1, d_out / d_in)) orthogonalize(dw + momentum v),   v = momentum v + dw, for matrices w.

    All directions of the update but the weakest are about equally long, where those of Adam and SGD can differ a
    thousandfold. The formula looks ahead by one step (Nesterov). Muon is meant for hidden matrices. Embeddings, the output
    layer, norms and biases belong to another optimizer: see muon_with_adamw.

    Parameters:
        parameters : matrices (d_in, d_out), such as nt.hidden_weights(model)
        lr : float, learning rate: a step changes x W by at most about lr times the length of x, if d_out <= d_in
        momentum : float in [0, 1)
        weight_decay : float, decoupled as in AdamW: w -= lr weight_decay w
    Raises: ValueError for a parameter that is not a matrix.
    Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; the scale, and the weight decay, as
        in the published code, whose matrices are (d_out, d_in).
    """

    STATE = ("velocity",)

    def __init__(self, parameters: Iterable[Parameter], lr: float = 0.02, momentum: float = 0.95,
                 weight_decay: float = 0.0) -> None:
        super().__init__(parameters, lr)
        check_numbers(momentum=momentum, weight_decay=weight_decay)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum = {momentum} must lie in [0, 1)")
        if not weight_decay >= 0:
            raise ValueError(f"weight_decay = {weight_decay} must not be negative; 0 to 0.1 is usual")
        self.momentum, self.weight_decay = momentum, weight_decay

    def kind(self, parameter: Parameter) -> tuple[int, ...]:
        if parameter.data.ndim != 2:
            raise ValueError(f"Muon takes matrices, but a parameter has the shape {parameter.data.shape}; give it to AdamW, "
                             "as nt.muon_with_adamw(model) does")
        return parameter.data.shape

    def blocks(self, buffer: Buffer | LargeParameter) -> list[slice]:
        """Returns slices with one matrix each."""
        size = math.prod(buffer.kind)
        return [slice(n * size, (n + 1) * size) for n in range(len(buffer.parameters))]

    def update(self, w: np.ndarray, g: np.ndarray, v: np.ndarray, d_in: int, d_out: int) -> None:
        v *= self.momentum
        v += g
        direction = orthogonalize((g + self.momentum * v).reshape(d_in, d_out))
        w *= 1 - self.lr * self.weight_decay
        w -= self.lr * math.sqrt(max(1, d_out / d_in)) * direction.reshape(-1)


def muon_with_adamw(model: Module, lr: float = 0.02, momentum: float = 0.95, adam_lr: float = 3e-3,
                    betas: tuple[float, float] = (0.9, 0.95), eps: float = 1e-8,
                    weight_decay: float = 0.0) -> CombinedOptimizer:
    """Returns one optimizer: Muon for the matrices of the model's blocks, and AdamW for all other parameters.

    Parameters:
        model : Module whose blocks are in a list `blocks`, as in a Stack
        lr, momentum : of Muon. A schedule sets lr; the rate of AdamW stays the same multiple of it
        adam_lr, betas, eps : of AdamW
        weight_decay : float, of both; of the parameters of AdamW only the weights of Linears decay
    Raises: ValueError if the model has no such matrices, or nothing else to train.
    Source: Jordan et al. 2024.
    """
    hidden = hidden_weights(model)
    inside = {id(parameter) for parameter in hidden}
    others = [parameter for parameter in model.parameters(trained=True) if id(parameter) not in inside]
    decay = [parameter for parameter in linear_weights(model) if id(parameter) not in inside]
    if not hidden:
        raise ValueError(f"{type(model).__name__} has no Linear in a list `blocks`, so there is nothing for Muon; use AdamW")
    if not others:
        raise ValueError(f"{type(model).__name__} trains nothing but the matrices of its blocks, so there is nothing for AdamW; "
                         "use nt.Muon(nt.hidden_weights(model))")
    adamw = AdamW(others, adam_lr, betas, eps, weight_decay=weight_decay, decay=decay)
    return CombinedOptimizer([Muon(hidden, lr, momentum, weight_decay), adamw])
