"""Lines are as wide as people see them, and those of Latin letters are broken where textwrap breaks them."""

import random
import textwrap

import pytest

from numpy_transformer.texts.width import columns, fitting, shorten, wrap


@pytest.mark.parametrize("text, width", [
    ("query", 5), ("질의", 4), ("ＡＢ", 4), ("e\u0301", 1), ("\u1112\u1161\u11ab", 2), ("한글 text", 9), ("学", 2), ("é", 1),
    ("a\u200db", 2), ("", 0)])
def test_columns_of_letters(text, width):
    assert columns(text) == width


@pytest.mark.parametrize("break_long_words", [True, False])
def test_latin_letters_are_wrapped_as_textwrap_does(break_long_words):
    rng = random.Random(0)
    for _ in range(500):
        words = ["x" * rng.randrange(1, 14) + rng.choice(["", ".", "-y", "é"]) for _ in range(rng.randrange(12))]
        text = "".join(word + rng.choice([" ", "  ", "\n", "\t"]) for word in words)
        width, first, others = rng.randrange(8, 30), " " * rng.randrange(4), " " * rng.randrange(6)
        assert wrap(text, width, first, others, break_long_words) == textwrap.wrap(
            text, width, initial_indent=first, subsequent_indent=others, break_long_words=break_long_words,
            break_on_hyphens=False), (text, width)


def test_wide_letters_fill_a_line_with_half_as_many():
    assert wrap("행렬 곱의 기울기는 두 행렬이다", 10) == ["행렬 곱의", "기울기는", "두", "행렬이다"]
    assert wrap("가나다라마바사", 5, "- ", "  ") == ["- 가", "  나", "  다", "  라", "  마", "  바", "  사"]
    assert wrap("x 가나다라", 5) == ["x 가", "나다", "라"]


def test_a_line_too_narrow_for_one_letter_still_takes_it():
    assert wrap("가나", 1) == ["가", "나"] and wrap("ab", 0) == ["a", "b"]


def test_texts_are_cut_at_whole_letters():
    assert [fitting("가나다", width) for width in (0, 1, 2, 5, 6, 9)] == ["", "", "가", "가나", "가나다", "가나다"]
    assert fitting("e\u0301x", 1) == "e\u0301" and fitting("abc", -1) == ""
    assert shorten("가나다라", 8) == "가나다라" and shorten("가나다라", 7) == "가나..." and shorten("abcdef", 5) == "ab..."
