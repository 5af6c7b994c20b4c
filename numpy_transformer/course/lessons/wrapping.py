"""Wraps what a lesson prints to the width of the terminal: prose, claims, questions and source."""

import re
import shutil
import sys
import textwrap

from ...texts.width import columns, wrap
from .coloring import END, STRONG, shown, styled

NARROWEST, UNKNOWN = 30, 100                    # columns; UNKNOWN is the width of output that goes to no terminal
VERBATIM = re.compile(r"\||    ")               # lines of prose that are not reflowed: tables and code
FENCED = re.compile(r"\s*^```\w*\n(.*?)\n```$\s*", re.M | re.S)
HEADING = re.compile(r"#+ ")
ITEM = re.compile(r"(?:[-*]|\d+\.) +")          # the start of a list item
RULE = re.compile(r"[|:\- ]+")                  # the line below a table's head
FOLDED = "↳ "                                   # marks what continues a line of source


def terminal_width():
    """Returns the terminal's width, but at least 30 columns."""
    width = shutil.get_terminal_size((UNKNOWN, 24)).columns or UNKNOWN          # some terminals say 0
    return max(width, NARROWEST)


def wrapped(line, indent="    "):
    """Wraps a line to the terminal with a hanging indent. Output that goes to a file or a pipe stays as it is."""
    if not sys.stdout.isatty() or columns(line) <= terminal_width():
        return line
    return fill_lines(line, indent)


def fill_lines(text, indent=""):
    """Wraps text to the terminal; the second line and those after it start with `indent`."""
    return "\n".join(wrap(text, terminal_width(), subsequent_indent=indent, break_long_words=False))


def reflow(prose):
    """Returns the text of a markdown cell as a terminal shows it: wrapped to its width, with styles instead of marks."""
    prose = FENCED.sub(lambda fence: "\n\n" + textwrap.indent(fence[1], "    ") + "\n\n", prose)
    return shown("\n\n".join(map(reflow_paragraph, re.split(r"\n\s*\n", prose.rstrip()))))


def reflow_paragraph(paragraph):
    lines = paragraph.splitlines()
    if HEADING.match(paragraph):
        return "\n".join(fill_lines(f"{STRONG}{HEADING.sub('', line, count=1)}{END}") for line in lines)
    if all(line.startswith("|") for line in lines):
        return table(lines)
    if any(map(VERBATIM.match, lines)):
        return "\n".join(map(fold, lines))
    items = re.split(f"^(?={ITEM.pattern})", paragraph, flags=re.M)
    return "\n".join(wrap_item(item) for item in items if item.strip())


def table(lines):
    """Returns the lines of a Markdown table as columns of equal width, with a rule below its head."""
    rows = [[styled(cell.strip()) for cell in line.strip("|").split("|")] for line in lines if not RULE.fullmatch(line)]
    widths = [max(map(columns, column)) for column in zip(*rows)]
    rows.insert(1, ["─" * width for width in widths])
    return "\n".join(fold("  ".join(cell + " " * (width - columns(cell)) for cell, width in zip(row, widths)).rstrip())
                     for row in rows)


def wrap_item(text):
    """Wraps a paragraph or list item; the lines of an item align after its bullet or number."""
    item = ITEM.match(text)
    text = " ".join(line.strip() for line in text.splitlines())
    if item and text[0] == "*":
        text = "-" + text[1:]
    return fill_lines(styled(text), " " * (item.end() if item else 0))


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
