"""The matmul baseline of the benchmark consists of exactly the matrix products of a training step."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from helpers.small_configs import every_config
from helpers.ufuncs import record

from numpy_transformer.bench import matmul_baseline


def product(a, b):
    """(matrices, k, {m, n}) of a @ b. What comes to vectors are sums of rows."""
    m, k, n = a.shape[-2] if a.ndim > 1 else 1, a.shape[-1], b.shape[-1] if b.ndim > 1 else 1
    return math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2])), k, *sorted((m, n))


def flops(products):
    return sum(2 * count * k * m * n for count, k, m, n in products)


@every_config
def test_the_baseline_consists_of_exactly_the_matmuls_of_a_step(config):
    config = replace(config, d_model=12, length=7)
    calls, _, _ = record(config.model(), *config.batch_of_ids(), config.criterion())
    real = [product(*inputs) for ufunc, _, inputs, *_ in calls if ufunc is np.matmul]
    real = Counter(found for found in real if 1 not in found[2:])
    alone = Counter(product(a, b) for a, b, _ in matmul_baseline.matmuls(config, config.batch))
    assert real == alone and flops(real.elements()) == flops(alone.elements()) > 10_000


@every_config
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_parts_of_the_baseline_are_the_whole_batch(config, threads, monkeypatch):
    config, made = replace(config, batch=7), []

    def spy(config, batch, matmuls=matmul_baseline.matmuls):
        made.append((batch, matmuls(config, batch)))
        return made[-1][1]

    monkeypatch.setattr(matmul_baseline, "matmuls", spy)
    both = matmul_baseline.matmul_baselines(config, threads)
    (batch, whole), *parts = made if threads > 1 else made * 2      # one thread splits nothing
    assert batch == config.batch == sum(batch for batch, _ in parts) and len(parts) == threads
    work, *split = [flops(product(a, b) for a, b, _ in operations) for _, operations in [(batch, whole), *parts]]
    assert work == sum(split)
    for function, operations in zip(both, (whole, [same for _, part in parts for same in part])):
        for _, _, out in operations:
            out[...] = np.nan
        function()
        for a, b, out in operations:
            np.testing.assert_allclose(out, a @ b, rtol=1e-3, atol=1e-3)
            assert out.dtype == np.float32
