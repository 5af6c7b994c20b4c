"""Shows Markdown and source in a terminal: styles instead of marks such as ** and `, in color where the terminal has colors.

A style is first written as a character that takes no column, so that text with styles wraps like text without.
"""

import io
import keyword
import os
import re
import sys
import token
import tokenize

STRONG, CODE, QUIET, END = "\u206a", "\u206b", "\u206c", "\u206d"
ANSI = {STRONG: "\x1b[1m", CODE: "\x1b[36m", QUIET: "\x1b[2m", END: "\x1b[0m"}
STYLES = re.compile("[\u206a-\u206d]")
INLINE = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^\s*](?:[^*]*[^\s*])?)\*\*"
                    r"|(?<![\w*])\*(?P<em>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])|!?\[(?P<link>[^]]+)\]\([^)\s]+\)")
STRINGS = {token.STRING, *(getattr(token, name) for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
                           if hasattr(token, name))}


def has_colors():
    """Returns True if standard output is a terminal with colors. NO_COLOR switches them off."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return os.name != "nt" or "WT_SESSION" in os.environ        # the older console of Windows shows the codes themselves


def styled(text):
    """Returns a line of Markdown with styles in place of its marks. Of a link, its text is left."""
    def style(match):
        if match["code"]:
            return f"{CODE}{match['code']}{END}"
        if match["link"]:
            return match["link"]
        return f"{STRONG}{match['strong'] or match['em']}{END}"
    return INLINE.sub(style, text)


def styled_source(source):
    """Returns Python source in which keywords are strong, comments quiet and strings colored."""
    if not has_colors():
        return source
    lines = source.splitlines()
    try:
        parts = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):  # running the cell reports it
        return source
    for part in reversed(parts):
        style = style_of(part)
        if style and part.start[0] == part.end[0]:
            row, start, end = part.start[0] - 1, part.start[1], part.end[1]
            lines[row] = f"{lines[row][:start]}{style}{lines[row][start:end]}{END}{lines[row][end:]}"
    return "\n".join(lines)


def style_of(part):
    """Returns the style of a token, or None."""
    if part.type == token.NAME and keyword.iskeyword(part.string):
        return STRONG
    if part.type == tokenize.COMMENT:
        return QUIET
    return CODE if part.type in STRINGS else None


def shown(text):
    """Returns a text whose styles are colors of the terminal, or nothing where it has none."""
    colors = has_colors()
    return STYLES.sub(lambda mark: ANSI[mark[0]] if colors else "", text)
