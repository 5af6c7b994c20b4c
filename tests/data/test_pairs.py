"""Pairs of texts: batches, files, and limits of their length."""

import numpy as np
import pytest

from numpy_transformer.data import (BOS, EOS, PAD, BytePairTokenizer, CharTokenizer, Pairs, WordTokenizer, frame,
                                    limit_length, pad, read_pairs, unframe)

TOKENS = CharTokenizer("abcdefghijklmnopqrstuvwxyz")


def words(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [TOKENS.decode(rng.integers(0, 26, length)) for length in lengths]


def similar_pairs(count, seed=0):
    """Sentences of 1 to 40 letters whose targets are up to three letters longer."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 41, count)
    return list(zip(words(lengths, seed), words(lengths + rng.integers(0, 4, count), seed + 1)))


def texts(batch):
    """The pairs of texts in a batch, read from its ids."""
    (source, _), target_out = batch
    return [(unframe(TOKENS, s), unframe(TOKENS, t)) for s, t in zip(source, target_out)]


def contents(batch):
    return [array.tolist() for array in (*batch[0], batch[1])]


def test_a_frame_is_bos_the_ids_plus_3_and_eos():
    assert (PAD, BOS, EOS) == (0, 1, 2)
    ids = frame(TOKENS, "abz")
    assert ids.tolist() == [1, 3, 4, 28, 2] and ids.dtype.kind == "i"
    assert frame(TOKENS, "").tolist() == [1, 2]


@pytest.mark.parametrize("ids, text", [
    ([1, 3, 4, 28, 2], "abz"), ([3, 4, 2, 5, 2, 0], "ab"), ([1, 3, 1, 0, 4], "ab"), ([3, 4], "ab"), ([2, 3], ""),
    ([], ""), (np.array([0, 0, 3]), "a")])
def test_unframe_stops_at_the_first_eos_and_skips_special_ids(ids, text):
    assert unframe(TOKENS, ids) == text


def test_pad_fills_on_the_right():
    padded = pad([np.array([1, 2]), np.array([1, 5, 6, 2]), np.array([1])])
    assert padded.tolist() == [[1, 2, 0, 0], [1, 5, 6, 2], [1, 0, 0, 0]] and padded.dtype.kind == "i"


def test_a_batch_is_framed_and_padded_and_target_out_is_shifted_by_one():
    tokens = CharTokenizer("abc")
    (source, target_in), target_out = Pairs([("ab", "c"), ("a", "bac")], tokens, tokens, 2, seed=0)(0)
    assert source.tolist() == [[1, 3, 2, 0], [1, 3, 4, 2]]
    assert target_in.tolist() == [[1, 4, 3, 5], [1, 5, 2, 0]]
    assert target_out.tolist() == [[4, 3, 5, 2], [5, 2, 0, 0]]


def test_each_side_has_its_own_tokenizer():
    (source, _), target = Pairs([("ba", "zzy")], CharTokenizer("ab"), CharTokenizer("xyz"), 1, seed=0)(0)
    assert source.tolist() == [[1, 4, 3, 2]] and target.tolist() == [[5, 5, 4, 2]]


@pytest.mark.parametrize("count, size, pool", [(250, 8, 4), (64, 8, 100), (5, 8, 100), (33, 8, 1), (1, 1, 1)])
def test_each_epoch_has_every_pair_once(count, size, pool):
    given = similar_pairs(count)
    pairs = Pairs(given, TOKENS, TOKENS, size, seed=3, pool=pool)
    assert len(pairs) == -(-count // size)
    for epoch in range(3):
        batches = [texts(pairs(step)) for step in range(epoch * len(pairs), (epoch + 1) * len(pairs))]
        assert sorted(sum(batches, [])) == sorted(given)
        assert sorted(map(len, batches)) == sorted([size] * (count // size) + [count % size] * (count % size > 0))


def test_a_batch_does_not_depend_on_earlier_batches():
    steps = np.random.default_rng(0).permutation(3 * 13)
    one, other = (Pairs(similar_pairs(100), TOKENS, TOKENS, 8, seed=3, pool=4) for _ in range(2))
    found = {step: contents(one(step)) for step in steps}
    other.batches(), other.padding
    assert all(contents(other(step)) == found[step] for step in range(3 * 13))


def test_batches_differ_between_epochs_and_seeds():
    given = similar_pairs(200)
    one, other = (Pairs(given, TOKENS, TOKENS, 8, seed=seed, pool=4) for seed in (3, 4))
    epochs = [{tuple(sorted(texts(pairs(start + i)))) for i in range(25)} for pairs, start in ((one, 0), (one, 25),
                                                                                               (other, 0))]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert len(epochs[first] & epochs[second]) < 3          # nor do they group the same sentences


def test_short_and_long_batches_come_mixed():
    pairs = Pairs(similar_pairs(800), TOKENS, TOKENS, 8, seed=0)
    widths = [pairs(step)[0][0].shape[1] for step in range(len(pairs))]
    assert abs(np.corrcoef(widths, np.arange(100))[0, 1]) < 0.4           # sorted batches: 1.0; shuffled: 0.1


@pytest.mark.slow
def test_bucketing_makes_padding_small():
    """Lengths are 1 to 40: random batches pad nearly all of 64 sentences to 42 ids. Their mean is 22.5, so 46 % is
    padding.

    In a pool of 6,400, about 160 sentences have the same source length. So 64 of them differ by one in the source and
    by three in the target, and at most 2 of 47 ids are padding on average.
    """
    given = similar_pairs(6400)
    shares = [Pairs(given, TOKENS, TOKENS, 64, seed=0, pool=pool).padding for pool in (1, 100)]
    assert shares[0] > 0.4 and shares[1] < 2 / 47


def test_padding_is_the_share_of_pad_in_an_epoch():
    pairs = Pairs(similar_pairs(100), TOKENS, TOKENS, 8, seed=3, pool=4)
    arrays = []
    for (source, target_in), target_out in map(pairs, range(len(pairs))):
        arrays += [source, np.hstack([target_in[:, :1], target_out])]
    assert pairs.padding == pytest.approx(sum((ids == PAD).sum() for ids in arrays) / sum(ids.size for ids in arrays))
    assert 0.1 < pairs.padding < 0.5 and Pairs([("ab", "ab")] * 9, TOKENS, TOKENS, 4, 0).padding == 0


def test_batches_are_all_pairs_once_in_order_of_length():
    given = similar_pairs(100)
    batches = Pairs(given, TOKENS, TOKENS, 8, seed=3, pool=2).batches()
    found = [pair for batch in batches for pair in texts(batch)]
    assert sorted(found) == sorted(given) and list(map(len, map(texts, batches))) == [8] * 12 + [4]
    assert [len(source) for source, _ in found] == sorted(len(source) for source, _ in given)


@pytest.mark.parametrize("given, size, pool", [([], 4, 100), ([("a", "b")], 0, 100), ([("a", "b")], 4, 0)])
def test_sizes_below_1_are_refused(given, size, pool):
    match = f"the number of rows is {len(given)}, batch_size {size} and pool {pool}; .* at least 1"
    with pytest.raises(ValueError, match=match):
        Pairs(given, TOKENS, TOKENS, size, seed=0, pool=pool)


def test_repr():
    assert repr(Pairs(similar_pairs(1_250), TOKENS, TOKENS, 8, seed=0)) == "Pairs(1,250 rows, batch_size=8)"
    assert repr(Pairs([("a", "b")], TOKENS, TOKENS, 8, seed=0)) == "Pairs(1 row, batch_size=8)"


def files(folder, source, target):
    for name, content in (("source", source), ("target", target)):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / "source", folder / "target"


@pytest.mark.parametrize("source, target, expected", [
    ("a b\nc\n", "A B\nC\n", [("a b", "A B"), ("c", "C")]),
    ("a\nb", "A\nB\n", [("a", "A"), ("b", "B")]),                           # no line feed at the end
    ("a\r\nb\r\n", "A\nB\n", [("a", "A"), ("b", "B")]),
    (b"\xef\xbb\xbfa\nb\n", "A\nB\n", [("a", "A"), ("b", "B")]),            # a byte order mark
    ("a\u2028x\nb\x0cy\x85\n", "A\nB\x1c\n", [("a\u2028x", "A"), ("b\x0cy\x85", "B\x1c")])])
def test_line_n_of_one_file_belongs_to_line_n_of_the_other(tmp_path, source, target, expected):
    assert read_pairs(*files(tmp_path, source, target)) == (expected, [])


def test_pairs_with_an_empty_side_are_dropped_and_counted(tmp_path):
    source, target = [f"s{i}" for i in range(2000)], [f"t{i}" for i in range(2000)]
    source[16], target[40], source[1999] = "", " \t", ""
    pairs, report = read_pairs(*files(tmp_path, "\n".join(source) + "\n", "\n".join(target) + "\n"))
    assert report == ["dropped 3 of 2,000 pairs: one side is empty (first: line 17)"]
    assert pairs == [(f"s{i}", f"t{i}") for i in range(1999) if i not in (16, 40)]


@pytest.mark.parametrize("source, target, match", [
    ("a\nb\nc\n", "A\nB\n", "'.*source' has 3 lines but '.*target' has 2; line n"),
    ("a\n\n", "A\n", "'.*source' has 2 lines but '.*target' has 1;"),
    ("a\n\n", "\nB\n", "no line has text in both '.*source' and '.*target'; give"),
    ("", "A\n", "'.*source' is empty"), ("a\n", "\n \n", "'.*target' has only blank lines"),
    ("a\n", b"caf\xe9\n", "'.*target' is not UTF-8")])
def test_errors_name_files_that_give_no_pairs(tmp_path, source, target, match):
    with pytest.raises(ValueError, match=match):
        read_pairs(*files(tmp_path, source, target))


def test_errors_name_a_missing_file(tmp_path):
    source, target = files(tmp_path, "a\n", "A\n")
    with pytest.raises(ValueError, match="cannot read '.*nowhere'"):
        read_pairs(source, tmp_path / "nowhere")
    with pytest.raises(ValueError, match="cannot read '.*nowhere'"):
        read_pairs(tmp_path / "nowhere", target)


LONG = [("abc", "xyz"), ("abcd", "x"), ("a", "uvwxyz"), ("abc", "xy")]


def test_long_pairs_are_dropped():
    pairs, report = limit_length(LONG, TOKENS, TOKENS, 5)
    assert pairs == [LONG[0], LONG[3]]
    assert report == ["dropped 2 of 4 pairs: one side has more than 5 tokens, including begin and end (longest: 8)"]
    assert max(frame(TOKENS, text).size for pair in pairs for text in pair) == 5
    assert limit_length(LONG, TOKENS, TOKENS, 8) == (LONG, [])


def test_long_sides_are_cut():
    pairs, report = limit_length(LONG, TOKENS, TOKENS, 5, too_long="cut")
    assert pairs == [("abc", "xyz"), ("abc", "x"), ("a", "uvw"), ("abc", "xy")]
    assert report == ["cut 2 of 4 pairs: one side has more than 5 tokens, including begin and end (longest: 8)"]
    assert limit_length(LONG, TOKENS, TOKENS, 8, too_long="cut") == (LONG, [])


@pytest.mark.parametrize("text", ["the lower, the lowest", "the lowest 🙂🙂 of é", "🙂🙂🙂", "  the   low "])
def test_a_text_is_truncated_at_the_end_of_a_token_and_never_inside_a_character(text):
    tokens = BytePairTokenizer.train("the lower the lowest the low " * 9, merges=12)
    ids = tokens.encode(text)
    for max_tokens in range(1, len(ids)):
        [(start, _)], _ = limit_length([(text, "x")], tokens, TOKENS, max_tokens + 2, too_long="cut")
        expected = tokens.decode(ids[:max_tokens])
        assert start == (expected if "\ufffd" not in expected else expected.split("\ufffd")[0])
        assert text.startswith(start) and len(frame(tokens, start)) <= max_tokens + 2


def test_truncation_keeps_unknown_words():
    tokens = WordTokenizer(["one", " two", " three"])
    cut = limit_length([("strange two words three two", "strange"), ("one two three one", "weird one two two two")],
                       tokens, tokens, 5, too_long="cut")[0]
    assert cut == [("strange two words", "strange"), ("one two three", "weird one two")]


class LowerCase(CharTokenizer):
    def encode(self, text):
        return super().encode(text.lower())


EIGHT = BytePairTokenizer([(97, 98), (99, 100), (101, 102), (103, 104), (256, 257), (258, 259), (260, 261)])
CROSSING = BytePairTokenizer([(98, 0xC3), (97, 256)])           # "ab" and the first byte of "é"; "ab" alone is two


@pytest.mark.parametrize("tokens, text, max_tokens, expected", [
    (LowerCase("abcd"), "ABCD", 2, "AB"), (EIGHT, "abcdefgh🙂", 2, "abcdefgh"), (CROSSING, "abé", 1, "a")])
def test_truncation_returns_a_beginning_of_the_text_even_if_decoding_does_not(tokens, text, max_tokens, expected):
    [(start, _)], _ = limit_length([(text, "x")], tokens, TOKENS, max_tokens + 2, too_long="cut")
    assert start == expected and len(tokens.encode(start)) <= max_tokens


@pytest.mark.parametrize("max_len, too_long, match", [
    (4, "drop", "no pair has at most 4 tokens .* the shortest of 3 has 5: raise max_len, or cut"),
    (2, "cut", "max_len is 2 and .* at least 3"), (9, "skip", "'skip'; .* 'drop' or 'cut'")])
def test_limits_that_leave_no_pair_are_refused(max_len, too_long, match):
    with pytest.raises(ValueError, match=match):
        limit_length(LONG[:3], TOKENS, TOKENS, max_len, too_long)
