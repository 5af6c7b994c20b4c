"""Printed text fits the terminal."""

import pytest

from numpy_transformer.cli.terminal import output_columns, wrap


@pytest.mark.parametrize("terminal, used", [("40", 60), ("60", 60), ("93", 93), ("300", 120), (None, 100)])
def test_output_is_as_wide_as_the_terminal_within_limits(monkeypatch, terminal, used):
    if terminal is None:
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.setattr("sys.__stdout__", None)             # no terminal to ask
    else:
        monkeypatch.setenv("COLUMNS", terminal)
    assert output_columns() == used


def test_wrap_indents_every_line_and_splits_no_word(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    words = "a model of width 64 may be too narrow, so raise --d-model together with --num-heads and train again"
    assert wrap(f"{words}\n{'x' * 70}", "    ", "  * ") == (
        "  * a model of width 64 may be too narrow, so raise\n"
        "    --d-model together with --num-heads and train again\n"
        f"    {'x' * 70}")


def test_hangul_is_wrapped_by_the_columns_that_it_takes(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = wrap("가나다라 " * 20, "  ").splitlines()
    assert [len(line) for line in lines] == [31, 31, 31, 11]            # six words of four syllables: 2 + 6 * 8 + 5 columns
