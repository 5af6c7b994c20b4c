"""Tagged sentences from files in columns."""

import pytest

from numpy_transformer.data.conll import read_conll

TABS = "Ashford\tB-person\nvisited\tO\nNew\tB-location\nHaven\tI-location\n\nIt\tO\nrained\tO\n"


def read(tmp_path, text, **columns):
    path = tmp_path / "tagged.conll"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_conll(path, **columns)


def refused(tmp_path, text, **columns):
    with pytest.raises(ValueError) as error:
        read(tmp_path, text, **columns)
    return str(error.value)


EXPECTED = [(["Ashford", "visited", "New", "Haven"], ["B-person", "O", "B-location", "I-location"]),
            (["It", "rained"], ["O", "O"])]


@pytest.mark.parametrize("text", [
    TABS, TABS.rstrip(), TABS.replace("\t", " "), TABS.replace("\t", "   "), TABS.replace("\n", "\r\n"),
    TABS.replace("\n\n", "\n\t\n"), TABS.replace("\n\n", "\n \t \n"), TABS.replace("\n\n", "\n\n\n\n"),
    "\n\n" + TABS + "\n\n", "\ufeff" + TABS, TABS.replace("\t", " \t "), "-DOCSTART- O\n\n" + TABS,
    TABS.replace("\n\n", "\n\n-DOCSTART- -X- -X- O\n\n"), TABS.replace("\n\n", "\n-DOCSTART-\n"),
    "-DOCSTART-\t-X-\tO\n" + TABS])
def test_sentences_in_each_form(tmp_path, text):
    assert read(tmp_path, text) == EXPECTED


def test_columns_are_chosen_from_either_end(tmp_path):
    text = "1 U.N.     NNP I-NP I-ORG\n2 official NN  I-NP O\n"
    assert read(tmp_path, text, word_column=1, tag_column=4) == [(["U.N.", "official"], ["I-ORG", "O"])]
    assert read(tmp_path, text, word_column=-4, tag_column=3) == [(["U.N.", "official"], ["I-NP", "I-NP"])]


def test_only_separators_split_a_line(tmp_path):
    words = ["a b", "x\u2028y", "n\xa0m", "z\u200bz", "\x85", "#1", '"', "😂", "-DOC-"]
    found = read(tmp_path, "\n".join(f"{word}\tO" for word in words))
    assert found == [(words, ["O"] * len(words))]
    assert read(tmp_path, "n\xa0m O\nx\u2028y O\n") == [(["n\xa0m", "x\u2028y"], ["O", "O"])]


def test_tags_are_returned_unchanged(tmp_path):
    tags = ["I-x", "B-x", "I-creative-work", "O", "B", "I", "S-x", "E-x", "L-x", "U-x", "I-\u00e9"]
    assert read(tmp_path, "\n".join(f"w\t{tag}" for tag in tags)) == [(["w"] * len(tags), tags)]


@pytest.mark.parametrize("text, columns, parts", [
    ("a O\nb\n", {}, ["line 2", "has 1 column: 'b'"]), ("a\tO\n\nb c O\n", {"word_column": 3}, ["line 1", "has 2"]),
    ("a x O\nb O\n", {"tag_column": 2}, ["line 2", "column 2", "has 2"]),
    ("a O\n", {"tag_column": -3}, ["line 1", "column -3"]), ("a O\n", {"word_column": 1}, ["line 1", "has 2 columns"]),
    ("a\tO\n\nb\tB-x\nc\tnoun\n", {}, ["line 4", "'noun' is not a valid tag"]),
    ("a\t\n", {}, ["line 1", "'' is not a valid tag"]),
    ("a\tb-x\n", {}, ["'b-x' is not a valid tag"]), ("a\tB-\n", {}, ["'B-' is not a valid tag"]),
    ("a\tO\n\tO\n", {}, ["line 2", "column 0 has no word"]), ("Just some prose.\n", {}, ["line 1", "'prose.'"]),
    ("", {}, ["is empty"]), ("\n \n", {}, ["has only blank lines"]), ("-DOCSTART- O\n\n", {}, ["has no sentence"]),
    (b"a\xff\tO\n", {}, ["is not UTF-8"])])
def test_errors_name_the_file_and_the_line(tmp_path, text, columns, parts):
    sentence = refused(tmp_path, text, **columns)
    assert all(part in sentence for part in parts) and "tagged.conll" in sentence
    assert "\n" not in sentence and len(sentence) < 400


@pytest.mark.parametrize("line", ["x" * 100_000, "a\t" + "x" * 100_000, "\t" + "x" * 100_000])
def test_an_error_shows_only_the_beginning_of_a_long_line(tmp_path, line):
    assert len(refused(tmp_path, line)) < 400


def test_the_error_for_a_missing_file_says_where_to_download_data(tmp_path):
    with pytest.raises(ValueError) as error:
        read_conll(tmp_path / "none.conll")
    for part in ("none.conll", "download", "https://github.com/leondz/emerging_entities_17",
                 "3,394 sentences", "66,124 lines"):
        assert part in str(error.value)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot read"):
        read_conll(tmp_path)
