"""Texts with labels out of plain files: one file per class, or one table with named columns."""

import csv
import io
from collections import Counter
from pathlib import Path

from .text import read_text

SPLITS = {"train": "training", "training": "training", "validation": "validation", "valid": "validation",
          "val": "validation", "dev": "validation", "test": "test"}


def read_class_files(paths, progress=None):
    """({"training": [(text, label)], "test": ...}, report) of files with one text per line, one file per class.

    The label is the file's suffix, as in rt-polarity.neg and rt-polarity.pos, or its stem where suffixes are equal.
    The last tenth of each file is the test. A file that is not UTF-8 is read as latin-1, in which any byte is a
    character. Raises ValueError if a file cannot be read, has no text, or has the same name as another.
    """
    rows, report = [], []
    for label, path in sorted(zip(class_names(paths), paths), key=lambda pair: pair[0]):
        text, notes = read_any(path)
        lines = [line.strip() for line in text.removesuffix("\n").split("\n")]      # splitlines splits at U+0085 too
        rows += [(line, label) for line in lines if line]
        report += notes + dropped(path, len(lines), [n for n, line in enumerate(lines, 1) if not line], "lines: empty")
        if progress:
            progress()
    return last_tenth(rows), report


def class_names(paths):
    paths = [Path(path) for path in paths]
    for names in ([path.suffix[1:] for path in paths], [path.stem for path in paths]):
        if all(names) and len(set(names)) == len(names):
            return names
    raise ValueError(f"the files {', '.join(map(repr, names))} must differ in their suffixes or their stems, which "
                     "name the classes; rename one, for instance to reviews.neg and reviews.pos")


def read_any(path):
    """(text, report) of a file in UTF-8, or else in latin-1."""
    try:
        text, report = Path(path).read_text(encoding="utf-8-sig"), []
    except UnicodeDecodeError:
        text = Path(path).read_text(encoding="latin-1")
        report = [f"{str(path)!r} is not UTF-8 and was read as latin-1"]
    except OSError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error.strerror}; name a readable text file") from error
    if "\0" in text:
        raise ValueError(f"{str(path)!r} has a zero byte at character {text.index(chr(0)):,}, so it is no text in "
                         "UTF-8 or latin-1; unpack it, or convert it, for instance with iconv -f UTF-16 -t UTF-8")
    if not text.strip():
        raise ValueError(f"{str(path)!r} is empty, but each class needs at least 1 text; name a file with one per line")
    return text, report


def read_table(path, text_column, label_column, labels=None, progress=None):
    """({"training": [(text, label)], ...}, report) of a .csv or .tsv in UTF-8 whose first row names the columns.

    A column "split" (train, validation or test) is honoured; without one, the last tenth of each class is the test.
    Rows without a text or a label are dropped and counted, as many published tables have some; a row with another
    number of columns than the first is an error, as its text may have been taken for its label.

    Raises ValueError if the table cannot be read, lacks a column, or has a label that is not among `labels`.
    """
    rows, report = table_rows(path)
    (_, header), *rows = [(line, [cell.strip() for cell in row]) for line, row in rows]
    wanted = [column(path, header, name) for name in (text_column, label_column)]
    wanted += [header.index(name) for name in ("split",) if name in header]
    parts, empty = {"training": [], "validation": [], "test": []}, []
    for line, row in rows:
        text, label, *split = cells(path, line, row, header, wanted)
        if text and label:
            check_label(label, labels, f"line {line:,} of {str(path)!r}")
            parts[part_of(path, line, *split)].append((text, label))
        else:
            empty.append(line)
    if not any(parts.values()):
        raise ValueError(f"{str(path)!r} has no row with both a text and a label; name a table with some")
    if progress:
        progress()
    report += dropped(path, len(rows), empty, "rows: no text or no label")
    return (parts if wanted[2:] else last_tenth(parts["training"])), report


def table_rows(path):
    """([(line number, row)], report); a .tsv whose quotation marks do not close is read as one that has none."""
    text, tabs = read_text(path), Path(path).suffix.lower() == ".tsv"
    try:
        return parsed(path, text, delimiter="\t" if tabs else ",", strict=True), []
    except ValueError:
        if not tabs:
            raise
    return (parsed(path, text, delimiter="\t", quoting=csv.QUOTE_NONE),
            [f"the quotation marks of {str(path)!r} do not close and were read as they stand"])


def parsed(path, text, **form):
    reader, rows, limit = csv.reader(io.StringIO(text), **form), [], csv.field_size_limit(len(text) + 1)
    try:
        for row in reader:
            rows.append((reader.line_num, row))
    except csv.Error as error:
        start = rows[-1][0] + 1 if rows else 1
        raise ValueError(f"the row at line {start:,} of {str(path)!r} cannot be read ({error}); close its quotation "
                         "marks, and double those inside of a text") from error
    finally:
        csv.field_size_limit(limit)             # Python's own is 131,072 characters
    return rows


def column(path, header, name):
    if header.count(name) != 1:
        raise ValueError(f"{str(path)!r} must have one column {name!r}, but its columns are "
                         f"{', '.join(map(repr, header))}; name one of these, or rename it in the file "
                         "(commas part those of a .csv, tabs those of a .tsv)")
    return header.index(name)


def cells(path, line, row, header, wanted):
    """The wanted cells of a row, all empty in a blank line."""
    if any(row) and len(row) != len(header):
        raise ValueError(f"line {line:,} of {str(path)!r} has {counted(len(row), 'column')}, but the first row has "
                         f"{len(header)}; complete it, or put quotation marks around a text with commas, tabs or line "
                         "breaks")
    return [row[i] if any(row) else "" for i in wanted]


def check_label(label, labels, place):
    """Raises ValueError if labels are given and this is none of them."""
    if labels is not None and label not in labels:
        raise ValueError(f"{place} has the label {label!r}, but only {', '.join(map(repr, labels))} are known; "
                         "correct it, or train a model that knows it")


def part_of(path, line, split="train"):
    try:
        return SPLITS[split.lower()]
    except KeyError:
        raise ValueError(f"line {line:,} of {str(path)!r} has the split {split!r}; write train, validation or "
                         "test") from None


def last_tenth(rows):
    """The last tenth of each class, rounded down, as the test, the rest as the training, both in their order."""
    left, parts = {label: n - n // 10 for label, n in Counter(label for _, label in rows).items()}, ([], [])
    for text, label in rows:
        parts[left[label] <= 0].append((text, label))
        left[label] -= 1
    return dict(zip(("training", "test"), parts))


def counted(number, noun):
    return f"{number:,} {noun}{'s' * (number != 1)}"


def dropped(path, total, lines, what):
    return [f"dropped {len(lines):,} of {total:,} {what} in {str(path)!r} (first: line {lines[0]:,})"] if lines else []
