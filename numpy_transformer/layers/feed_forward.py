"""The position-wise half of a block: widen, bend, narrow."""

import numpy as np

from ..module import Module
from ..argument_checks import check_choice
from .activations import GELU, ReLU, SiLU
from .dropout import Dropout
from .linear import Linear

ACTIVATIONS = {"relu": ReLU, "gelu": GELU, "gelu_tanh": lambda: GELU("tanh"), "silu": SiLU}


class FeedForward(Module):
    """y = down(dropout(f(up(x)))),   f = ReLU in the paper: max(0, x W1 + b1) W2 + b2.

    Parameters: d_model, d_ff : int; activation : "relu", "gelu" (exact), "gelu_tanh" or "silu"; dropout : float, on the
        hidden layer; bias : bool, in the Linears `up` and `down`; rng : generator or seed of weights and dropout
    Shape: x (..., d_model) -> y (..., d_model)
    Backward: forward upside down
    Raises: ValueError if the activation is unknown or the last dimension of x is not d_model.
    Source: Vaswani et al. 2017, equation 2.
    """

    def __init__(self, d_model, d_ff, activation="relu", dropout=0.0, bias=True, rng=None):
        check_choice("activation", activation, ACTIVATIONS)
        rng = np.random.default_rng(rng)
        self.up = Linear(d_model, d_ff, bias, rng)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = Dropout(dropout, rng)
        self.down = Linear(d_ff, d_model, bias, rng)

    def forward(self, x):
        return self.down(self.dropout(self.activation(self.up(x))))

    def backward(self, dy):
        return self.up.backward(self.activation.backward(self.dropout.backward(self.down.backward(dy))))


class SwiGLU(Module):
    """y = down(silu(gate(x)) * up(x)).

    Parameters: d_model, d_ff : int; bias : bool, in the Linears `gate`, `up` and `down`; rng : generator or seed
    Shape: x (..., d_model) -> y (..., d_model)
    Backward:
        with a = silu(gate x), u = up x and dh = down backward of dy (the product rule):
        dx = gate backward of silu backward of (dh * u), plus up backward of (dh * a)
    Raises: ValueError if the last dimension of x is not d_model.
    Source: Shazeer 2020, equation 6.
    """

    def __init__(self, d_model, d_ff, bias=False, rng=None):
        rng = np.random.default_rng(rng)
        self.gate = Linear(d_model, d_ff, bias, rng)
        self.silu = SiLU()
        self.up = Linear(d_model, d_ff, bias, rng)
        self.down = Linear(d_ff, d_model, bias, rng)

    def forward(self, x):
        a = self.silu(self.gate(x))
        u = self.up(x)
        self.remember(a, u)
        return self.down(a * u)

    def backward(self, dy):
        a, u = self.recall()
        dh = self.down.backward(dy)
        return self.gate.backward(self.silu.backward(dh * u)) + self.up.backward(dh * a)
