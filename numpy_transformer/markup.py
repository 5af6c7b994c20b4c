"""HTML for notebooks: text is escaped, colors are those of the page, and nothing is loaded from elsewhere."""

import re
from html import escape

WRONG = "background-color:rgba(248,81,73,.32);font-weight:bold;text-decoration:underline"     # readable on light and on dark
RIGHT = "background-color:rgba(46,160,67,.18)"
LEFT, RIGHT_SIDE = "text-align:left", "text-align:right"
PADDING = "padding:.1em .4em"
LONG = 40                                       # characters of a text that may be wrapped
NUMBER = r"|-|nan|-?inf|[-+]?[\d,]*\.?\d+(e[-+]\d+)?"
LINES = "text-align:left;white-space:pre-line"
INDENTED = "text-align:left;margin-left:1.2em"
CODE = "font-family:monospace;white-space:pre-wrap;text-align:left"


def element(name, content, style=""):
    """Returns an element around HTML that is already escaped."""
    return f'<{name} style="{style}">{content}</{name}>' if style else f"<{name}>{content}</{name}>"


def paragraph(text, style=LEFT):
    return element("p", escape(text), style)


def preformatted(text):
    return element("pre", escape(text), CODE)


def html_table(headings, rows, caption="", styles=None):
    """Returns a table of texts. Columns of numbers are aligned on the right, others on the left.

    Parameters:
        headings : texts; an empty list for no line of headings
        rows : lists of texts
        styles : function (row, column) -> style of a cell; None: no styles
    """
    sides = [side(column) for column in zip(*rows)] or [LEFT] * len(headings)
    parts = [element("caption", escape(caption), LEFT)] if caption else []
    if headings:
        parts.append(element("thead", element("tr", "".join(
            element("th", escape(text), f"{PADDING};{sides[j]}") for j, text in enumerate(headings)))))
    body = []
    for i, row in enumerate(rows):
        cells = []
        for j, text in enumerate(row):
            wrapping, extra = "" if len(text) > LONG else "white-space:nowrap", styles(i, j) if styles else ""
            cells.append(element("td", escape(text), joined_styles(PADDING, sides[j], wrapping, extra)))
        body.append(element("tr", "".join(cells)))
    return element("table", "".join([*parts, element("tbody", "".join(body))]), "margin:.4em 1.5em .4em 0")


def side(texts):
    return RIGHT_SIDE if all(re.fullmatch(NUMBER, text) for text in texts) else LEFT


def joined_styles(*styles):
    return ";".join(filter(None, styles))


def details(summary, content, is_open=False):
    """Returns content that is folded under its summary; both are already escaped."""
    return f"<details{' open' if is_open else ''}><summary>{summary}</summary>{content}</details>"


def tree(title, note, rows, branches, is_open=True):
    """Returns a part of a tree: its title, a note, a table of rows, and its branches, which are folded.

    Parameters:
        title, note : texts
        rows : lists of texts
        branches : list of tuples (title, note, rows, branches)
    """
    summary = f"{element('b', escape(title))} {escape(note)}"
    content = html_table([], rows) if rows else ""
    content += "".join(tree(*branch, is_open=False) for branch in branches)
    if not content:
        return element("div", summary, INDENTED)
    return element("div", details(summary, element("div", content, INDENTED), is_open), LEFT)


def side_by_side(*parts):
    """Returns HTML parts next to each other, or one below the other where the page is narrow."""
    return element("div", "".join(parts), "display:flex;flex-wrap:wrap;align-items:flex-start")
