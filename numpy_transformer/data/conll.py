"""Tagged sentences from files in columns, a word a line, as the CoNLL shared tasks have them."""

from pathlib import Path

from .entities import split_tag
from .text import read_text

WHERE = ("W-NUT 2017 is a set of this form: https://github.com/leondz/emerging_entities_17 has wnut17train.conll "
         "(66,124 lines, 3,394 sentences), emerging.dev.conll (16,742 lines, 1,009 sentences) and "
         "emerging.test.annotated (24,681 lines, 1,287 sentences)")


def read_conll(path, word_column=0, tag_column=-1):
    """A list of (words, tags), one for each sentence of a UTF-8 file; words and tags are equally long lists of str.

    A line's columns are separated by tabs if it has one, else by spaces, and counted from 0, or from -1 backwards. A
    blank line ends a sentence, and so does a line of -DOCSTART-. The tags stay as they are: `to_bio` makes them BIO.

    Raises:
        ValueError if the file cannot be read or has no sentence, and for a line with too few columns, without a word,
        or with what is no tag.
    """
    if not Path(path).exists():
        raise ValueError(f"there is no file {str(path)!r}; name one with a word and its tag a line: {WHERE}")
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
        raise ValueError(f"{str(path)!r} has no sentence, only lines that separate them; name a file with a word and "
                         "its tag a line")
    return sentences


def read_line(line, word_column, tag_column):
    """(word, tag) of one line."""
    columns = [column.strip(" ") for column in line.split("\t" if "\t" in line else " ")]
    if "\t" not in line:
        columns = list(filter(None, columns))           # several spaces may align the columns
    count = len(columns)
    both = {column % count for column in (word_column, tag_column) if -count <= column < count}
    if len(both) < 2:
        raise ValueError(f"a word in column {word_column} and its tag in column {tag_column}, counted from 0, are "
                         f"wanted, but the line has {count} of them: {line!r:.60}; give the columns of the file")
    if not columns[word_column]:
        raise ValueError(f"column {word_column} has no word: {line!r:.60}; leave the line out, or name another column")
    split_tag(columns[tag_column])
    return columns[word_column], columns[tag_column]
