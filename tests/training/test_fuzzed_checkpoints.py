"""Checkpoints, damaged in a thousand ways: a Trainer loads them, or says what is wrong and stays as it is."""

import pytest
from helpers.fuzzing import failures


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["checkpoints"])
def test_damaged_files_are_read_or_refused_within_limits(reader, tmp_path):
    assert failures(reader, tmp_path) == []
