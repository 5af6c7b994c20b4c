"""Parameters of a test of which a few are enough for the default run."""

import pytest


def quick(count, values):
    """The values for `pytest.mark.parametrize`: all but the first `count` belong to the slow tests."""
    return [*values[:count], *(pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
                               for value in values[count:])]
