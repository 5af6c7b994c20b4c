"""Readers that turn texts into ids for encoders, and batches of texts with labels or tags."""

import numpy as np
import pytest

from numpy_transformer.data import (BytePairTokenizer, KerasReader, SpacedTokenizer, WordTokenizer, builtin_text,
                                    tokenizer_from_json)
from numpy_transformer.data.batches import IGNORE, PAD, LabeledTexts, TaggedTexts
from numpy_transformer.data.reader import CLS, MASK, SEP, SPECIAL, TextReader, plain_words

TOKENS = WordTokenizer([" the", " cat", " sat", " ."])


def masked_text(tokens, text, max_len=99):
    return TextReader(tokens, max_len).read_masked(text)


def test_a_text_is_framed_and_truncated_at_its_end():
    reader = TextReader(TOKENS, 6)
    assert reader.vocab_size == 9 and reader.read("The  CAT\nsat.").tolist() == [CLS, 5, 6, 7, 8, SEP]
    assert reader.num_truncated == 0
    assert reader.read("the cat sat the cat").tolist() == [CLS, 5, 6, 7, 5, SEP] and reader.num_truncated == 1
    assert TextReader(TOKENS, 6, lower=False).read("The cat").tolist() == [CLS, 4, 6, SEP]
    assert " ".join(map(reader.name, range(9))) == "[PAD] [CLS] [SEP] [MASK] <unk> the cat sat ."


def test_the_position_of_a_word_is_that_of_its_first_piece():
    tokens = BytePairTokenizer.train(" New New Haven Haven", 6)
    for max_len in range(3, 14):
        reader = TextReader(tokens, max_len, lower=False)
        ids, positions = reader.read_words(["New", "Haven", "New", "Haves"])
        assert len(ids) <= max_len and ids[0] == CLS and ids[-1] == SEP
        pieces = [tokens.encode(f" {word}") + SPECIAL for word in ("New", "Haven", "New", "Haves")]
        start = 1
        for piece, position in zip(pieces, positions):
            assert position == (start if start < max_len - 1 else 0)
            if position:
                assert ids[position] == piece[0]
            start += len(piece)


def test_a_reader_with_other_special_ids():
    class Other(TextReader):
        pad_id, cls_id, sep_id, mask_id = 9, 7, 8, 6
        special_names = {9: "<pad>", 7: "<s>", 8: "</s>", 6: "<mask>"}
        offset, end = 1, (8, 8)

    reader = Other(TOKENS, 7)
    assert reader.read("the cat sat the cat").tolist() == [7, 2, 3, 4, 2, 8, 8] and reader.max_text_tokens == 4
    assert reader.read_masked("the <MASK> sat").tolist() == [7, 2, 6, 4, 8, 8] and reader.vocab_size == 6
    assert [reader.name(n) for n in (2, 9, 6)] == ["the", "<pad>", "<mask>"] and reader.not_words == [9, 7, 8, 6, 1]
    with pytest.raises(ValueError, match="has no <mask>; write it .*'The <mask> is a name.'"):
        reader.read_masked("the [MASK]")
    with pytest.raises(ValueError, match="has 8 tokens, including <s> and </s>, but"):
        reader.read_masked("the cat sat the <mask>")
    rows = [[1, 2, 3], [4]]
    (ids,), tags = TaggedTexts(rows, rows, 2, seed=0, pad_id=9).batches()[0]
    assert ids.tolist() == [[4, 9, 9], [1, 2, 3]] and tags.tolist() == [[4, IGNORE, IGNORE], [1, 2, 3]]
    assert LabeledTexts(rows, [0, 1], 2, 0, width=4, pad_id=9).batches()[0][0][0].tolist() == [[4, 9, 9, 9], [1, 2, 3, 9]]


@pytest.mark.parametrize("text, words", [("", "is empty"), (" \n", "is empty"), ("+-+ \u2605", "no word in")])
def test_a_text_without_a_word_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        TextReader(TOKENS, 9).read(text)
    with pytest.raises(ValueError, match="max_len = 2"):
        TextReader(TOKENS, 2)


def test_repr():
    assert repr(TextReader(TOKENS, 6)) == "TextReader(WordTokenizer(vocab_size=5), max_len=6, lower=True)"
    assert repr(KerasReader(SpacedTokenizer([" it"]), 9)) == (
        "KerasReader(SpacedTokenizer(vocab_size=2), max_len=9, lower=True)")
    assert repr(LabeledTexts([[1], [2, 3]], [0, 1], 8, seed=0)) == "LabeledTexts(2 rows, batch_size=8)"
    assert repr(TaggedTexts([[1]], [[0]], 8, seed=0)) == "TaggedTexts(1 row, batch_size=8)"


def test_batches_of_labeled_and_of_tagged_texts():
    rng = np.random.default_rng(0)
    rows = [rng.integers(SPECIAL, 99, n) for n in rng.integers(2, 9, 50)]
    labels, tags = rng.integers(0, 3, 50), [rng.integers(0, 5, len(row)) for row in rows]
    for width in (None, 12):
        seen = []
        for step, ((ids,), found) in enumerate(map(LabeledTexts(rows, labels, 8, seed=1, width=width), range(7))):
            assert ids.shape[1] == (width or (ids != PAD).sum(1).max())
            seen += [(tuple(line[line != PAD].tolist()), label) for line, label in zip(ids, found.tolist())]
        assert sorted(seen) == sorted((tuple(row.tolist()), label) for row, label in zip(rows, labels.tolist()))
    seen = []
    for (ids,), found in TaggedTexts(rows, tags, 8, seed=1).batches():
        assert np.array_equal(found == IGNORE, ids == PAD)
        seen += [(tuple(line[line != PAD].tolist()), tuple(tag[line != PAD].tolist())) for line, tag in zip(ids, found)]
    assert sorted(seen) == sorted((tuple(row.tolist()), tuple(tag.tolist())) for row, tag in zip(rows, tags))


