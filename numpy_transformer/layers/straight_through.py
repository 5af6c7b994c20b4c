"""Training with rounded weights: the straight-through estimator, which treats rounding as the identity in backward."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..argument_checks import check_last_dim
from ..module import Module, ThisModule
from .fast import rows, sum_over_rows
from .frozen import replace
from .linear import Linear
from .lora import linears_called


class StraightThroughLinear(Module):
    """y = x R(W) + b on the last axis, where R rounds W, and backward computes dW as if R were the identity.

    The derivative of rounding is 0 almost everywhere, so W would never move with it. W stays in float32 (the master
    weights), where small updates add up until R(W) changes.

    Parameters:
        linear : Linear, whose `weight` and `bias` become those of this layer, under the same names
        rounding : function (array (d_in, d_out)) -> array of the same shape, such as
            lambda W: nt.round_to(W, "float8_e4m3")
    Shape: x (..., d_in) -> y (..., d_out)
    Backward: dW = sum over rows of xᵀ dy,   db = sum over rows of dy,   dx = dy R(W)ᵀ
    Source: Bengio et al. 2013 (the estimator, for binary neurons); Courbariaux et al. 2015, algorithm 1 (weights).
    """

    def __init__(self, linear: Linear, rounding: Callable[[np.ndarray], np.ndarray]) -> None:
        self.d_in = linear.d_in
        self.d_out = linear.d_out
        self.weight = linear.weight
        self.bias = linear.bias
        self.rounding = rounding
        self.training = linear.training
        self.remembering = linear.remembering

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_last_dim(self, x, "d_in", self.d_in)
        rounded = self.rounding(self.weight.data)
        self.remember(x, rounded)
        y = rows(x) @ rounded
        if self.bias is not None:
            y += self.bias.data
        return y.reshape(*x.shape[:-1], self.d_out)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        x, rounded = self.recall()
        dy = rows(dy)
        self.weight.grad += rows(x).T @ dy                  # the gradient of R(W), passed straight through R
        if self.bias is not None:
            self.bias.grad += sum_over_rows(dy)
        return (dy @ rounded.T).reshape(x.shape)

    def extra_repr(self) -> str:
        return f"d_in={self.d_in}, d_out={self.d_out}, bias={self.bias is not None}"


def add_rounding(model: ThisModule, rounding: Callable[[np.ndarray], np.ndarray],
                 targets: str | Sequence[str] | None = None) -> ThisModule:
    """Turns Linears of a model into StraightThroughLinears with this rounding; returns the model.

    The parameters keep their names and values. Train, and then round them for good with `quantize`.

    Parameters: model : Module; rounding : as in StraightThroughLinear; targets : names of Linears as in add_lora, or None
        for all
    Raises: ValueError for a name that the model does not have.
    """
    return replace(model, {id(linear): StraightThroughLinear(linear, rounding) for linear in chosen_linears(model, targets)})


def chosen_linears(model: Module, targets: str | Sequence[str] | None) -> list[Any]:
    """Returns a list of the Linears and StraightThroughLinears whose dotted name is one of the targets, or ends with one.

    With targets=None, it returns all of them.

    Raises: ValueError for a name that the model does not have, if it has LoRALinears, or if it has no Linear.
    """
    kinds = (Linear, StraightThroughLinear)
    if targets is not None:
        return linears_called(model, targets, kinds)
    linears = [module for _, module in model.named_modules() if isinstance(module, kinds)]
    if not linears:
        raise ValueError(f"{type(model).__name__} has no Linear, so there are no weights to round")
    return linears
