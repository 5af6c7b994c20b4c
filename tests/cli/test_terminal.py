"""Printed text fits the terminal."""

import sys

import pytest

from numpy_transformer.cli.terminal import output_columns, plain_output, wrap


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


def test_control_characters_reach_neither_output_nor_errors(capsys):
    with plain_output():
        print("a\x1b[31m\tb\x07\r\nc\x9b\u202e\ud800 \u3000\u200d가")
        print("1/2\r2/2 \x1b]0;x", file=sys.stderr)
        sys.stdout.flush()
    print("\x1b is as before")
    out, err = capsys.readouterr()
    assert out == "a [31m\tb  \nc    \u3000\u200d가\n\x1b is as before\n" and err == "1/2\r2/2  ]0;x\n"
