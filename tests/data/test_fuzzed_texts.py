"""Tokenizers and labeled texts, damaged in a thousand ways: each is read, or refused in one sentence."""

import pytest
from helpers.fuzzing import failures


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["story tokenizers", "tokenizers", "labels"])
def test_damaged_files_are_read_or_refused_within_limits(reader, tmp_path):
    assert failures(reader, tmp_path) == []


@pytest.mark.slow
def test_tokenizers_of_published_models(tmp_path):
    pytest.importorskip("tokenizers")
    assert failures("published tokenizers", tmp_path) == []
