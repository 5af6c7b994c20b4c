"""A CSV file in which some cells are filled while everything else stays as it is, byte for byte.

Python's csv module cannot write back the quotes, the line ends and the delimiter that a file came with.
"""

import codecs
import functools
import re

ENCODINGS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
DELIMITERS = (",", ";", "\t")
LARGEST = 256 << 20                             # bytes of a gradebook
NUMBER = re.compile(r"-?[0-9]+(?:[.,][0-9]+)?")


class Sheet:
    """The cells of a CSV file.

    Parameters:
        content : bytes of the file
        name : what errors call the file
    Attributes:
        rows : list of rows, each a list of the cells' values; blank lines are empty rows
        delimiter : the one of comma, semicolon and tab that splits the first line into the most cells
    Raises: ValueError if a quotation mark is never closed, or the file is empty.
    """

    def __init__(self, content, name):
        self.name, self.filled = name, {}
        self.bom = next((bom for bom in ENCODINGS if content.startswith(bom)), b"")
        self.encoding, self.text = self.decode(content[len(self.bom):])
        try:
            first = self.text.lstrip("\r\n")
            self.delimiter = max(DELIMITERS, key=lambda delimiter: len(next(parse(first, delimiter), [])))
            self.spans = [row for row in parse(self.text, self.delimiter) if row]
        except ValueError as error:
            raise ValueError(f"{name} is not a CSV file: {error}") from error
        if not self.spans:
            raise ValueError(f"{name} is empty; download it again")
        self.rows = [[unquote(self.text[start:end]) for start, end in row] for row in self.spans]

    def decode(self, content):
        """Returns an encoding that gives back the same bytes, and the text."""
        if self.bom:
            names = [ENCODINGS[self.bom]]
        else:
            names = ["utf-8", "cp1252", "latin-1"]                          # Excel saves CSV files as cp1252
        for name in names:
            try:
                return name, content.decode(name)
            except UnicodeDecodeError:
                continue
        raise ValueError(f"{self.name} is not text in {names[0]}; download it again")

    def need(self, rows, columns):
        """Raises ValueError if one of these rows has too few cells for these columns."""
        for row in rows:
            if len(self.rows[row]) <= max(columns):
                raise ValueError(f"{self.name} is damaged: row {row + 1} has {len(self.rows[row])} cells, and the "
                                 f"header has {len(self.rows[0])}; download it again")

    def fill(self, row, column, value):
        """Sets a cell, quoted if it was quoted before or has to be."""
        span = start, end = self.spans[row][column]
        was_quoted = self.text[start:end].startswith('"')
        needs_quotes = re.search(f'["\r\n{self.delimiter}]', value) or value != value.strip()
        quoted = '"' + value.replace('"', '""') + '"'
        self.filled[span] = quoted if was_quoted or needs_quotes else value

    def content(self):
        """Returns the bytes of the file with the filled cells."""
        pieces, place = [], 0
        for (start, end), value in sorted(self.filled.items()):
            pieces += [self.text[place:start], value]
            place = end
        text = "".join([*pieces, self.text[place:]])
        return self.bom + text.encode(self.encoding, errors="xmlcharrefreplace")

    def same_except(self, other, columns):
        """Returns True if another Sheet has the same cells outside of these columns."""
        def without_columns(rows):
            return [[cell for i, cell in enumerate(row) if i not in columns] for row in rows]
        return without_columns(self.rows) == without_columns(other.rows)

    @functools.cached_property
    def decimal_mark(self):
        """A comma if the file writes numbers such as 7,50, otherwise a point."""
        comma = any(re.fullmatch(r"[0-9]+,[0-9]+", cell.strip()) for row in self.rows for cell in row)
        return "," if comma else "."

    def write_number(self, value):
        """Returns a number as the file writes it, with two decimals at most."""
        return number_text(value).replace(".", self.decimal_mark)


def parse(text, delimiter):
    """Yields the rows of a CSV text, each as a list of (start, end) of its cells; for a blank line an empty list.

    Raises: ValueError if a quotation mark is never closed.
    """
    cell = re.compile(rf'("[^"]*(?:""[^"]*)*"[^{delimiter}\r\n]*|[^{delimiter}\r\n]*)({delimiter}|\r\n|\n|\r|\Z)')
    place, row = 0, []
    while place < len(text):
        match = cell.match(text, place)
        if match is None or match[1].count('"') % 2 and match[1].startswith('"'):
            line = text.count("\n", 0, place) + 1
            raise ValueError(f"the quotation mark in line {line} is never closed")
        row.append(match.span(1))
        place = match.end()
        if match[2] == delimiter and place < len(text):
            continue
        if match[2] == delimiter:               # the file ends after a delimiter, with an empty cell
            row.append((place, place))
        yield [] if row == [(match.start(), match.start())] else row
        row = []


def unquote(cell):
    """Returns the value of a cell."""
    return re.sub(r'^"(.*)"(.*)$', lambda match: match[1].replace('""', '"') + match[2], cell, flags=re.S)


def number_text(value):
    """Returns a number with two decimals at most: 7.5, 10, 6.67."""
    return f"{value + 1e-9:.2f}".rstrip("0").rstrip(".")


def parse_number(text):
    """Returns the number in a cell, written with a decimal point or comma, or None."""
    text = text.strip()
    return float(text.replace(",", ".")) if NUMBER.fullmatch(text) else None


def read_sheet(path):
    """Returns the Sheet in a file. Raises ValueError if it cannot be read."""
    try:
        if not path.is_file():
            raise ValueError(f"there is no file {str(path)!r}; name the file that you downloaded")
        if path.stat().st_size > LARGEST:
            raise ValueError(f"{path} is larger than {LARGEST >> 20} MB; name the file that you downloaded")
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error.strerror}; change its permissions or move it") from error
    if content.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise ValueError(f"{path.name} is a workbook of a spreadsheet program, not a CSV file; save it as CSV, or "
                         "download it again")
    return Sheet(content, path.name)
