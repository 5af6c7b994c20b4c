"""Dropout: the identity in eval, random zeros in training."""

import numpy as np

from ..module import Module
from .arguments import check_array


class Dropout(Module):
    """y = x * m / (1 - p), where each entry of m is 0 with probability p, else 1.

    Parameters:
        p : float in [0, 1), the probability of dropping an entry
        rng : generator or seed that draws the masks

    Shape:
        x (any) -> y (the same; where nothing is dropped, x itself)

    Backward:
        dx = dy * m / (1 - p), with the mask of the matching forward

    Raises:
        ValueError if p lies outside [0, 1).

    Source: Srivastava et al. 2014, section 10 ("inverted" scaling, so that eval is the identity).
    """

    def __init__(self, p, rng=None):
        if not 0 <= p < 1:
            raise ValueError(f"dropout p = {p} must lie in [0, 1): it is the probability of dropping an entry; "
                             "0 switches dropout off")
        self.p = p
        self.rng = np.random.default_rng(rng)

    def forward(self, x):
        check_array(self, x)
        keep = None
        if self.training and self.p:
            keep = self.rng.random(x.shape, np.float32) >= self.p
        self.remember(keep)
        return self.scale(x, keep)

    def backward(self, dy):
        return self.scale(dy, self.recall())

    def scale(self, x, keep):
        if keep is None:
            return x
        y = x * keep
        y *= 1 / (1 - self.p)
        return y
