"""Tagged sentences from files with one word per line in columns, the format of the CoNLL shared tasks."""

from pathlib import Path

from .entities import split_tag
from .plurals import counted
from .text import read_text

DOWNLOAD = ("download W-NUT 2017, a data set in this format, from https://github.com/leondz/emerging_entities_17: "
            "wnut17train.conll (66,124 lines, 3,394 sentences), emerging.dev.conll (16,742 lines, 1,009 sentences) and "
            "emerging.test.annotated (24,681 lines, 1,287 sentences)")


def read_conll(path, word_column=0, tag_column=-1):
    """Reads the sentences of a UTF-8 file as a list of (words, tags), two lists of str of the same length.

    The columns of a line are separated by tabs if it contains one, and by spaces otherwise. A blank line ends a
    sentence, and so does a line that begins with -DOCSTART-. The tags are returned unchanged; `to_bio` converts them to
    BIO.

    Parameters:
        path : str or Path
        word_column, tag_column : int, counted from 0, or from -1 backward

    Raises:
        ValueError if the file cannot be read or has no sentence, and for a line with too few columns, without a word,
        or with an invalid tag.
    """
    if not Path(path).exists():
        raise ValueError(f"there is no file {str(path)!r}; give a file with one word and its tag per line, or "
                         f"{DOWNLOAD}")
    sentences = [([], [])]
    for number, line in enumerate(read_text(path).split("\n"), 1):     # splitlines would also split at U+2028
        if line.strip() and not line.startswith("-DOCSTART-"):
            try:
                word, tag = read_line(line, word_column, tag_column)
            except ValueError as error:
                raise ValueError(f"{str(path)!r}, line {number:,}: {error}") from error
            sentences[-1][0].append(word)
            sentences[-1][1].append(tag)
        else:
            sentences.append(([], []))
    sentences = [sentence for sentence in sentences if sentence[0]]
    if not sentences:
        raise ValueError(f"{str(path)!r} has no sentence, only separator lines; give a file with one word and its tag "
                         "per line")
    return sentences


def read_line(line, word_column, tag_column):
    """Returns (word, tag) of a line. Raises ValueError if one of them is missing or invalid."""
    columns = [column.strip(" ") for column in line.split("\t" if "\t" in line else " ")]
    if "\t" not in line:
        columns = list(filter(None, columns))           # several spaces may align the columns
    count = len(columns)
    different = {column % count for column in (word_column, tag_column) if -count <= column < count}
    if len(different) < 2:
        raise ValueError(f"expected a word in column {word_column} and its tag in column {tag_column}, counted from "
                         f"0, but the line has {counted(count, 'column')}: {line!r:.60}; give the right columns of "
                         "the file")
    if not columns[word_column]:
        raise ValueError(f"column {word_column} has no word: {line!r:.60}; leave the line out, or give another column")
    split_tag(columns[tag_column])
    return columns[word_column], columns[tag_column]