def test_plain_words_are_lower_case_words_and_the_punctuation_of_sentences():
    assert plain_words('The "cat" (a_1) isn\u2019t\n  +---+ | here ** : Größe...') == (
        " the cat ( a_1 ) isn't here : größe ...")
    assert plain_words("") == plain_words(" \n+-+") == ""
    words = plain_words(builtin_text())
    assert words == plain_words(words) and len(words) > 300_000


def test_a_masked_text_as_ids():
    tokens = WordTokenizer([" the", " cat", " sat", " ."])
    assert masked_text(tokens, "The [MASK] sat.").tolist() == [CLS, 5, MASK, 7, 8, SEP]
    assert masked_text(tokens, "[MASK] cat [mask]").tolist() == [CLS, MASK, 6, MASK, SEP]
    assert masked_text(tokens, "the dog[MASK]the\n").tolist() == [CLS, 5, 4, MASK, 5, SEP]
    ids = masked_text(tokens, "[MASK]", 3)
    assert ids.tolist() == [CLS, MASK, SEP] and ids.dtype.kind == "i"


def test_pieces_next_to_a_mask_are_the_same_as_in_running_text():
    text = plain_words("The value is a name.")
    tokens = WordTokenizer.train(text, 100)
    whole = tokens.encode(text) + SPECIAL
    masked = masked_text(tokens, "The [MASK] is a [MASK].")
    assert np.flatnonzero(masked == MASK).tolist() == [2, 5]
    masked[[2, 5]] = whole[[1, 4]]
    assert masked[1:-1].tolist() == whole.tolist()


@pytest.mark.parametrize("text, max_len, match", [
    ("The cat", 99, r"'The cat' has no \[MASK\]; write it in place of the word"), ("", 99, r"'' has no \[MASK\]"),
    ("MASK [ MASK ]", 99, "has no"), ("the cat " * 99, 99, r"^.{,42} has no \[MASK\]"),
    ("the [MASK] sat", 4, r"the text has 5 tokens, .*reads at most 4; shorten")])
def test_errors_name_masked_texts_that_cannot_be_used(text, max_len, match):
    with pytest.raises(ValueError, match=match):
        masked_text(WordTokenizer([" the"]), text, max_len)


KERAS_FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'          # the default of keras.preprocessing.text.Tokenizer


def keras_words(text):
    """text_to_word_sequence of Keras, character by character."""
    word, words = "", []
    for character in text.lower() + " ":
        if character in KERAS_FILTERS + " ":
            words += [word] if word else []
            word = ""
        else:
            word += character
    return words


@pytest.mark.parametrize("text", [
    "I don't LIKE it!", 'A "B-movie" (1994): 8/10, isn\'t it?<br /><br />Well... yes_no',
    "a@b [c] {d} ~e|f`g^h#i$j%k&l*m+n=o>p<q\\r;s", "caf\u00e9 na\u00efve \u2013 \u00a3 100",
    "tabs\tand\nlines\n", " ", KERAS_FILTERS, "'quoted' 'tis o'clock"])
def test_words_are_those_of_keras(text):
    reader = KerasReader(None, 9)
    assert reader.normalize(text).split() == keras_words(text.replace("<br />", " "))
    assert reader.normalize(text) == "".join(f" {word}" for word in reader.normalize(text).split())


def test_keras_texts_begin_with_cls_and_have_no_sep():
    reader = KerasReader(SpacedTokenizer([" don't", " like", " it"]), 4)
    assert reader.read("I don't like!").tolist() == [CLS, 4, 5, 6] and reader.num_truncated == 0
    assert reader.read("I don't like it").tolist() == [CLS, 4, 5, 6] and reader.num_truncated == 1         # [CLS] counts
    assert reader.read("like").tolist() == [CLS, 6] and reader.read("like").dtype == np.intp
    with pytest.raises(ValueError, match="there is no word in '...!'"):
        reader.read("...!")


def test_the_vocabulary_of_note_001_has_10_000_ids_with_the_reserved_ones():
    """Keras: 0 padding, 1 start, 2 out of vocabulary, 3 unused, 9,996 words; here 10,001 with [MASK] and <unk>."""
    text = "".join(f" w{n}" * (1 + (n < 9996)) for n in range(12_000))
    tokens = SpacedTokenizer.train(text, 10_000 - SPECIAL + 1)
    assert len(tokens.words) == 9996 and KerasReader(tokens, 9).vocab_size == 10_001
    assert set(tokens.words) == {f" w{n}" for n in range(9996)}


def test_a_spaced_tokenizer_splits_only_at_spaces():
    text = " i don't like the b\u2013movie of '94"
    tokens = SpacedTokenizer.train(text, 100)
    assert sorted(tokens.words) == sorted(f" {word}" for word in text.split())
    assert tokens.decode(tokens.encode(text)) == text and tokens.encode(" other don't").tolist()[0] == 0
    again = tokenizer_from_json(tokens.to_json())
    assert type(again) is SpacedTokenizer and again.words == tokens.words
    assert len(WordTokenizer.train(text, 100).encode(" don't")) == 3
