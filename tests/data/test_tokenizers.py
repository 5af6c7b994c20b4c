"""Tokenizers: byte pairs, characters and words, compared with plain loops; and their JSON form."""

import json
from collections import Counter

import numpy as np
import pytest

from numpy_transformer.data import bpe, tokenizers
from numpy_transformer.data.bpe import BytePairTokenizer
from numpy_transformer.data.tokenizers import CharTokenizer, WordTokenizer, tokenizer_from_json

VERSE = ("the cat sat on the mat, the cat ate 12 rats; 112 rats sat still -- the end.\n\n  Then: das Käse-Mädchen\r\n"
         "日本語日本語日本 aaaa aaaaaaa aaa a_b a_b __init__ ...... !!!! \t\t 🙂🙂🙂") * 2
AWKWARD = ["", " ", "a", "  a", "a  ", "\x00\x01\x1c\x85\x7f", "e\u0301a\u0308\ufe0f\u200d", "👩‍👩‍👧🇰🇷",
           "a\r\nb\r\n\r\n", "\n \n  \tb", "x" * 200, "9" * 65, " " * 130 + "x", "-" * 64 + "_", "²½Ⅷ٣",
           "हिन्दी ไทย 한국어", "\ufeff\ufffd\U0010ffff", VERSE]


@pytest.fixture(scope="module")
def trained():
    return BytePairTokenizer.train(VERSE, merges=60)


def random_text(rng, length):
    """Code points of all planes, half of them common ones; no surrogates."""
    points = np.where(rng.random(length) < 0.5, rng.integers(0, 0x110000, length), rng.integers(0, 0x180, length))
    return "".join(chr(point) if not 0xD800 <= point < 0xE000 else " \n" for point in points)


def merged(ids, pair, new):
    result = []
    for i in ids:
        if result and (result[-1], i) == pair:
            result[-1] = new
        else:
            result.append(i)
    return result


def plain_merges(text, merges):
    """Algorithm 1 of the paper, which counts all pairs again for each merge."""
    pieces, found = [list(piece.encode()) for piece in bpe.PIECES.findall(text)], []
    while len(found) < merges:
        counts = Counter(pair for ids in pieces for pair in zip(ids, ids[1:]))
        count, pair = min(((-count, pair) for pair, count in counts.items()), default=(0, None))
        if count > -2:
            break
        pieces = [merged(ids, pair, 256 + len(found)) for ids in pieces]
        found.append(pair)
    return found


def plain_ids(text, merges):
    ids = []
    for piece in bpe.PIECES.findall(text):
        part = list(piece.encode())
        for i, pair in enumerate(merges):
            part = merged(part, pair, 256 + i)
        ids += part
    return ids


def test_the_example_of_the_paper_by_hand():
    text = "low\n" * 5 + "lower\n" * 2 + "newest\n" * 6 + "widest\n" * 3
    tokens = BytePairTokenizer.train(text)
    assert tokens.tokens[256:] == [b"es", b"est", b"lo", b"low", b"ew", b"new", b"newest",        # 9 9 7 7 6 6 6 times
                                   b"dest", b"idest", b"widest", b"er", b"lower"]                 # 3 3 3 2 2 times
    assert tokens.merges[:4] == [(ord("e"), ord("s")), (256, ord("t")), (ord("l"), ord("o")), (258, ord("w"))]
    assert tokens.encode("lowest newer").tolist() == [259, 257, ord(" "), 261, 266]


def test_merges_are_those_of_a_plain_loop():
    rng = np.random.default_rng(0)
    texts = [VERSE, "a" * 40, "aaa aaaa aaaaa " * 3, "abababab" * 5, random_text(rng, 300) * 2]
    texts += ["".join(rng.choice(list(letters), 400)) for letters in ("ab", "ab ", "abc \n", "aé日")]
    for text in texts:
        tokens = BytePairTokenizer.train(text, merges=70)
        assert tokens.merges == plain_merges(text, 70)


