"""Dropout: the identity in eval, random zeros in training."""

import numpy as np

from ..module import Module
from ..argument_checks import check_array


class Dropout(Module):
    """y = x * m / (1 - p), where each entry of m is 0 with probability p, else 1.

    Parameters: p : float in [0, 1), the probability of dropping an entry (drawn to within 2^-16)
        rng : generator or seed that draws the masks
    Shape: x (any) -> y (the same; where nothing is dropped, x itself)
    Backward: dx = dy * m / (1 - p), with the mask of the matching forward
    Raises: ValueError if p lies outside [0, 1).
    Source: Srivastava et al. 2014, section 10 ("inverted" scaling, so that eval is the identity).
    """

    def __init__(self, p, rng=None):
        if not 0 <= p < 1:
            raise ValueError(f"dropout p = {p} must lie in [0, 1): it is the probability of dropping an entry; "
                             "0 switches dropout off")
        self.p = p
        self.rng = np.random.default_rng(rng)

    def forward(self, x):
        if not (self.training and self.p):
            self.remember(None)
            return x
        check_array(self, x)
        scale = self.draw(x)
        self.remember(scale)
        return x * scale

    def backward(self, dy):
        scale = self.recall()
        return dy if scale is None else np.multiply(dy, scale, out=scale)

    def draw(self, x):
        """m / (1 - p), from a quarter as many random numbers of 64 bits as x has entries."""
        bits = self.rng.integers(2 ** 64 - 1, size=-(-x.size // 4), dtype=np.uint64, endpoint=True).view(np.uint16)
        keep = bits[:x.size].reshape(x.shape) >= min(max(round(self.p * 2 ** 16), 1), 2 ** 16 - 1)
        return np.multiply(keep, 1 / (1 - self.p), dtype=x.real.dtype)
