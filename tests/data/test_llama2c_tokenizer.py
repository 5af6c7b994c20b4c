"""llama2.c's tokenizer beside the merge loop of its run.c, in plain Python."""

import struct

import numpy as np
import pytest

from numpy_transformer.data import StoryTokenizer, tokenizer_from_json

START = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256))]


def draw(seed):
    """Pieces of a few letters with scores of which many are equal."""
    rng = np.random.default_rng(seed)
    pieces = dict.fromkeys([" ", "a", "b", *("".join(rng.choice(list("ab é"), rng.integers(2, 5))) for _ in range(20))])
    return [*START, *pieces], [0.0] * 259 + rng.integers(-6, 0, len(pieces)).astype(float).tolist()


def merged_by_rescanning(pieces, scores, text):
    """As run.c: the best pair of the whole row, again and again; of equal ones the leftmost."""
    ids = {}
    for i, piece in enumerate(pieces):
        ids.setdefault(piece, i)
    row = []
    for character in " " + text if text else "":
        row += [ids[character]] if character in ids else [3 + byte for byte in character.encode()]
    while True:
        best, at, joined = -1e10, None, None
        for i in range(len(row) - 1):
            found = ids.get(pieces[row[i]] + pieces[row[i + 1]])
            if found is not None and scores[found] > best:
                best, at, joined = scores[found], i, found
        if at is None:
            return row
        row[at:at + 2] = [joined]


@pytest.mark.parametrize("seed", range(25))
def test_ids_are_those_of_the_merge_loop(seed):
    pieces, scores = draw(seed)
    tokenizer, rng = StoryTokenizer(pieces, scores), np.random.default_rng([seed, 1])
    for length in (0, 1, 7, 40):
        text = "".join(rng.choice(list("aab é\n"), length))
        ids = tokenizer.encode(text).tolist()
        assert ids == merged_by_rescanning(pieces, scores, text)
        assert tokenizer.decode([1, *ids, 2]) == text


@pytest.mark.parametrize("seed", range(10))
def test_the_library_reads_the_same_ids_from_its_tokenizer_json(seed):
    """Where no two pieces have the same score, as in the published tokenizers."""
    tokenizers = pytest.importorskip("tokenizers")
    pieces, scores = draw(seed)
    rng = np.random.default_rng([seed, 2])
    tokenizer = StoryTokenizer(pieces, [score + n / 1000 for score, n in zip(scores, rng.permutation(len(pieces)))])
    library = tokenizers.Tokenizer.from_str(tokenizer.files["tokenizer.json"])
    for length in (0, 1, 7, 40):
        text = "".join(rng.choice(list("aab é\n"), length))
        assert library.encode(text).ids == [1, *tokenizer.encode(text)]
        assert library.decode(library.encode(text).ids) == text


def write(path, pieces, scores, end=b""):
    data = struct.pack("<I", max(len(piece.encode()) for piece in pieces))
    for piece, score in zip(pieces, scores):
        data += struct.pack("<fI", score, len(piece.encode())) + piece.encode()
    path.write_bytes(data + end)
    return path


def test_a_file_is_read_and_survives_json(tmp_path):
    pieces, scores = draw(0)
    read = StoryTokenizer.read(write(tmp_path / "tokenizer.bin", pieces, scores))
    assert (read.pieces, read.scores) == (pieces, scores)
    assert read.begin == [1] and read.stop == [1, 2] and read.name(3 + 65) == "<0x41>" and read.name(259) == " "
    again = tokenizer_from_json(read.to_json())
    assert again.encode("ab ba").tolist() == read.encode("ab ba").tolist() and again.vocab_size == len(pieces)


@pytest.mark.parametrize("end", [b"x", struct.pack("<fI", 0, 9) + b"short", struct.pack("<fi", 0, -3)])
def test_a_damaged_file_is_refused(tmp_path, end):
    with pytest.raises(ValueError, match="is not a tokenizer of llama2.c, or is damaged"):
        StoryTokenizer.read(write(tmp_path / "tokenizer.bin", *draw(0), end=end))


def test_other_vocabularies_are_refused(tmp_path):
    with pytest.raises(ValueError, match="whose pieces 3 to 258 are the bytes"):
        StoryTokenizer(["a", "b"], [0.0, 0.0])
    with pytest.raises(ValueError, match="No such file"):
        StoryTokenizer.read(tmp_path / "tokenizer.bin")
