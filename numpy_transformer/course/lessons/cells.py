"""The cells of a lesson: `# %% Title` starts a cell of code, and `# %% [markdown]` one of prose."""

import ast
import itertools
import re
from dataclasses import dataclass

from ...texts.width import shorten
from .coloring import shown, styled_source
from .wrapping import HEADING, fold, terminal_width

CODE = 9                                        # level of a code cell's title, below all headings of prose
WORDS, LINES = 150, 12                          # words of prose, and lines of code, that are read in a minute


@dataclass
class Cell:
    """A `# %%` cell: its title, the number of its first line, and its lines."""

    title: str
    line: int
    text: str

    @property
    def prose(self):
        """The text of a markdown cell; None for code."""
        return re.sub(r"^# ?", "", self.text, flags=re.M) if self.title == "[markdown]" else None

    @property
    def headings(self):
        """The headings of a markdown cell, or the title of a code cell, as tuples (level, line)."""
        if self.prose is not None:
            return [(line.index(" "), line) for line in self.prose.splitlines() if HEADING.match(line)]
        return [(CODE, self.title)] if self.title else []

    @property
    def name(self):
        """One line for a table of contents: the first heading or the title, or else the first words."""
        if self.headings:
            level, heading = self.headings[0]
            return heading if level == CODE else heading[level + 1:]
        first = re.split(r"\n\s*\n", (self.text if self.prose is None else self.prose).strip())[0]
        return " ".join(first.split())

    @property
    def numbered_source(self):
        """The source with line numbers of the file, without the answers to the questions."""
        lines = dict(enumerate(self.text.splitlines(), 1))
        for first, start, last, end in hidden_answers(self.text):
            kept = lines[first].encode()[:start].decode()
            rest = lines[last].encode()[end:].decode()
            for n in range(first + 1, last + 1):
                del lines[n]
            lines[first] = f"{kept}...){rest}"
        source = styled_source("\n".join(lines.values())).splitlines()
        return shown("\n".join(fold(line, f"{self.line + n:4}  ") for n, line in zip(lines, source)))


def cells(source):
    """Returns the cells of a script. Any text before the first mark is a cell without a title."""
    lines = source.splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("# %%")] + [len(lines)]
    if any(line.strip() for line in lines[:starts[0]]):
        starts.insert(0, -1)
    return [Cell(lines[n][4:].strip() if n >= 0 else "", n + 1, "\n".join(lines[n + 1:end]).rstrip("\n"))
            for n, end in zip(starts, starts[1:])]


def words_of_prose(every):
    return sum(len(cell.prose.split()) for cell in every if cell.prose is not None)


def lines_of_code(every):
    """Returns the number of lines of code without empty lines and comments of their own."""
    return sum(bool(line.strip()) and not line.lstrip().startswith("#")
               for cell in every if cell.prose is None for line in cell.text.splitlines())


def reading_minutes(every):
    """Returns how long it takes to read some cells, in steps of five minutes.

    150 words of prose take a minute, since formulas stand among them, and so do 12 lines of code.
    """
    return max(5, 5 * round((words_of_prose(every) / WORDS + lines_of_code(every) / LINES) / 5))


def divided(cell, alone=False):
    """Returns a cell of code in parts, each of which is a cell: a part ends where `predict` asks a question.

    Parameters:
        cell : Cell
        alone : if True, each statement that asks is a part of its own
    """
    try:
        asking = [node for node in ast.parse(cell.text).body if any(map(is_question, ast.walk(node)))]
    except SyntaxError:
        return [cell]
    lines = cell.text.splitlines()
    cuts = {node.end_lineno for node in asking} | {node.lineno - 1 for node in asking if alone}
    parts = []
    for start, end in itertools.pairwise(sorted(cuts | {0, len(lines)})):
        while start < end and not lines[start].strip():
            start += 1
        if start < end:
            parts.append(Cell(cell.title, cell.line + start, "\n".join(lines[start:end]).rstrip()))
    return parts or [cell]


def asks(cell):
    """Returns True if a cell consists of one statement that asks a question."""
    statements = ast.parse(cell.text).body
    return len(statements) == 1 and any(map(is_question, ast.walk(statements[0])))


def is_question(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "predict"


def hidden_answers(source):
    """Returns, from the last to the first, where the answers of `predict(question, answer, why)` stand in a cell.

    Each is a tuple of the line and byte where the answer starts, and the line and byte after the closing parenthesis.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:                         # shown as it is; running it reports the error
        return []
    places = []
    for node in ast.walk(tree):
        hidden = [*node.args[1:], *node.keywords] if is_question(node) else []
        if hidden:
            start = min((part.lineno, part.col_offset) for part in hidden)
            places.append((*start, node.end_lineno, node.end_col_offset))
    return sorted(places, reverse=True)


def contents(every, current):
    """Returns a line for each cell. An arrow marks the current one; titles of code are indented."""
    width, lines = terminal_width(), []
    for n, cell in enumerate(every):
        line = f"{'>' if n == current else ' '} {n + 1:3}  {'' if cell.prose is not None else '  '}{cell.name}"
        lines.append(shorten(line, width))
    return lines
