"""The configurations of the benchmark in sizes that a test can afford."""

from dataclasses import replace

import pytest

from numpy_transformer.bench.configs import CONFIGS, PUBLISHED


def small(config):
    return replace(config, layers=min(config.layers, 2), heads=2, d_model=8, length=5, batch=3, vocab=11,
                   max_len=min(config.max_len, 16))


SMALL = {name: small(config) for name, config in CONFIGS.items() if name not in PUBLISHED}
SMALL_PUBLISHED = {name: small(CONFIGS[name]) for name in PUBLISHED}
every_config = pytest.mark.parametrize("config", SMALL.values(), ids=SMALL)
