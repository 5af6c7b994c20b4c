"""What commands print: text that fits the terminal, and what remains when nothing reads it."""

import contextlib
import os
import re
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


# Not what isprintable() rejects: languages need some spaces, joiners and marks that it takes for unprintable
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class PlainStream:
    """A stream that writes spaces in place of control characters, lone surrogates and changes of the writing direction.

    Whatever a file brings (the names of arrays, labels, tokens, the texts of errors) passes through here before it reaches
    the terminal, where escape sequences could otherwise rewrite what is shown.
    """

    def __init__(self, stream, allowed=""):
        self.stream, self.allowed = stream, allowed

    def write(self, text):
        self.stream.write(CONTROLS.sub(lambda match: match[0] if match[0] in self.allowed else " ", text))
        return len(text)

    def __getattr__(self, name):
        return getattr(self.stream, name)


@contextlib.contextmanager
def plain_output():
    """Within this context standard output and error are PlainStreams. A progress bar returns to the start of its line."""
    with contextlib.redirect_stdout(PlainStream(sys.stdout)), contextlib.redirect_stderr(PlainStream(sys.stderr, "\r")):
        yield


def drop_output():
    """Discards what is still buffered for standard output, so that Python does not try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
