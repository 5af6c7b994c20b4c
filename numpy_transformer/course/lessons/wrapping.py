"""Wraps what a lesson prints to the width of the terminal: prose, claims, questions and source."""

import re
import shutil
import sys
import textwrap

from ...texts.width import columns, wrap

NARROWEST, WIDEST = 30, 100
VERBATIM = re.compile(r"\||    ")               # lines of prose that are not reflowed: tables and code
FENCED = re.compile(r"\s*^```\w*\n(.*?)\n```$\s*", re.M | re.S)
HEADING = re.compile(r"#+ ")
ITEM = re.compile(r"(?:[-*]|\d+\.) +")          # the start of a list item
FOLDED = "↳ "                                   # marks what continues a line of source


def terminal_width():
    """Returns the terminal's width, but at most 100 columns, because longer lines of prose are hard to read."""
    width = shutil.get_terminal_size((WIDEST, 24)).columns or WIDEST            # some terminals say 0
    return min(max(width, NARROWEST), WIDEST)


def wrapped(line, indent="    "):
    """Wraps a line to the terminal with a hanging indent. Output that goes to a file or a pipe stays as it is."""
    if not sys.stdout.isatty() or columns(line) <= terminal_width():
        return line
    return fill_lines(line, indent)


def fill_lines(text, indent=""):
    """Wraps text to the terminal; the second line and those after it start with `indent`."""
    return "\n".join(wrap(text, terminal_width(), subsequent_indent=indent, break_long_words=False))


def reflow(prose):
    """Returns the text of a markdown cell with its headings, paragraphs and list items wrapped to the terminal's width."""
    prose = FENCED.sub(lambda fence: "\n\n" + textwrap.indent(fence[1], "    ") + "\n\n", prose)
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", prose.rstrip()):
        lines = paragraph.splitlines()
        if HEADING.match(paragraph):
            paragraph = "\n".join(fill_lines(line, " " * HEADING.match(line).end() if HEADING.match(line) else "")
                                  for line in lines)
        elif any(map(VERBATIM.match, lines)):
            paragraph = "\n".join(line if line.startswith("|") else fold(line) for line in lines)
        else:
            items = re.split(f"^(?={ITEM.pattern})", paragraph, flags=re.M)
            paragraph = "\n".join(wrap_item(item) for item in items if item.strip())
        paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


def wrap_item(text):
    """Wraps a paragraph or list item; the lines of an item align after its bullet or number."""
    item = ITEM.match(text)
    return fill_lines(" ".join(line.strip() for line in text.splitlines()), " " * (item.end() if item else 0))


def fold(line, gutter="", mark=FOLDED):
    """Returns a line of source after a prefix, such as its number. If it is too wide, it continues after a mark.

    The continuation is indented like the line, so that all that is added is the line break and the mark.
    """
    width = terminal_width() - len(gutter)
    if columns(line) <= width:
        return gutter + line
    indent = line[:len(line) - len(line.lstrip())]
    first, *rest = wrap(line, width, subsequent_indent=f"{indent}  {mark}")
    return "\n".join([gutter + first, *(" " * len(gutter) + part for part in rest)])
