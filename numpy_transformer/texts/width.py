"""Widths as people see them: a Hangul syllable takes two columns of a terminal, and a combining accent takes none."""

import re
import unicodedata

WHITESPACE = str.maketrans("\t\n\x0b\x0c\r", "     ")
VOWELS_AND_FINALS = "\u1160", "\u11ff"          # Hangul letters that join the consonant before them


def columns(text: str) -> int:
    """Returns how many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(columns_of, text))


def columns_of(character: str) -> int:
    """Returns 0, 1 or 2."""
    first, last = VOWELS_AND_FINALS
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or first <= character <= last:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitting(text: str, width: int) -> str:
    """Returns the longest beginning of a text that is at most `width` columns wide."""
    if text.isascii():
        return text[:max(0, width)]
    taken = 0
    for i, character in enumerate(text):
        taken += columns_of(character)
        if taken > width:
            return text[:i]
    return text


def shorten(text: str, width: int, ending: str = "...") -> str:
    """Returns a text as it is if it fits into `width` columns, else its beginning and the ending."""
    return text if columns(text) <= width else fitting(text, width - columns(ending)) + ending


def wrap(text: str, width: int, initial_indent: str = "", subsequent_indent: str = "",
         break_long_words: bool = True) -> list[str]:
    """Returns the lines of a text like `textwrap.wrap`, at most `width` columns wide. Lines are broken at spaces only.

    Parameters:
        initial_indent, subsequent_indent : what the first line and the others start with
        break_long_words : False leaves a word that is too long for a line as it is
    """
    lines: list[str] = []
    words = [word for word in re.split("( +)", text.expandtabs().translate(WHITESPACE)) if word]    # and the spaces
    words.reverse()
    while words:
        indent = subsequent_indent if lines else initial_indent
        columns_left, line = width - columns(indent), []
        if lines and not words[-1].strip():
            words.pop()                         # a line does not begin with the space that it was broken at
        while words and columns(words[-1]) <= columns_left:
            line.append(words.pop())
            columns_left -= columns(line[-1])
        if words and columns(words[-1]) > width - columns(indent):
            if break_long_words:
                part = fitting(words[-1], columns_left) or ("" if line else words[-1][:1])
                line.append(part)
                words[-1] = words[-1][len(part):]
            elif not line:
                line.append(words.pop())
        if line and not line[-1].strip():
            line.pop()
        if line:
            lines.append(indent + "".join(line))
    return lines
