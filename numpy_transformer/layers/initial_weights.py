"""Initial weights, drawn from an explicit generator, in float32."""

import math

import numpy as np

DTYPE = np.float32


def xavier_uniform(rng, shape):
    """Uniform in ±sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 16)."""
    return uniform(rng, shape, math.sqrt(6 / sum(shape)))


def uniform(rng, shape, bound):
    return np.random.default_rng(rng).uniform(-bound, bound, shape).astype(DTYPE)


def normal(rng, shape, std):
    return (std * np.random.default_rng(rng).standard_normal(shape)).astype(DTYPE)


def truncated_normal(rng, shape, std):
    """N(0, std²), drawn again beyond 2 std, which leaves a standard deviation of 0.88 std."""
    rng = np.random.default_rng(rng)
    x = rng.standard_normal(shape)
    while (far := np.abs(x) > 2).any():
        x[far] = rng.standard_normal(np.count_nonzero(far))
    return (std * x).astype(DTYPE)
