"""How the heads of attention lie in memory: beside each other in the features, or on an axis of their own."""

import numpy as np


def split_heads(x: np.ndarray, num_heads: int) -> np.ndarray:
    """(..., T, H d) -> (..., H, T, d), a view: head h holds the features from h d to (h + 1) d."""
    return x.reshape(*x.shape[:-1], num_heads, -1).swapaxes(-2, -3)


def merge_heads(x: np.ndarray) -> np.ndarray:
    """(..., H, T, d) -> (..., T, H d), the inverse of split_heads."""
    x = x.swapaxes(-2, -3)
    return x.reshape(*x.shape[:-2], -1)
