"""The configurations of the benchmark in sizes that a test can afford."""

from dataclasses import replace

import pytest

from numpy_transformer.bench.configs import CONFIGS

SMALL = {name: replace(config, layers=min(config.layers, 2), heads=2, d_model=8, length=5, batch=3, vocab=11)
         for name, config in CONFIGS.items()}
every_config = pytest.mark.parametrize("config", SMALL.values(), ids=SMALL)
