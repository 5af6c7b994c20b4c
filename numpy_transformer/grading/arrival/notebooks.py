"""Takes the code for an exercise out of a Jupyter notebook. Outputs are ignored, and nothing runs.

The format is that of nbformat 4 (a list of cells with a `source`) and 3 (worksheets with cells that have an `input`).
"""

import json
import re
from dataclasses import dataclass

from .items import Unreadable
from .statements import statements

LARGEST = 1 << 25                               # bytes of a notebook with its outputs
KEPT_MAGICS = {"time", "timeit", "capture", "prun", "python", "python3", "%time"}      # the cell below them is Python
QUESTION = re.compile(r"[\w.]+\?{1,2}")
CAPTURED = re.compile(r"^([ \t]*\w[\w, ]*=)[ \t]*[%!].*$")
WRITEFILE = re.compile(r"%%(?:writefile|file)[ \t]+(?:-a[ \t]+)?[\"']?([^\s\"']+)")


@dataclass
class NotebookCell:
    """A code cell: its source without magics, its tags, and the file that it writes with %%writefile, if any."""

    source: str
    tags: tuple = ()
    writes: str = ""


def is_notebook(content):
    """Returns True if this looks like a notebook, whatever the name of its file says."""
    start = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith(b"{") and (b'"cells"' in content or b'"worksheets"' in content)


def code_cells(content):
    """Returns the code Cells of a notebook, and remarks. Raises Unreadable."""
    try:
        document = json.loads(content)
        sheets = document.get("worksheets") or [document]
        raw = [cell for sheet in sheets for cell in sheet.get("cells", []) if cell.get("cell_type") == "code"]
        cells = [cell_of(cell) for cell in raw]
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        raise Unreadable("is not a notebook that can be read; save it again in Jupyter, or hand in a .py file") from error
    left_out = any(changed for _, changed in cells)
    kept = [cell for cell, _ in cells if cell.source.strip()]
    return kept, ["magics and shell commands were left out"] if left_out else []


def cell_of(cell):
    """Returns the NotebookCell, and whether anything was left out."""
    source = cell.get("source", cell.get("input", ""))
    source = "".join(source) if isinstance(source, list) else source
    tags = cell.get("metadata", {}).get("tags", [])
    tags = tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    first, _, rest = source.lstrip().partition("\n")
    if first.startswith("%%"):
        written = WRITEFILE.match(first)
        if written:
            return NotebookCell(rest, tags, written[1]), False
        word = first[2:].split()[:1]
        source = rest if word and word[0] in KEPT_MAGICS else ""
        return NotebookCell(without_magics(source), tags), True
    plain = without_magics(source)
    return NotebookCell(plain, tags), plain != source


def without_magics(source):
    """Replaces magics, shell commands and questions such as `x?` by statements without effect."""
    lines, inside = [], ""
    for line in source.split("\n"):
        bare = "" if inside else line.strip()
        captured = CAPTURED.match(line) if bare else None
        if captured:
            line = f"{captured[1]} None"
        elif bare.startswith(("%", "!", "?")) or bare.endswith("?") and QUESTION.fullmatch(bare):
            line = f"{line[:len(line) - len(line.lstrip())]}pass"
        inside = quote_after(line, inside)
        lines.append(line)
    return "\n".join(lines)


def quote_after(line, inside):
    """Returns the triple quote that is open at the end of a line, else ""."""
    for mark in re.findall(r'"{3}|\'{3}', line):
        if not inside:
            inside = mark
        elif mark == inside:
            inside = ""
    return inside


class Notebook:
    """The code cells of a notebook, split into statements once for all exercises.

    Parameters:
        cells : its NotebookCells that belong to no file of their own
    """

    def __init__(self, cells):
        self.cells = cells
        self.source = "\n\n".join(cell.source for cell in cells) + "\n"
        self.parts = [(statement, cell) for cell in cells for statement in statements(cell.source)]
        self.statements = [statement for statement, _ in self.parts]
        self.binding = {}                       # {name: indices of the statements that define it}
        for index, statement in enumerate(self.statements):
            for bound in statement.binds if statement.kind != "other" else ():
                self.binding.setdefault(bound, []).append(index)

    def code_for(self, name, tagged=()):
        """Returns the source for one exercise: what defines `name`, and the imports and helpers that it needs, in order.

        Parameters:
            name : of the function or class
            tagged : the cells that are tagged with the exercise; they are taken as a whole
        """
        whole = {id(cell) for cell in tagged}
        needed = {index for index, (_, cell) in enumerate(self.parts) if id(cell) in whole}
        wanted, seen = [name, "*", *(word for index in needed for word in self.statements[index].uses)], set()
        while wanted:
            word = wanted.pop()
            for index in self.binding.get(word, ()) if word not in seen else ():
                if index not in needed:
                    needed.add(index)
                    wanted += self.statements[index].uses
            seen.add(word)
        return "\n\n".join(self.statements[index].text.strip("\n") for index in sorted(needed)) + "\n"
