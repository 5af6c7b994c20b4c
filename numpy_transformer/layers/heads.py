"""How the heads of attention lie in memory: beside each other in the features, or on an axis of their own."""

import numpy as np

from ..argument_checks import called


def split_heads(x: np.ndarray, num_heads: int) -> np.ndarray:
    """(..., T, H d) -> (..., H, T, d), a view: head h holds the features from h d to (h + 1) d."""
    if not x.size:
        raise ValueError(f"{called()}an array of shape {x.shape} holds no token; pass at least one")
    return x.reshape(*x.shape[:-1], num_heads, -1).swapaxes(-2, -3)


def merge_heads(x: np.ndarray) -> np.ndarray:
    """(..., H, T, d) -> (..., T, H d), the inverse of split_heads."""
    x = x.swapaxes(-2, -3)
    return x.reshape(*x.shape[:-2], -1)
