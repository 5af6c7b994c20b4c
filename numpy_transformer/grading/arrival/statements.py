"""Splits Python source into its top-level statements without parsing it.

A parser can be crashed by a file that is made for it, and gives nothing for a file with a syntax error. Here strings,
comments and brackets are recognized, which is enough to tell what each statement defines and uses.
"""

import functools
import re
from dataclasses import dataclass

# A quotation mark that is never closed takes the rest of the file or of the line, so that no text takes long.
STRINGS = (r'''([rbuf]{0,2})(?:"{3}(?:[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"{3}|.*)'''
           r'''|'{3}(?:[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'{3}|.*)'''
           r'''|"(?:[^"\\\n]*(?:\\.[^"\\\n]*)*"|[^\n]*)'''
           r'''|'(?:[^'\\\n]*(?:\\.[^'\\\n]*)*'|[^\n]*))|#[^\n]*''')
TEXTS = re.compile(STRINGS, re.S | re.I)        # strings and comments
# The last one is a line end before something at the left margin, where a statement may start.
PIECES = re.compile(STRINGS + r"|\\\n|[()\[\]{}]|\n(?=[^\s#)\]}])", re.S | re.I)
CONTINUES = re.compile(r"(?:else|elif|except|finally)\b")
SURELY_STARTS = re.compile(r"(?:def|class|import|from|async def) +\w|@\w")
DEFINES = re.compile(r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.M)
ASSIGNS = re.compile(r"^[ \t]*\(?(\w+(?:[ \t]*,[ \t]*\w+)*)\)?[ \t]*(?::[^=\n]*)?=(?!=)", re.M)
IMPORTS = re.compile(r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+)?import[ \t]+(\([^()]*\)|[^\n;]+)", re.M)
COMPOUND = re.compile(r"(?:if|try|with|for|while)\b")
WORD = re.compile(r"[^\W\d]\w*")


@dataclass
class Statement:
    """A statement at the left margin with everything below it."""

    text: str
    kind: str                                   # "definition", "import", "assignment", "compound" or "other"
    binds: set                                  # names that it defines
    code: str                                   # the text without comments and strings

    @functools.cached_property
    def uses(self):
        """The names that occur in it."""
        return set(WORD.findall(self.code))


def pieces(text):
    """Returns the source in statements, as they were written."""
    statement_texts, start, line, depth = [], 0, 0, 0
    for match in PIECES.finditer(text):
        piece, end = match[0], match.end()
        if piece in "([{":
            depth += 1
        elif piece in ")]}":
            depth = max(0, depth - 1)
        elif piece == "\n" and (SURELY_STARTS.match(text, end) or depth == 0 and not CONTINUES.match(text, end)):
            if text[line] != "@":               # a decorator belongs to what follows
                statement_texts.append(text[start:end])
                start = end
            line, depth = end, 0
    return [*statement_texts, text[start:]]


def statements(text):
    """Returns the Statements of a source."""
    return [parse_statement(piece) for piece in pieces(text) if piece.strip()]


def parse_statement(piece):
    code = without_strings(piece)
    first = code.lstrip()
    if COMPOUND.match(first):
        return Statement(piece, "compound", set(DEFINES.findall(code)) | assigned(code) | imported_names(code), code)
    if first.startswith("@") or DEFINES.match(first):
        return Statement(piece, "definition", set(DEFINES.findall(first)[:1]), code)
    if IMPORTS.match(first):
        return Statement(piece, "import", imported_names(first), code)
    names = assigned(first)
    return Statement(piece, "assignment" if names else "other", names, code)


def without_strings(text):
    """Returns the source without comments and strings. Strings with an f stay, because they contain code."""
    return TEXTS.sub(replacement, text)


def replacement(match):
    if match[1] is None:
        return ""                               # a comment
    return match[0] if "f" in match[1].lower() else '""'


def assigned(code):
    return {name for group in ASSIGNS.findall(code) for name in WORD.findall(group)}


def imported_names(code):
    """Returns the names that import statements bind; "*" for all names of a module."""
    names = set()
    for _, group in IMPORTS.findall(code):
        for part in group.strip("() \n").split(","):
            words = part.split()
            if words:
                names.add(words[-1] if "as" in words else words[0].split(".")[0])
    return names


def modules(code):
    """Returns the modules that a source imports, such as {"numpy", "helper", "utils.tools"}."""
    imported_modules = set()
    for origin, group in IMPORTS.findall(without_strings(code)):
        names = {part.split()[0] for part in group.strip("() \n").split(",") if part.split()}
        imported_modules |= names if not origin else {origin.lstrip(".") or name for name in names}
        imported_modules |= {f"{origin.lstrip('.')}.{name}" for name in names} if origin else set()
    return imported_modules
