"""Dropout: random zeros in training, the identity after eval()."""

import numpy as np

from ..argument_checks import called, check_array, check_numbers
from ..module import Module
from ..types import Seed


class Dropout(Module):
    """y = x * m / (1 - p), where each entry of m is 0 with probability p and 1 otherwise.

    Parameters: p : float in [0, 1), the probability of dropping an entry, rounded to a multiple of 2^-16
        rng : generator or seed that draws the masks, or None
    Shape: x (any) -> y (the same; x itself where nothing is dropped)
    Backward: dx = dy * m / (1 - p), with the mask of the matching forward
    Raises: ValueError if p lies outside [0, 1).
    Source: Srivastava et al. 2014, section 10 ("inverted" scaling, so that evaluation needs no scaling).
    """

    def __init__(self, p: float, rng: Seed = None) -> None:
        check_numbers(p=p)
        if not 0 <= p < 1:
            raise ValueError(f"{called()}dropout p = {p} must lie in [0, 1): it is the probability of dropping an entry; "
                             "0 switches dropout off")
        self.p = p
        self.rng = np.random.default_rng(rng)

    def forward(self, x: np.ndarray) -> np.ndarray:
        if not self.training or self.p == 0:
            self.remember(None)
            return x
        check_array(self, x)
        scale = self.draw(x)
        self.remember(scale)
        return x * scale

    def backward(self, dy: np.ndarray) -> np.ndarray:
        scale = self.recall()
        return dy if scale is None else dy * scale

    def draw(self, x: np.ndarray) -> np.ndarray:
        """Returns m / (1 - p) for an array like x. Each random number of 64 bits serves four entries, 16 bits each."""
        words = self.rng.integers(2 ** 64 - 1, size=-(-x.size // 4), dtype=np.uint64, endpoint=True)
        numbers = words.view(np.uint16)[:x.size].reshape(x.shape)
        threshold = min(max(round(self.p * 2 ** 16), 1), 2 ** 16 - 1)       # a small p still drops some entries
        scale = (numbers >= threshold).astype(x.real.dtype)
        scale *= 1 / (1 - self.p)
        return scale
