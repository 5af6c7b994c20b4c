"""The position-wise half of a block: two linear layers with an activation between them."""

from collections.abc import Callable

import numpy as np

from ..argument_checks import check_choice, check_positive
from ..module import Module
from ..types import Seed
from .activations import GELU, ReLU, SiLU
from .dropout import Dropout
from .linear import Linear

ACTIVATIONS: dict[str, Callable[[], Module]] = {"relu": ReLU, "gelu": GELU, "gelu_tanh": lambda: GELU("tanh"), "silu": SiLU}


class FeedForward(Module):
    """y = down(dropout(f(up(x)))),   with f = ReLU in the paper: max(0, x W1 + b1) W2 + b2.

    Parameters:
        d_model : int, the width of input and output
        d_ff : int, the width of the hidden layer
        activation : "relu" (default), "gelu" (exact), "gelu_tanh" or "silu"
        dropout : float (0.0), on the hidden layer
        bias : bool (True), in the Linears `up` and `down`
        rng : generator or seed of initial weights and dropout, or None
    Shape: x (..., d_model) -> y (..., d_model)
    Backward: forward in reverse
    Raises: ValueError if the activation is unknown or the last dimension of x is not d_model.
    Source: Vaswani et al. 2017, equation 2.
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu", dropout: float = 0.0, bias: bool = True,
                 rng: Seed = None) -> None:
        check_positive(d_model=d_model, d_ff=d_ff)
        check_choice("activation", activation, ACTIVATIONS)
        rng = np.random.default_rng(rng)
        self.up = Linear(d_model, d_ff, bias, rng)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = Dropout(dropout, rng)
        self.down = Linear(d_ff, d_model, bias, rng)

    def forward(self, x: np.ndarray) -> np.ndarray:
        return self.down(self.dropout(self.activation(self.up(x))))

    def backward(self, dy: np.ndarray) -> np.ndarray:
        return self.up.backward(self.activation.backward(self.dropout.backward(self.down.backward(dy))))


class SwiGLU(Module):
    """y = down(f(gate(x)) * up(x)),   f = silu. With another f the layer is called GEGLU (GELU) or ReGLU (ReLU).

    Parameters:
        d_model : int, the width of input and output
        d_ff : int, the width of the hidden layer
        bias : bool (False), in the Linears `gate`, `up` and `down`
        rng : generator or seed of the initial weights, or None
        activation : "silu" (default), "gelu", "gelu_tanh" or "relu", the f of the gate
    Shape: x (..., d_model) -> y (..., d_model)
    Backward:
        with a = f(gate x), u = up x and dh = down backward of dy (the product rule):
        dx = gate backward of f backward of (dh * u), plus up backward of (dh * a)
    Raises: ValueError if the activation is unknown or the last dimension of x is not d_model.
    Source: Shazeer 2020, equation 6.
    """

    def __init__(self, d_model: int, d_ff: int, bias: bool = False, rng: Seed = None, activation: str = "silu") -> None:
        check_positive(d_model=d_model, d_ff=d_ff)
        check_choice("activation", activation, ACTIVATIONS)
        rng = np.random.default_rng(rng)
        self.gate = Linear(d_model, d_ff, bias, rng)
        self.activation = ACTIVATIONS[activation]()
        self.up = Linear(d_model, d_ff, bias, rng)
        self.down = Linear(d_ff, d_model, bias, rng)

    def forward(self, x: np.ndarray) -> np.ndarray:
        a = self.activation(self.gate(x))
        u = self.up(x)
        self.remember(a, u)
        return self.down(a * u)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        a, u = self.recall()
        dh = self.down.backward(dy)
        return self.gate.backward(self.activation.backward(dh * u)) + self.up.backward(dh * a)


# What `activation` may be in a block besides the names in ACTIVATIONS: (d_model, d_ff, dropout, bias, rng) -> component
FEED_FORWARDS: dict[str, Callable[..., Module]] = {
    "swiglu": lambda d_model, d_ff, dropout, bias, rng: SwiGLU(d_model, d_ff, bias, rng),
    "geglu": lambda d_model, d_ff, dropout, bias, rng: SwiGLU(d_model, d_ff, bias, rng, activation="gelu"),
    "geglu_tanh": lambda d_model, d_ff, dropout, bias, rng: SwiGLU(d_model, d_ff, bias, rng, activation="gelu_tanh"),
    "reglu": lambda d_model, d_ff, dropout, bias, rng: SwiGLU(d_model, d_ff, bias, rng, activation="relu")}


def make_feed_forward(activation: str, d_model: int, d_ff: int, *, dropout: float = 0.0, bias: bool = True,
                      rng: Seed = None) -> Module:
    """Returns a FeedForward for a name in ACTIVATIONS, or what FEED_FORWARDS makes of any other name.

    Raises: ValueError for an unknown name.
    """
    check_choice("activation", activation, (*ACTIVATIONS, *FEED_FORWARDS))
    if activation in FEED_FORWARDS:
        return FEED_FORWARDS[activation](d_model, d_ff, dropout, bias=bias, rng=rng)
    return FeedForward(d_model, d_ff, activation, dropout, bias=bias, rng=rng)