def test_ids_are_those_of_a_plain_loop():
    rng = np.random.default_rng(1)
    for letters in ("ab", "abc ", "日本a1 ", "aé!\n "):
        tokens = BytePairTokenizer.train("".join(rng.choice(list(letters), 2000)), merges=80)
        text = "".join(rng.choice(list(letters), 500))
        assert tokens.encode(text).tolist() == plain_ids(text, tokens.merges)
    tokens = BytePairTokenizer([(98, 99), (97, 98), (256, 256), (97, 97), (259, 97)])     # not the order of a training
    for text in ("abc", "aabcbcbcb", "aaaaa", "aaaaaab abcbcbc"):
        assert tokens.encode(text).tolist() == plain_ids(text, tokens.merges)


def test_byte_pairs_round_trip_every_text(trained):
    rng = np.random.default_rng(2)
    for text in [*AWKWARD, *(random_text(rng, 50) for _ in range(200)), random_text(rng, 3000)]:
        for tokens in (trained, BytePairTokenizer([])):
            ids = tokens.encode(text)
            assert tokens.decode(ids) == text and (ids < tokens.vocab_size).all()
            np.testing.assert_array_equal(tokens.encode(text), ids)       # from the cache
    assert len(trained.encode(VERSE)) < 0.7 * len(VERSE.encode())


def test_byte_pairs_split_text_into_short_pieces_of_one_kind():
    pieces = bpe.PIECES.findall("He said:  \"it's 42.5\" to me_2\n\n  4x4 \n")
    assert pieces == ["He", " said", ":", " ", " \"", "it", "'", "s", " 42", ".", "5", "\"", " to", " me", "_", "2",
                   "\n\n ", " 4", "x", "4", " \n"]
    rng = np.random.default_rng(3)
    for text in [*AWKWARD, *(random_text(rng, 400) for _ in range(50))]:
        pieces = bpe.PIECES.findall(text)
        assert "".join(pieces) == text and max(map(len, pieces), default=0) <= 64


def test_training_stops_when_no_pair_occurs_twice():
    calls = []
    assert BytePairTokenizer.train("abcdefg", merges=5, progress=lambda: calls.append(1)).vocab_size == 256
    assert not calls
    tokens = BytePairTokenizer.train("ab-ab-cd", merges=5, progress=lambda: calls.append(1))
    assert tokens.merges == [(97, 98)] and tokens.vocab_size == 257 and len(calls) == 1
    assert BytePairTokenizer.train(VERSE, merges=7, progress=lambda: calls.append(1)).vocab_size == 263
    assert len(calls) == 8
    assert BytePairTokenizer.train("aa", merges=0).vocab_size == BytePairTokenizer.train("a").vocab_size == 256


def test_half_a_character_decodes_to_the_replacement_character(trained):
    ids = BytePairTokenizer([]).encode("aé日")
    assert ids.tolist() == [97, 0xC3, 0xA9, 0xE6, 0x97, 0xA5]
    assert trained.decode(ids[:2]) == "a\ufffd" and trained.decode(ids[2:3]) == "\ufffd"
    assert trained.decode(ids[:5]) == "aé\ufffd"


def test_characters_round_trip_their_text():
    rng = np.random.default_rng(4)
    for text in [*filter(None, AWKWARD), random_text(rng, 500)]:
        tokens = CharTokenizer(text)
        assert tokens.decode(tokens.encode(text)) == text and tokens.vocab_size == len(set(text))
    assert CharTokenizer("banana").encode("nab").tolist() == [2, 0, 1]


def test_words_round_trip_a_known_text():
    rng = np.random.default_rng(5)
    for text in [*filter(None, AWKWARD), random_text(rng, 2000)]:
        tokens = WordTokenizer.train(text, vocab_size=5000)
        ids = tokens.encode(text)
        assert tokens.decode(ids) == text and tokens.vocab_size == len(set(ids.tolist())) + 1 and 0 not in ids


