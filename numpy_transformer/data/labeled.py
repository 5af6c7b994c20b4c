"""Labeled texts for classification, from a folder or archive of reviews, from one file per class, or from a table."""

import os
import reprlib
from dataclasses import dataclass
from pathlib import Path

from ..file_checks import shown
from . import acl_imdb
from .label_files import check_known_label, read_class_files, read_table
from .plurals import counted

MOST_LABELS = 1_000
DOWNLOADS = (f"download reviews from {acl_imdb.URL} (MD5 {acl_imdb.MD5}), or from "
             "https://www.cs.cornell.edu/people/pabo/movie-review-data/rt-polaritydata.tar.gz (Pang and Lee 2005; 5,331 lines each in rt-polarity.neg and "
             "rt-polarity.pos), and give their path")
FORMS = ("one folder aclImdb, its .tar.gz, one .csv or .tsv with named columns, or two or more files with one class "
         "each and one text per line")


@dataclass
class Labeled:
    """Texts with labels in three lists, in the order of their files, which is often one class after another.

    Parameters:
        labels : list of names; the id of a label is its index
        training : list of (text, id)
        validation : list of (text, id); empty if the data has no validation set, and the caller holds some texts out
        test : list of (text, id); may be empty
        report : list of sentences about what was dropped or is unusual in the data
    """

    labels: list
    training: list
    validation: list
    test: list
    report: list

    def __repr__(self):
        return (f"Labeled({counted(len(self.labels), 'label')}, {len(self.training):,} training, "
                f"{len(self.validation):,} validation and {len(self.test):,} test texts)")


def read_labeled(paths, text_column="text", label_column="label", labels=None, progress=None):
    """Reads labeled texts from one path or several; the kind of the paths determines the format.

    - A folder aclImdb, the folder that contains it, or its .tar.gz: see acl_imdb.read_reviews.
    - Two or more files with one class each and one text per line: see label_files.read_class_files.
    - One .csv or .tsv with named columns: see label_files.read_table.

    Parameters:
        paths : str, Path, or list of them
        text_column, label_column : names of the columns of a table
        labels : list of the labels of a trained model, in the order of their ids; no other label may occur
        progress : function without arguments, called after each review of a folder or archive, or after each other file

    Returns a Labeled.

    Raises:
        ValueError if a file is missing, damaged or of another format, or if a class has no training text.
    """
    paths = as_list(paths)
    if labels is not None:
        labels = check_given_labels(labels)
    parts, report = read_parts(paths, text_column, label_column, labels, progress)
    return make_labeled(parts, labels, report, quoted(paths))


def read_parts(paths, text_column, label_column, labels, progress):
    """Returns ({"training": [(text, name)], ...}, report), read in the format of the paths."""
    kinds = [kind_of_source(path) for path in paths]
    if kinds == ["reviews"]:
        return acl_imdb.read_reviews(paths[0], progress)
    if kinds == ["table"]:
        return read_table(paths[0], text_column, label_column, labels, progress)
    if len(kinds) > 1 and set(kinds) == {"file"}:
        return read_class_files(paths, progress)
    if not paths:
        raise ValueError(f"no path of labeled texts was given; give {FORMS}")
    raise ValueError(f"{quoted(paths)} cannot be read as labeled texts; give {FORMS}")


def count_files(paths):
    """Returns how often read_labeled calls progress; None for an archive, where this is unknown in advance."""
    paths = as_list(paths)
    if [kind_of_source(path) for path in paths] != ["reviews"]:
        return len(paths)
    return acl_imdb.count_reviews(paths[0])


def as_list(paths):
    return [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)


def kind_of_source(path):
    """Returns "reviews" for a folder or archive, "table" or "file". Raises ValueError if the path does not exist."""
    name = Path(path).name.lower()
    if not os.path.exists(path):
        raise ValueError(f"{str(path)!r} does not exist or is not readable; {DOWNLOADS}")
    if os.path.isdir(path) or name.endswith((".tar.gz", ".tgz")):
        return "reviews"
    return "table" if name.endswith((".csv", ".tsv")) else "file"


def quoted(paths):
    return " and ".join(repr(str(path)) for path in paths)


def check_given_labels(labels):
    """Returns the labels of a trained model as a list. Raises ValueError unless they are two or more distinct names."""
    names = list(labels)
    are_names = not isinstance(labels, str) and all(isinstance(name, str) for name in names)
    if not are_names or len(set(names)) != len(names):
        raise ValueError(f"labels must be a list of distinct names, got {reprlib.repr(labels)}; pass the labels of a trained "
                         "model")
    if len(names) < 2:
        raise ValueError(f"labels has {counted(len(names), 'name')}, but at least 2 are needed; pass the labels of a "
                         "trained model")
    return names


def make_labeled(parts, labels, report, source):
    """Makes a Labeled from {"training": [(text, name)], ...}; ids follow the order of `labels`, or of the sorted names."""
    rows = {part: parts.get(part, []) for part in ("training", "validation", "test")}
    names_in = {part: {name for _, name in rows[part]} for part in rows}
    used_names = set().union(*names_in.values())
    names = labels or sorted(used_names)
    for name in sorted(used_names):
        check_known_label(name, names, source)
    if labels is None:
        check_classes(names, names_in["training"], source)
    report = report + report_missing_labels(names, names_in) + report_overlap(rows)
    ids = {name: i for i, name in enumerate(names)}
    return Labeled(names, *([(text, ids[name]) for text, name in rows[part]] for part in rows), report)


def check_classes(names, training_names, source):
    """Raises ValueError for too few or too many labels, or for a label without a training text."""
    if not 2 <= len(names) <= MOST_LABELS:
        first = reprlib.repr(names[0])
        raise ValueError(f"{source} has {counted(len(names), 'different label')} (first: {first}), but a classifier "
                         f"needs 2 to {MOST_LABELS:,}; give other data, or another column for the labels")
    for name in names:
        if name not in training_names:
            raise ValueError(f"no training text in {source} has the label {reprlib.repr(name)}, but each class needs at "
                             "least 1; add some, or remove the class from the other sets too")


def report_missing_labels(names, names_in):
    """Returns a sentence for each set that is not empty but lacks texts of some labels."""
    report = []
    for part, present in names_in.items():
        missing = [name for name in names if name not in present]
        if present and missing:
            report.append(f"no text of the {part} set has the label {shown(map(repr, missing), 20)}")
    return report


def report_overlap(rows):
    """Returns sentences about validation and test texts that also occur in the training set; they are not removed."""
    training_texts = {text for text, _ in rows["training"]}
    report = []
    for part in ("validation", "test"):
        count = sum(text in training_texts for text, _ in rows[part])
        if count:
            report.append(f"the training set contains {count:,} of the {counted(len(rows[part]), 'text')} of the "
                          f"{part} set")
    return report
