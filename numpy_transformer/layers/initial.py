"""Initial weights, drawn from an explicit generator, in float32."""

import math

import numpy as np

DTYPE = np.float32


def xavier_uniform(rng, shape):
    """Uniform in ±sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010, equation 16)."""
    bound = math.sqrt(6 / sum(shape))
    return np.random.default_rng(rng).uniform(-bound, bound, shape).astype(DTYPE)


def normal(rng, shape, std):
    return (std * np.random.default_rng(rng).standard_normal(shape)).astype(DTYPE)