def test_words_are_the_most_frequent_pieces_and_other_pieces_are_unknown():
    text = "a cat, a dog, a cat, the_2 dogs!?\n\n b  c --"
    assert tokenizers.PIECES.findall(text) == ["a", " cat", ",", " a", " dog", ",", " a", " cat", ",", " the_2",
                                               " dogs", "!?", "\n", "\n", " b", " ", " c", " --"]
    tokens = WordTokenizer.train(text, vocab_size=6)
    assert tokens.words == [",", "\n", " a", " cat", " "] and tokens.vocab_size == 6
    assert tokens.encode("a cow, a cat").tolist() == [0, 0, 1, 3, 4]
    assert tokens.decode([0, 0, 1, 3, 4]) == "<unk> <unk>, a cat"
    assert tokens.decode([3, 0]) == " a <unk>" and tokens.decode([3]) == " a" and tokens.decode([]) == ""


def test_the_text_unk_is_not_the_unknown_word():
    for text in (" <unk>", "<unk> a"):
        tokens = WordTokenizer.train(text, vocab_size=9)
        assert tokens.decode(tokens.encode(text)) == text and 0 not in tokens.encode(text)


ALL = [CharTokenizer(VERSE), WordTokenizer.train(VERSE, 30), BytePairTokenizer.train(VERSE, 40)]
each = pytest.mark.parametrize("tokens", ALL, ids=["char", "word", "bpe"])


@each
def test_ids_are_intp_of_one_axis(tokens):
    for text in ("", VERSE[:20]):
        ids = tokens.encode(text)
        assert ids.dtype == np.intp and ids.ndim == 1
    assert tokens.encode("").shape == (0,) and tokens.decode([]) == ""


@each
def test_decode_takes_any_whole_numbers(tokens):
    ids = [5, 1, 9, tokens.vocab_size - 1]
    wanted = "".join(tokens.decode([i]) for i in ids)
    for form in (ids, tuple(ids), iter(ids), np.array(ids), np.array(ids, np.uint16), [np.int32(i) for i in ids]):
        assert tokens.decode(form) == wanted


@each
def test_decode_refuses_ids_outside_the_vocabulary(tokens):
    for bad in (-1, tokens.vocab_size, np.int64(-tokens.vocab_size), 10**9):
        with pytest.raises(ValueError, match=rf"the id {bad} is not .* 0 to {tokens.vocab_size - 1}; decode with"):
            tokens.decode([1, bad])


@each
def test_json_brings_back_the_tokenizer(tokens):
    again = tokenizer_from_json(json.loads(json.dumps(tokens.to_json())))
    assert type(again) is type(tokens) and again.to_json() == tokens.to_json() and again.vocab_size == tokens.vocab_size
    np.testing.assert_array_equal(again.encode(VERSE), tokens.encode(VERSE))
    assert again.decode(range(again.vocab_size)) == tokens.decode(range(tokens.vocab_size))
    kinds = {CharTokenizer: "char", WordTokenizer: "word", BytePairTokenizer: "bpe"}
    assert tokens.to_json()["kind"] == kinds[type(tokens)]


