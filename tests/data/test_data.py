"""The built-in text, text files, windows of a text, and numbers with their nouns."""

import numpy as np
import pytest

from numpy_transformer.data import CharTokenizer, TextWindows, builtin_text, read_text
from numpy_transformer.data.plurals import counted
from numpy_transformer.data.text import consecutive_windows


def test_the_built_in_text_is_long_english():
    text = builtin_text()
    assert len(text) > 300_000 and text.count(" the ") > 2000


def test_characters_round_trip_and_unknown_ones_are_named():
    text = "ein Käse, 日本\n"
    tokens = CharTokenizer(text)
    assert tokens.decode(tokens.encode(text)) == text and tokens.vocab_size == len(set(text))
    with pytest.raises(ValueError, match="'z' is not among the"):
        tokens.encode("zebra")


def test_targets_are_the_inputs_shifted_by_one_token():
    ids = np.arange(1000)
    windows = TextWindows(ids, length=7, batch_size=5, seed=3)
    (x,), y = windows.batch(0)
    assert x.shape == y.shape == (5, 7)
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(np.diff(x, axis=1), 1)
    assert all(windows.batch(step)[1].max() < 900 for step in range(200))


def test_a_batch_depends_only_on_seed_and_step():
    ids = np.arange(1000)
    first, second = TextWindows(ids, 7, 5, seed=3), TextWindows(ids, 7, 5, seed=3)
    for step in range(4):
        first.batch(step)
    np.testing.assert_array_equal(first.batch(9)[1], second.batch(9)[1])
    assert not np.array_equal(first.batch(9)[1], first.batch(10)[1])
    assert not np.array_equal(first.batch(9)[1], TextWindows(ids, 7, 5, seed=4).batch(9)[1])


def test_validation_covers_the_last_tenth_once():
    windows = TextWindows(np.arange(10_000), length=9, batch_size=5, seed=0)
    targets = np.concatenate([y.ravel() for _, y in windows.validation()])
    np.testing.assert_array_equal(targets, np.arange(9001, 10_000))     # token 9000, the first, has nothing before it


@pytest.mark.parametrize("content, match", [
    (b"", "is empty"), (b" \n\n", "has only blank lines"), (b"caf\xe9", r"not UTF-8 \(byte 0xe9 at offset 3\)")])
def test_errors_name_texts_that_cannot_be_used(tmp_path, content, match):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=match):
        read_text(path)


def test_errors_name_missing_and_short_texts(tmp_path):
    with pytest.raises(ValueError, match="cannot read .*no-such-file"):
        read_text(tmp_path / "no-such-file")
    with pytest.raises(ValueError, match="too short.*650 are needed"):
        TextWindows(np.arange(600), 64, 4, 0)


def test_a_text_of_one_token_has_nothing_to_predict():
    with pytest.raises(ValueError, match="^a text of 1 token has no next token to predict; use a longer one$"):
        consecutive_windows(np.arange(1), 5)


def test_repr():
    assert repr(TextWindows(np.arange(12_345), length=7, batch_size=5, seed=3)) == (
        "TextWindows(11,110 training tokens, 1,235 validation tokens, length=7, batch_size=5)")


def test_a_text_is_evaluated_to_its_last_token():
    batches = consecutive_windows(np.arange(24), 5)                    # 4 windows of 5 targets, and one of 3
    targets = np.concatenate([y.ravel() for _, y in batches])
    np.testing.assert_array_equal(np.sort(targets), np.arange(1, 24))
    for (x,), y in batches:
        np.testing.assert_array_equal(y, x + 1)


def test_a_large_vocabulary_makes_the_batches_of_an_evaluation_smaller():
    ids = np.arange(1001)
    whole, parts = consecutive_windows(ids, 10), consecutive_windows(ids, 10, vocab_size=2 ** 18)
    assert [len(y) for _, y in whole] == [64, 36] and {len(y) for _, y in parts[:-1]} == {6}
    np.testing.assert_array_equal(np.concatenate([y for _, y in whole]), np.concatenate([y for _, y in parts]))
    assert {len(y) for _, y in consecutive_windows(ids, 10, vocab_size=2 ** 40)} == {1}
    windows = TextWindows(ids, 10, 4, 0, vocab_size=2 ** 18)
    assert len(windows.validation()) == len(consecutive_windows(windows.held_out, 10, 2 ** 18)) == 2


def test_numbers_take_the_singular_or_the_plural():
    assert [counted(n, "thread") for n in (0, 1, 2, 1200)] == ["0 threads", "1 thread", "2 threads", "1,200 threads"]
