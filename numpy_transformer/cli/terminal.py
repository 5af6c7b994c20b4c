"""What commands print: text that fits the terminal, and what remains when nothing reads it."""

import os
import shutil
import sys

from ..texts import width

CLOSED_PIPE = 141                               # what a shell reports for a program that writes to a closed pipe
NARROWEST, WIDEST, WITHOUT_TERMINAL = 60, 120, 100


def output_columns():
    """Returns how many columns output may use: the terminal's width, but at least 60 and at most 120.

    Output that goes to a file or a pipe is 100 columns wide, unless the environment variable COLUMNS is set.
    """
    return min(max(shutil.get_terminal_size((WITHOUT_TERMINAL, 24)).columns, NARROWEST), WIDEST)


def wrap(text, indent="", first_indent=None):
    """Returns `text` with each of its lines wrapped to the terminal's width. Words and options are never split.

    Parameters:
        indent : string placed before every line
        first_indent : string placed before the first line instead, such as a bullet or a label; None: `indent`
    """
    start = indent if first_indent is None else first_indent
    wrapped = []
    for line in text.split("\n"):
        wrapped.append("\n".join(width.wrap(line, output_columns(), start, indent, break_long_words=False)))
        start = indent
    return "\n".join(wrapped)


def drop_output():
    """Discards what is still buffered for standard output, so that Python does not try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
