"""Runs, damaged in a thousand ways: each is read, or refused in one sentence, within limits of memory and time."""

import pytest
from helpers.fuzzing import failures


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["runs"])
def test_damaged_files_are_read_or_refused_within_limits(reader, tmp_path):
    assert failures(reader, tmp_path) == []
