"""The non-linearities between the two halves of a feed-forward layer."""

import math

import numpy as np

from ..module import Module
from .arguments import check_array, check_choice
from .erf import erf


class ReLU(Module):
    """y = max(0, x).

    Shape:
        x (any) -> y (the same)

    Backward:
        dx = dy where x > 0, else 0

    Source: Nair and Hinton 2010; Vaswani et al. 2017, equation 2.
    """

    def forward(self, x):
        check_array(self, x)
        positive = x.real > 0
        self.remember(positive)
        return np.maximum(x, 0) if np.isrealobj(x) else x * positive

    def backward(self, dy):
        return dy * self.recall()


class GELU(Module):
    """y = x Φ(x), Φ the distribution function of the standard normal.

    Parameters:
        approximate : "none" for Φ(x) = (1 + erf(x / sqrt 2)) / 2, as in BERT and PyTorch's default, or
            "tanh" for Φ(x) ≈ (1 + tanh(c (x + 0.044715 x³))) / 2, c = sqrt(2 / π), as in GPT-2

    Shape:
        x (any) -> y (the same)

    Backward:
        none: dx = dy (Φ + x φ), φ(x) = exp(-x²/2) / sqrt(2π)
        tanh: dx = dy (Φ + x Φ'), Φ' = (1 - t²) c (1 + 3 · 0.044715 x²) / 2, t the tanh above

    Raises:
        ValueError if approximate is neither.

    Source: Hendrycks and Gimpel 2016, section 2.
    """

    CUBIC = 0.044715

    def __init__(self, approximate="none"):
        check_choice("approximate", approximate, ("none", "tanh"))
        self.approximate = approximate

    def forward(self, x):
        check_array(self, x)
        if self.approximate == "tanh":
            phi = (1 + np.tanh(math.sqrt(2 / math.pi) * x * (1 + self.CUBIC * (x * x)))) / 2
        else:
            phi = (1 + erf(x / math.sqrt(2))) / 2
        self.remember(x, phi)
        return x * phi

    def backward(self, dy):
        x, phi = self.recall()
        if self.approximate == "tanh":          # phi = (1 + t) / 2, so 1 - t² = 4 phi (1 - phi)
            slope = 2 * phi * (1 - phi) * (math.sqrt(2 / math.pi) * (1 + 3 * self.CUBIC * (x * x)))
        else:
            slope = np.exp(x * x / -2) / math.sqrt(2 * math.pi)
        return dy * (phi + x * slope)


class SiLU(Module):
    """y = x σ(x), σ(x) = 1 / (1 + exp(-x)).

    Shape:
        x (any) -> y (the same)

    Backward:
        dx = dy σ (1 + x (1 - σ))

    Source: Elfwing et al. 2017; "Swish" in Ramachandran et al. 2017.
    """

    def forward(self, x):
        check_array(self, x)
        sigma = (1 + np.tanh(x / 2)) / 2        # the same function, and it cannot overflow
        self.remember(x, sigma)
        return x * sigma

    def backward(self, dy):
        x, sigma = self.recall()
        return dy * sigma * (1 + x * (1 - sigma))
