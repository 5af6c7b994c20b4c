"""Labeled texts from plain files: one file per class, or one table with named columns."""

import csv
import io
from collections import Counter
from pathlib import Path

from ..file_checks import quoted, shown
from .plurals import counted
from .text import read_text

SPLITS = {"train": "training", "training": "training", "validation": "validation", "valid": "validation",
          "val": "validation", "dev": "validation", "test": "test"}


def read_class_files(paths, progress=None):
    """Reads ({"training": [(text, label)], "test": ...}, report) from files with one text per line, one file per class.

    The label is the suffix of the file name, as in rt-polarity.neg and rt-polarity.pos, or the stem if the suffixes are
    equal. The last tenth of each file is the test set. A file that is not UTF-8 is read as latin-1, in which every byte
    is a character.

    Parameters:
        paths : list of str or Path
        progress : function without arguments, called after each file

    Raises:
        ValueError if a file cannot be read or has no text, or if the names do not give distinct labels.
    """
    rows, report = [], []
    for label, path in sorted(zip(class_names(paths), paths), key=lambda pair: pair[0]):
        text, notes = read_utf8_or_latin1(path)
        lines = [line.strip() for line in text.removesuffix("\n").split("\n")]      # splitlines splits at U+0085 too
        rows += [(line, label) for line in lines if line]
        empty = [n for n, line in enumerate(lines, 1) if not line]
        report += notes + report_dropped(path, len(lines), empty, "lines: empty")
        if progress:
            progress()
    return last_tenth(rows), report


def class_names(paths):
    """Returns the label of each file. Raises ValueError if neither the suffixes nor the stems are distinct."""
    paths = [Path(path) for path in paths]
    for names in ([path.suffix[1:] for path in paths], [path.stem for path in paths]):
        if all(names) and len(set(names)) == len(names):
            return names
    raise ValueError(f"the files {', '.join(map(repr, names))} must have different suffixes or different stems, which "
                     "are the names of the classes; rename them, for instance to reviews.neg and reviews.pos")


def read_utf8_or_latin1(path):
    """Returns (text, report) of a file."""
    report = []
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        text = Path(path).read_text(encoding="latin-1")
        report = [f"{str(path)!r} is not UTF-8 and was read as latin-1"]
    except OSError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error.strerror}; give the path of a readable text "
                         "file") from error
    if "\0" in text:
        raise ValueError(f"{str(path)!r} has a zero byte at character {text.index(chr(0)):,}, so it is not a text in "
                         "UTF-8 or latin-1; unpack it, or convert it, for instance with iconv -f UTF-16 -t UTF-8")
    if not text.strip():
        raise ValueError(f"{str(path)!r} is empty, but each class needs at least 1 text; give a file with one text "
                         "per line")
    return text, report


def read_table(path, text_column, label_column, labels=None, progress=None):
    """Reads ({"training": [(text, label)], ...}, report) from a UTF-8 .csv or .tsv whose first row names the columns.

    If there is a column "split" (train, validation or test), it is used; otherwise, the last tenth of each class is the
    test set. Rows without a text or a label, which many published tables have, are dropped and reported. A row whose
    number of columns differs from the first row is an error, because its text might be mistaken for its label.

    Parameters:
        path : str or Path
        text_column, label_column : names of columns
        labels : list of the only labels that may occur; None allows any
        progress : function without arguments, called once the file is read

    Raises:
        ValueError if the table cannot be read, lacks a column, or has a label that is not one of `labels`.
    """
    rows, report = table_rows(path)
    (_, header), *rows = [(line, [cell.strip() for cell in row]) for line, row in rows]
    columns = [column_index(path, header, name) for name in (text_column, label_column)]
    has_split = "split" in header
    if has_split:
        columns.append(header.index("split"))
    parts = {"training": [], "validation": [], "test": []}
    empty = []
    for line, row in rows:
        text, label, *split = row_cells(path, line, row, header, columns)
        if text and label:
            check_known_label(label, labels, f"line {line:,} of {str(path)!r}")
            parts[split_name(path, line, *split)].append((text, label))
        else:
            empty.append(line)
    if not any(parts.values()):
        raise ValueError(f"{str(path)!r} has no row with both a text and a label; give a table that has some")
    if progress:
        progress()
    report += report_dropped(path, len(rows), empty, "rows: no text or no label")
    return (parts if has_split else last_tenth(parts["training"])), report


def table_rows(path):
    """Returns ([(line number, row)], report). Unclosed quotation marks of a .tsv are read as plain characters."""
    text = read_text(path)
    is_tsv = Path(path).suffix.lower() == ".tsv"
    try:
        return parse_rows(path, text, delimiter="\t" if is_tsv else ",", strict=True), []
    except ValueError:
        if not is_tsv:
            raise
    return (parse_rows(path, text, delimiter="\t", quoting=csv.QUOTE_NONE),
            [f"the quotation marks of {str(path)!r} are not closed and were read as plain characters"])


def parse_rows(path, text, **dialect):
    """Returns [(line number, row)] as the csv module parses the text."""
    reader = csv.reader(io.StringIO(text), **dialect)
    rows = []
    limit = csv.field_size_limit(len(text) + 1)
    try:
        for row in reader:
            rows.append((reader.line_num, row))
    except csv.Error as error:
        start = rows[-1][0] + 1 if rows else 1
        raise ValueError(f"the row at line {start:,} of {str(path)!r} cannot be read ({error}); close its quotation "
                         "marks, and double those inside a text") from error
    finally:
        csv.field_size_limit(limit)             # Python's default is 131,072 characters
    return rows


def column_index(path, header, name):
    if header.count(name) != 1:
        raise ValueError(f"{str(path)!r} must have one column {name!r}, but its columns are "
                         f"{shown(map(repr, header), 20)}; give one of these, or rename it in the file "
                         "(a .csv separates columns by commas, a .tsv by tabs)")
    return header.index(name)


def row_cells(path, line, row, header, columns):
    """Returns the cells of a row in these columns; a blank line gives empty cells."""
    if any(row) and len(row) != len(header):
        raise ValueError(f"line {line:,} of {str(path)!r} has {counted(len(row), 'column')}, but the first row has "
                         f"{len(header)}; add what is missing, or put quotation marks around a text that contains "
                         "commas, tabs or line breaks")
    return [row[i] if any(row) else "" for i in columns]


def check_known_label(label, labels, place):
    """Raises ValueError if labels are given and this is not one of them."""
    if labels is not None and label not in labels:
        raise ValueError(f"{place} has the label {quoted(label)}, but the model knows only "
                         f"{shown(map(repr, labels), 20)}; correct the label, or train a model on texts that have it")


def split_name(path, line, split="train"):
    try:
        return SPLITS[split.lower()]
    except KeyError:
        raise ValueError(f"line {line:,} of {str(path)!r} has the split {quoted(split)}; write train, validation or "
                         "test") from None


def last_tenth(rows):
    """Splits off the last tenth of each class, rounded down, as the test set; both parts keep their order."""
    counts = Counter(label for _, label in rows)
    left_for_training = {label: count - count // 10 for label, count in counts.items()}
    parts = {"training": [], "test": []}
    for text, label in rows:
        part = "training" if left_for_training[label] > 0 else "test"
        parts[part].append((text, label))
        left_for_training[label] -= 1
    return parts


def report_dropped(path, total, lines, what):
    """Returns a list with a sentence about the dropped lines, or an empty list if there are none."""
    return [f"dropped {len(lines):,} of {total:,} {what} in {str(path)!r} (first: line {lines[0]:,})"] if lines else []
