"""HTML for notebooks: text is escaped, colors are those of the page, and nothing is loaded from elsewhere."""

from html import escape

WRONG = "background:rgba(248,81,73,.32);font-weight:bold;text-decoration:underline"     # readable on light and on dark
RIGHT = "background:rgba(46,160,67,.18)"
LEFT = "text-align:left"
CODE = "font-family:monospace;white-space:pre-wrap;text-align:left"


def element(name, content, style=""):
    """Returns an element around HTML that is already escaped."""
    return f'<{name} style="{style}">{content}</{name}>' if style else f"<{name}>{content}</{name}>"


def paragraph(text, style=LEFT):
    return element("p", escape(text), style)


def preformatted(text):
    return element("pre", escape(text), CODE)


def table(headings, rows, caption="", styles=None):
    """Returns a table of texts.

    Parameters:
        headings : texts; an empty list for no line of headings
        rows : lists of texts; numbers are aligned on the right, the first column on the left
        styles : function (row, column) -> style of a cell; None: no styles
    """
    parts = [element("caption", escape(caption), LEFT)] if caption else []
    if headings:
        parts.append(element("thead", element("tr", "".join(
            element("th", escape(text), alignment(i)) for i, text in enumerate(headings)))))
    body = []
    for i, row in enumerate(rows):
        cells = (element("td", escape(str(text)), joined(alignment(j), styles(i, j) if styles else ""))
                 for j, text in enumerate(row))
        body.append(element("tr", "".join(cells)))
    return element("table", "".join([*parts, element("tbody", "".join(body))]), "margin:.4em 1.5em .4em 0")


def alignment(column):
    return LEFT if column == 0 else "text-align:right"


def joined(*styles):
    return ";".join(filter(None, styles))


def details(summary, content, is_open=False):
    """Returns content that is folded under its summary; both are already escaped."""
    return f"<details{' open' if is_open else ''}><summary>{summary}</summary>{content}</details>"


def side_by_side(*parts):
    """Returns HTML parts next to each other, or one below the other where the page is narrow."""
    return element("div", "".join(parts), "display:flex;flex-wrap:wrap;align-items:flex-start")