@pytest.mark.parametrize("data, match", [
    (None, "None is not a kind of tokenizer; the kinds are 'char', 'word', 'bpe', 'mixed', 'spaced'. Pass"),
    ([], "None is not a kind"),
    ({}, "None is not a kind"), ({"kind": "gpt2"}, "'gpt2' is not a kind"), ({"kind": ["bpe"]}, r"\['bpe'\] is not a kind"),
    ({"kind": "char"}, "'characters' of a 'char' tokenizer must be a str .* got None; pass"),
    ({"kind": "char", "characters": ["a", "b"]}, "must be a str"), ({"kind": "char", "characters": "ba"}, "got 'ba'"),
    ({"kind": "char", "characters": "aab"}, "got 'aab'"),
    ({"kind": "char", "characters": ""}, "the text is empty, but a character tokenizer"),
    ({"kind": "word", "words": "ab"}, "'words' of a 'word' tokenizer must be a list .* got 'ab'"),
    ({"kind": "word", "words": ["a", 7]}, "word 2 is 7, but"), ({"kind": "word", "words": ["", "b"]}, "word 1 is ''"),
    ({"kind": "word", "words": ["b", "a", "b"]}, "word 3 is 'b', .* does not occur before; pass"),
    ({"kind": "bpe", "words": []}, "'merges' of a 'bpe' tokenizer must be a list .* got None"),
    ({"kind": "bpe", "merges": {"a": 1}}, "must be a list"),
    ({"kind": "bpe", "merges": [[97, 256]]}, r"merge 0 is \[97, 256\], .* 0 to 255; pass the merges"),
    ({"kind": "bpe", "merges": [[97, 98], [257, 98]]}, r"merge 1 is \[257, 98\], .* 0 to 256; pass the merges"),
    ({"kind": "bpe", "merges": [[97, -1]]}, "merge 0 is"), ({"kind": "bpe", "merges": [[97, 98.0]]}, "merge 0 is"),
    ({"kind": "bpe", "merges": [[97, True]]}, "merge 0 is"), ({"kind": "bpe", "merges": [[97, [98]]]}, "merge 0 is"),
    ({"kind": "bpe", "merges": [[97, 98, 99]]}, "merge 0 is"), ({"kind": "bpe", "merges": ["ab"]}, "merge 0 is 'ab'"),
    ({"kind": "bpe", "merges": [[97, 98], [98, 97], [97, 98]]}, "merge 2 is .* must be a new pair"),
    ({"kind": "bpe", "merges": [[97, 97], *([i, i] for i in range(256, 300))]}, "merge 8 makes a token of 512 bytes")])
def test_invalid_json_is_refused(data, match):
    with pytest.raises(ValueError, match=match):
        tokenizer_from_json(data)


@pytest.mark.parametrize("call, match", [
    (lambda: BytePairTokenizer.train("ab", merges=-1), "merges must be a whole number of at least 0, got -1; 1000 is"),
    (lambda: BytePairTokenizer.train("ab", merges=2.5), "merges must be a whole number .* got 2.5"),
    (lambda: BytePairTokenizer.train("ab", merges=True), "merges must be a whole number .* got True"),
    (lambda: WordTokenizer.train("ab", vocab_size=1), "vocab_size must be a whole number of at least 2, got 1; 1000"),
    (lambda: BytePairTokenizer.train(""),
     "the training text is empty, but at least 1 character is needed; pass a longer text"),
    (lambda: WordTokenizer.train("", 100), "the training text is empty, but at least 1 character is needed; pass"),
    (lambda: CharTokenizer(""),
     "the text is empty, but a character tokenizer needs at least 1 character; pass a longer text"),
    (lambda: BytePairTokenizer([]).encode("abc\udcff"), r"'\\udcff' at position 3 is half a character.* convert"),
    (lambda: BytePairTokenizer.train("\ud800"), r"'\\ud800' at position 0 is half a character")])
def test_errors_describe_bad_arguments(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.parametrize("stranger, named", [
    ("z", "'z'"), ("\u200b", r"'\\u200b'"), ("\u0301", r"'\\u0301'"), ("\ufe0f", r"'\\ufe0f'"), ("\xa0", r"'\\xa0'"),
    ("日", "'日'"), ("\udcff", r"'\\udcff'")])
def test_an_unknown_character_is_shown_visibly(stranger, named):
    match = f"the character {named} is not among the 4 that the tokenizer knows .* leave it out"
    with pytest.raises(ValueError, match=match):
        CharTokenizer("cab ").encode("ab" + stranger)


def test_repr():
    assert repr(CharTokenizer("banana")) == "CharTokenizer(vocab_size=3)"
    assert repr(WordTokenizer(["a", " b"])) == "WordTokenizer(vocab_size=3)"
    assert repr(BytePairTokenizer([(97, 98)])) == "BytePairTokenizer(vocab_size=257)"
