"""The non-linearities between the two linear layers of a feed-forward layer."""

import math

import numpy as np

from ..argument_checks import check_array, check_choice
from ..module import Module
from .erf import erf, erf_and_exp


class ReLU(Module):
    """y = max(0, x).

    Shape: x (any) -> y (the same)
    Backward: dx = dy where x > 0, else 0
    Source: Nair and Hinton 2010; Vaswani et al. 2017, equation 2.
    """

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_array(self, x)
        positive = x.real > 0
        self.remember(positive)
        if np.iscomplexobj(x):                  # the complex-step check calls this; np.maximum cannot order x
            return x * positive
        return np.maximum(x, 0)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        positive = self.recall()
        return dy * positive


class SmoothActivation(Module):
    """Base class of activations y = f(x), applied to each entry.

    forward computes f(x) and the slope f'(x) together, because they share most of the work; backward multiplies.
    """

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_array(self, x)
        y, *slope = self.value_and_slope(x)
        self.remember(*slope)
        return y

    def backward(self, dy: np.ndarray) -> np.ndarray:
        dx = self.recall()                      # f'(x), an array that no one else uses
        dx *= dy
        return dx

    def value_and_slope(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns (f(x), f'(x)), or only (f(x),) where backward will not be called."""
        raise NotImplementedError


class GELU(SmoothActivation):
    """y = x Φ(x), where Φ is the distribution function of the standard normal distribution.

    Parameters:
        approximate : "none" (default) for Φ(x) = (1 + erf(x / sqrt 2)) / 2, as in BERT and PyTorch's default, or
            "tanh" for Φ(x) ≈ (1 + tanh(c (x + 0.044715 x³))) / 2, c = sqrt(2 / π), as in GPT-2
    Shape: x (any) -> y (the same)
    Backward:
        none: dx = dy (Φ + x φ), φ(x) = exp(-x²/2) / sqrt(2π)
        tanh: dx = dy (Φ + x Φ'), Φ' = 2 Φ (1 - Φ) c (1 + 3 · 0.044715 x²), because 1 - tanh² = 4 Φ (1 - Φ)
    Raises: ValueError if approximate is neither.
    Source: Hendrycks and Gimpel 2016, section 2.
    """

    CUBIC = 0.044715

    def __init__(self, approximate: str = "none") -> None:
        check_choice("approximate", approximate, ("none", "tanh"))
        self.approximate = approximate

    def value_and_slope(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        if self.approximate == "tanh":
            return self.tanh_value_and_slope(x)
        z = x * math.sqrt(0.5)
        if not self.remembering:
            return (x * (1 + erf(z)) / 2,)
        erf_z, exp = erf_and_exp(z)
        phi = (1 + erf_z) / 2
        y = x * phi
        slope = phi + x * (exp / math.sqrt(2 * math.pi))
        return y, slope

    def tanh_value_and_slope(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns what value_and_slope returns for approximate="tanh"."""
        c = math.sqrt(2 / math.pi)
        square = x * x                          # NumPy takes very long for x ** 3
        phi = (1 + np.tanh(x * (c + c * self.CUBIC * square))) / 2
        y = x * phi
        if not self.remembering:
            return (y,)
        slope = phi + y * (1 - phi) * (2 * c + 6 * c * self.CUBIC * square)
        return y, slope


class SiLU(SmoothActivation):
    """y = x σ(x), σ(x) = 1 / (1 + exp(-x)).

    Shape: x (any) -> y (the same)
    Backward: dx = dy σ (1 + x (1 - σ))
    Source: Elfwing et al. 2017; "Swish" in Ramachandran et al. 2017.
    """

    def value_and_slope(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        sigma = (1 + np.tanh(x / 2)) / 2        # the same function, in a form that cannot overflow
        y = x * sigma
        if not self.remembering:
            return (y,)
        slope = sigma + y * (1 - sigma)
        return y, slope


class Tanh(SmoothActivation):
    """y = tanh x, from -1 to 1.

    Shape: x (any) -> y (the same)
    Backward: dx = dy (1 - y²)
    Source: LeCun et al. 1998, Efficient BackProp, section 4.4; the pooler of BERT, in the published code of Devlin et al. 2019.
    """

    def value_and_slope(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        y = np.tanh(x)
        if not self.remembering:
            return (y,)
        slope = 1 - y * y
        return y, slope
