"""Distributions of initial weights: each function draws a float32 array with a given generator or seed.

Within unfilled() they draw nothing and return zeros without memory.
"""

import math

import numpy as np

from ..parameter import check_room, drawing, without_memory
from ..types import Seed

DTYPE = np.float32


def xavier_uniform(rng: Seed, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform in ±sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 16)."""
    return uniform(rng, shape, math.sqrt(6 / sum(shape)))


def unfilled_weights(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros without memory. Raises ValueError if the file that is to fill them has far fewer numbers."""
    check_room(math.prod(shape))
    return without_memory(shape, DTYPE)


def uniform(rng: Seed, shape: tuple[int, ...], bound: float) -> np.ndarray:
    """Uniform in ±bound."""
    if not drawing():
        return unfilled_weights(shape)
    return np.random.default_rng(rng).uniform(-bound, bound, shape).astype(DTYPE)


def normal(rng: Seed, shape: tuple[int, ...], std: float) -> np.ndarray:
    """N(0, std²)."""
    if not drawing():
        return unfilled_weights(shape)
    return (std * np.random.default_rng(rng).standard_normal(shape)).astype(DTYPE)


def truncated_normal(rng: Seed, shape: tuple[int, ...], std: float) -> np.ndarray:
    """N(0, std²), where values beyond 2 std are drawn again; the standard deviation that results is 0.88 std."""
    if not drawing():
        return unfilled_weights(shape)
    rng = np.random.default_rng(rng)
    x = rng.standard_normal(shape)
    far = np.abs(x) > 2
    while far.any():
        x[far] = rng.standard_normal(np.count_nonzero(far))
        far = np.abs(x) > 2
    return (std * x).astype(DTYPE)
