"""Published models, damaged in a thousand ways: headers, config.json and small files are refused in one sentence."""

import pytest
from helpers.fuzzing import failures


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["safetensors", "weights of folders", "config.json", "small files", "story files"])
def test_damaged_files_are_read_or_refused_within_limits(reader, tmp_path):
    assert failures(reader, tmp_path) == []
