"""The non-linearities between the two halves of a feed-forward layer."""

import math

import numpy as np

from ..module import Module
from ..argument_checks import check_array, check_choice
from .erf import erf_and_exp


class ReLU(Module):
    """y = max(0, x).

    Shape: x (any) -> y (the same)
    Backward: dx = dy where x > 0, else 0
    Source: Nair and Hinton 2010; Vaswani et al. 2017, equation 2.
    """

    def forward(self, x):
        check_array(self, x)
        positive = x.real > 0
        self.remember(positive)
        return np.maximum(x, 0) if np.isrealobj(x) else x * positive

    def backward(self, dy):
        return dy * self.recall()


class Activation(Module):
    """Base of the smooth ones: y = f(x) entry by entry, in blocks whose temporaries stay in the cache.

    forward fills in f'(x) beside f(x), since they share most of the work, and backward is dx = dy f'(x).
    """

    BLOCK = 2 ** 17

    def forward(self, x):
        check_array(self, x)
        y = np.empty(x.shape, np.result_type(x.dtype, np.float32))
        arrays = [x, y, np.empty_like(y)] if self.remembering else [x, y]
        self.remember(arrays[-1])
        if x.size > self.BLOCK or not x.ndim:
            flat = [array.reshape(-1) for array in arrays]
            for start in range(0, x.size, self.BLOCK):
                self.fill(*(array[start:start + self.BLOCK] for array in flat))
        else:
            self.fill(*arrays)
        return y

    def backward(self, dy):
        slope = self.recall()                   # nobody else holds it
        return np.multiply(dy, slope, out=slope)


class GELU(Activation):
    """y = x Φ(x), Φ the distribution function of the standard normal.

    Parameters:
        approximate : "none" for Φ(x) = (1 + erf(x / sqrt 2)) / 2, as in BERT and PyTorch's default, or
            "tanh" for Φ(x) ≈ (1 + tanh(c (x + 0.044715 x³))) / 2, c = sqrt(2 / π), as in GPT-2
    Shape: x (any) -> y (the same)
    Backward:
        none: dx = dy (Φ + x φ), φ(x) = exp(-x²/2) / sqrt(2π)
        tanh: dx = dy (Φ + x Φ'), Φ' = (1 - t²) c (1 + 3 · 0.044715 x²) / 2, t the tanh above
    Raises: ValueError if approximate is neither.
    Source: Hendrycks and Gimpel 2016, section 2.
    """

    CUBIC = 0.044715

    def __init__(self, approximate="none"):
        check_choice("approximate", approximate, ("none", "tanh"))
        self.approximate = approximate

    def fill(self, x, y, slope=None):
        c = math.sqrt(2 / math.pi)
        if self.approximate == "tanh":
            square = x * x
            phi = square * (c * self.CUBIC)
            phi += c
            phi *= x
            np.tanh(phi, out=phi)
        else:
            phi, density = erf_and_exp(x * math.sqrt(0.5))
        phi += 1
        phi /= 2
        np.multiply(x, phi, out=y)
        if slope is None:
            return
        if self.approximate == "tanh":          # 1 - t² = 4 Φ (1 - Φ)
            np.multiply(square, 6 * c * self.CUBIC, out=slope)
            slope += 2 * c
            slope *= y
            slope *= np.subtract(1, phi, out=square)
        else:
            np.multiply(x, density / math.sqrt(2 * math.pi), out=slope)
        slope += phi


class SiLU(Activation):
    """y = x σ(x), σ(x) = 1 / (1 + exp(-x)).

    Shape: x (any) -> y (the same)
    Backward: dx = dy σ (1 + x (1 - σ))
    Source: Elfwing et al. 2017; "Swish" in Ramachandran et al. 2017.
    """

    def fill(self, x, y, slope=None):
        sigma = (1 + np.tanh(x / 2)) / 2        # the same function, and it cannot overflow
        np.multiply(x, sigma, out=y)
        if slope is not None:
            np.add(sigma, y * (1 - sigma), out=slope)
