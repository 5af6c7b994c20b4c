"""Texts with labels, to learn classes from: out of a folder or archive of reviews, a file per class, or a table."""

import os
import reprlib
from dataclasses import dataclass
from pathlib import Path

from . import acl_imdb
from .label_files import check_label, counted, read_class_files, read_table

MOST_LABELS = 1_000
TO_GET = (f"get the reviews of {acl_imdb.URL} (MD5 {acl_imdb.MD5}), or https://www.cs.cornell.edu/people/pabo/"
          "movie-review-data/rt-polaritydata.tar.gz (Pang and Lee 2005; 5,331 lines in rt-polarity.neg and as many in "
          "rt-polarity.pos), and name what is there")
FORMS = ("one folder aclImdb, its .tar.gz, one .csv or .tsv with named columns, or two or more files with a class each "
         "and one text per line")


@dataclass
class Labeled:
    """Texts with labels in three lists, in the order of what they were read from: often one class after another."""

    labels: list                        # names, in the order of their ids
    training: list                      # (text, id)
    validation: list                    # empty where none was given: then some of the training is to be held out
    test: list                          # may be empty likewise
    report: list                        # sentences that say what was dropped or found on the way


def read_labeled(paths, text_column="text", label_column="label", labels=None, progress=None):
    """The Labeled of a list of paths; what they are decides how they are read.

    - A folder aclImdb, or the one it lies in, or its .tar.gz: see acl_imdb.read_reviews.
    - Two or more files with one text per line and a class each: see label_files.read_class_files.
    - One .csv or .tsv with named columns: see label_files.read_table.

    Parameters:
        paths : list of str or Path
        text_column, label_column : names of columns, for a table
        labels : list of names known from a trained model; it fixes the ids, and no other label may occur
        progress : called without arguments after each review of a folder or archive, or after each other file

    Raises ValueError if something is missing, damaged or of another form, or a class has no text to learn from.
    """
    paths = as_list(paths)
    if labels is not None:
        labels = check_known(labels)
    parts, report = read_parts(paths, text_column, label_column, labels, progress)
    return assemble(parts, labels, report, named(paths))


def read_parts(paths, text_column, label_column, labels, progress):
    """({"training": [(text, name)], ...}, report) of what the paths are."""
    kinds = [kind_of(path) for path in paths]
    if kinds == ["reviews"]:
        return acl_imdb.read_reviews(paths[0], progress)
    if kinds == ["table"]:
        return read_table(paths[0], text_column, label_column, labels, progress)
    if len(kinds) > 1 and set(kinds) == {"file"}:
        return read_class_files(paths, progress)
    raise ValueError(f"{named(paths) or 'nothing'} cannot be read as texts with labels; name {FORMS}")


def count_files(paths):
    """How often read_labeled calls progress, or None if that is not known before an archive is read."""
    paths = as_list(paths)
    if [kind_of(path) for path in paths] != ["reviews"]:
        return len(paths)
    return acl_imdb.count_reviews(paths[0])


def as_list(paths):
    return [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)


def kind_of(path):
    name = Path(path).name.lower()
    if not os.path.exists(path):
        raise ValueError(f"{str(path)!r} is not there, or may not be read; {TO_GET}")
    if os.path.isdir(path) or name.endswith((".tar.gz", ".tgz")):
        return "reviews"
    return "table" if name.endswith((".csv", ".tsv")) else "file"


def named(paths):
    return " and ".join(repr(str(path)) for path in paths)


def check_known(labels):
    """The labels of a trained model as a list: different names, at least two."""
    names = list(labels)
    if isinstance(labels, str) or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise ValueError(f"labels must be a list of different names, got {labels!r}; pass those of a trained model")
    if len(names) < 2:
        raise ValueError(f"labels has {counted(len(names), 'name')}, but at least 2 are needed; pass those of a "
                         "trained model")
    return names


def assemble(parts, labels, report, source):
    """The Labeled of {"training": [(text, name)], ...}; ids are in the order of `labels`, or of the sorted names."""
    rows = {part: parts.get(part, []) for part in ("training", "validation", "test")}
    counts = {part: {name for _, name in rows[part]} for part in rows}
    found = set().union(*counts.values())
    names = labels or sorted(found)
    for name in sorted(found):
        check_label(name, names, source)
    if labels is None:
        check_classes(names, counts["training"], source)
    report = report + missing(names, counts) + report_overlap(rows)
    ids = {name: i for i, name in enumerate(names)}
    return Labeled(names, *([(text, ids[name]) for text, name in rows[part]] for part in rows), report)


def check_classes(names, learned, source):
    if not 2 <= len(names) <= MOST_LABELS:
        first = reprlib.repr(names[0])
        raise ValueError(f"{source} has {counted(len(names), 'different label')} (the first: {first}), but 2 to "
                         f"{MOST_LABELS:,} can be told apart; name data, or a column, with classes")
    for name in names:
        if name not in learned:
            raise ValueError(f"no text for training has the label {name!r} in {source}, but each class needs at least "
                             "1; add some, or leave the class out of the other parts too")


def missing(names, counts):
    """Sentences on the classes that a part, if there is one, has no text of."""
    lost = {part: [name for name in names if name not in counts[part]] for part in counts if counts[part]}
    return [f"no text of the {part} has the label {', '.join(map(repr, lost[part]))}" for part in lost if lost[part]]


def report_overlap(rows):
    """Sentences on the texts that are held out and also stand in the training; published splits are left alone."""
    seen, report = {text for text, _ in rows["training"]}, []
    for part in ("validation", "test"):
        if count := sum(text in seen for text, _ in rows[part]):
            report.append(f"{count:,} of the {len(rows[part]):,} texts of the {part} stand in the training too")
    return report
