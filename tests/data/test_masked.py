"""Masked language modeling: the corruption of tokens, windows, and the bigram baseline."""

import numpy as np
import pytest

from numpy_transformer.data.batches import IGNORE, PAD
from numpy_transformer.data.bigrams import Bigrams
from numpy_transformer.data.masked import MaskedWindows, corrupt, masked_accuracy
from numpy_transformer.data.reader import CLS, MASK, SEP, SPECIAL, TextReader

VOCAB = 50


def some_rows(count=400, length=20, seed=0):
    """Rows of 1 to length - 2 ordinary tokens between [CLS] and [SEP], then padding."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(SPECIAL, VOCAB, (count, length))
    for row, stop in zip(ids, rng.integers(2, length, count)):
        row[0], row[stop], row[stop + 1:] = CLS, SEP, PAD
    return ids


def counting(length=9, batch_size=6, seed=3, count=1000, **options):
    """Windows of the text 0, 1, 2, ..."""
    return MaskedWindows(np.arange(count), length, batch_size, seed, count + SPECIAL, **options)


def originals(batch):
    """The rows before they were masked, restored from the positions and the targets."""
    (corrupted, _, _, positions), targets = batch
    rows = corrupted.copy()
    for row, where, wanted in zip(rows, positions, targets):
        for position, target in zip(where, wanted):
            if target != IGNORE:
                row[position] = target
    return rows


def contents(batch):
    (corrupted, mask, segments, positions), targets = batch
    return mask, *(array.tolist() for array in (corrupted, segments, positions, targets))


def test_the_special_ids():
    assert (PAD, CLS, SEP, MASK, SPECIAL) == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("share", [0.15, 0.5, 1.0])
def test_a_share_of_each_rows_ordinary_tokens_is_chosen_in_order(share):
    ids = some_rows()
    before = ids.copy()
    corrupted, positions, targets = corrupt(ids, np.random.default_rng(1), VOCAB, share)
    np.testing.assert_array_equal(ids, before)
    wanted = [max(1, round(share * sum(int(i) >= 4 for i in row))) for row in ids]
    assert positions.shape == targets.shape == (len(ids), max(wanted)) and corrupted.shape == ids.shape
    for row, now, where, originally, count in zip(ids, corrupted, positions, targets, wanted):
        chosen = where[:count].tolist()
        assert chosen == sorted(set(chosen)) and min(row[chosen]) >= SPECIAL
        assert originally[:count].tolist() == row[chosen].tolist()
        assert where[count:].tolist() == [0] * (len(where) - count)
        assert originally[count:].tolist() == [IGNORE] * (len(where) - count)
        others = np.setdiff1d(np.arange(len(row)), chosen)
        assert now[others].tolist() == row[others].tolist()


def test_eighty_ten_ten():
    ids = np.full((1000, 100), 7)                                           # 15,000 chosen tokens
    corrupted, positions, targets = corrupt(ids, np.random.default_rng(0), VOCAB)
    assert positions.shape == (1000, 15) and (targets == 7).all()
    found = np.take_along_axis(corrupted, positions, 1).ravel()
    masked, kept = np.mean(found == MASK), np.mean(found == 7)
    assert abs(masked - 0.8) < 0.013 and abs(kept - 0.1 - 0.1 / 46) < 0.01  # four standard deviations
    random = found[(found != MASK) & (found != 7)]
    assert set(random.tolist()) == set(range(SPECIAL, VOCAB)) - {7}
    counts = np.bincount(random)[SPECIAL:]
    assert counts.max() < 2 * np.median(counts)
    assert len({tuple(row) for row in (corrupted == MASK).tolist()}) > 900  # draws for each row, no exact counts
    assert len({int(n) for n in (corrupted == MASK).sum(1)}) > 3


def test_every_position_is_equally_likely():
    ids = np.full((4000, 10), 9)
    positions = corrupt(ids, np.random.default_rng(2), VOCAB, 0.2)[1]
    np.testing.assert_allclose(np.bincount(positions.ravel()), 800, atol=120)


def test_filled_up_positions_leave_a_mask_at_position_0_unchanged():
    ids = np.array([[9] + [PAD] * 19, [9] * 20])
    for seed in range(20):
        corrupted, positions, targets = corrupt(ids, np.random.default_rng(seed), VOCAB)
        assert positions[0].tolist() == [0, 0, 0] and targets[0].tolist() == [9, IGNORE, IGNORE]
        if corrupted[0, 0] == MASK:
            return
    pytest.fail("position 0 was never masked")


def test_a_row_without_ordinary_tokens_has_no_target():
    _, positions, targets = corrupt(np.array([[CLS, SEP], [9, 9]]), np.random.default_rng(0), VOCAB)
    assert positions[0].tolist() == [0] and targets[0].tolist() == [IGNORE] and targets[1].tolist() == [9]


@pytest.mark.parametrize("ids, share, match", [
    ([[9]], 0, "tokens is 0, but.*0.15"), ([[9]], 1.5, "tokens is 1.5"), ([[9]], float("nan"), "tokens is nan"),
    ([[CLS, SEP, PAD]], 0.15, "no ordinary token, only the special ids 0, 1, 2, 3, so nothing can be masked; give the"),
    (np.zeros((0, 5)), 0.15, "no ordinary token")])
def test_errors_describe_what_cannot_be_corrupted(ids, share, match):
    with pytest.raises(ValueError, match=match):
        corrupt(np.array(ids), np.random.default_rng(0), VOCAB, share)


class OtherIds(TextReader):
    """Special ids in the midst of a vocabulary, as tokenizers of published models have them."""

    pad_id, cls_id, sep_id, mask_id = 7, 3, 9, 20
    special_names = {0: "<unused>", 20: "<mask>", 3: "<s>", 9: "</s>", 7: "<pad>", 8: "<unk>"}
    offset = 0
    end = (9,)


def test_special_ids_may_lie_anywhere_in_the_vocabulary():
    special = {0, 3, 7, 8, 9, 20}
    ids = np.where(some_rows(4000) == PAD, 7, np.arange(20) + 1)
    corrupted, positions, targets = corrupt(ids, np.random.default_rng(1), VOCAB, 0.5, OtherIds)
    assert not special & set(targets[targets != IGNORE].tolist()) and (positions[targets == IGNORE] == 0).all()
    changed = corrupted[(corrupted != ids) & (corrupted != 20)]
    assert set(changed.tolist()) == set(range(VOCAB)) - special and (corrupted == 20).sum() > 3 * len(changed)
    assert {int(i) for i in corrupted[np.isin(ids, list(special))]} == {3, 7, 8, 9, 20}


def test_windows_and_bigrams_use_the_special_ids_of_their_reader():
    text = np.random.default_rng(0).choice([1, 2, 4, 5, 6, 10, 11, 12], 400)
    windows = MaskedWindows(text, 9, 6, 3, VOCAB, reader=OtherIds)
    for batch in (windows.batch(0), *windows.validation()):
        rows, segments = originals(batch), batch[0][2]
        assert (rows[:, 0] == 3).all() and (rows[:, -1] == 9).all() and (rows[:, 1:-1] != 3).all()
        np.testing.assert_array_equal(np.cumsum(rows == 9, 1)[:, :-1], segments[:, 1:])
    found = Bigrams(text, VOCAB, OtherIds).guess(np.array([[3, 20, 9], [4, 20, 7]]), np.array([[1], [1]]))[:, 0]
    follower = [b for a, b in zip(text, text[1:]) if a == 4]
    assert found[0] == np.bincount(text).argmax() and follower.count(found[1]) == np.bincount(follower).max()


def parse(row, segments):
    """The lengths of A and B (None: no B) of a row that must hold running numbers between its special ids."""
    row, segments = row.tolist(), segments.tolist()
    assert row[0] == CLS and row[-1] == SEP and row.count(CLS) == 1
    a, *b = " ".join(map(str, row[1:-1])).split(f" {SEP} ")
    text = [int(i) for part in (a, *b) for i in part.split()]
    assert text == list(range(text[0], text[0] + len(text))) and text[0] >= SPECIAL
    first = len(a.split())
    assert segments == [0] * (first + 2) + [1] * (len(row) - first - 2)
    assert len(b) <= 1
    return first, len(b[0].split()) if b else None


def test_rows_are_running_text_split_at_any_token_and_half_have_one_segment():
    windows = counting(length=9, batch_size=200)
    seen = {}
    for step in range(5):
        batch = windows.batch(step)
        (corrupted, mask, segments, positions), targets = batch
        assert mask is None and corrupted.shape == segments.shape == (200, 9)
        assert positions.shape == targets.shape == (200, 1)
        for row, kinds in zip(originals(batch), segments):
            form = parse(row, kinds)
            seen[form] = seen.get(form, 0) + 1
    assert set(seen) == {(7, None), *((a, 6 - a) for a in range(1, 6))}
    assert abs(seen.pop((7, None)) - 500) < 64 and min(seen.values()) > 65


def test_training_rows_cover_exactly_the_first_nine_tenths():
    windows = counting(length=9, batch_size=50, count=100)
    rows = np.concatenate([originals(windows.batch(step)) for step in range(60)])
    text = rows[rows >= SPECIAL] - SPECIAL
    assert set(text.tolist()) == set(range(90)) and set((rows[:, 1] - SPECIAL).tolist()) == set(range(84))


def test_a_batch_depends_only_on_seed_and_step():
    first, second = counting(), counting()
    for step in range(4):
        first.batch(step)
    first.validation()
    assert contents(first.batch(9)) == contents(second.batch(9))
    assert contents(first.batch(9)) != contents(first.batch(10))
    assert contents(first.batch(9)) != contents(counting(seed=4).batch(9))


@pytest.mark.parametrize("count", [1000, 1001, 1005, 1006, 1007, 5000, 9990])
def test_validation_has_every_held_out_token_once_in_order(count):
    windows = counting(count=count)
    text = []
    for batch in windows.validation():
        rows, segments = originals(batch), batch[0][2]
        assert len(rows) <= 64 and rows.shape == segments.shape and batch[0][1] is None
        for row, kinds in zip(rows, segments):
            parse(row, kinds)
        text += rows[rows >= SPECIAL].tolist()
    assert text == list(range(count * 9 // 10 + SPECIAL, count + SPECIAL))


def test_validation_is_fixed_by_the_seed_and_masks_the_share():
    windows = counting(length=22, share=0.5)
    first, again = windows.validation(), counting(length=22, share=0.5).validation()
    windows.batch(0)
    assert [contents(b) for b in first] == [contents(b) for b in again] == [contents(b) for b in windows.validation()]
    assert [contents(b) for b in first] != [contents(b) for b in counting(length=22, share=0.5, seed=4).validation()]
    assert 40 < sum((targets != IGNORE).sum() for _, targets in first) < 60
    assert windows.batch(0)[1].shape[1] == 10


@pytest.mark.parametrize("options, match", [
    (dict(length=4), "length is 4 and batch_size 6; give a length of at least 5"), (dict(batch_size=0), "batch_size 0"),
    (dict(count=80), "80 tokens is too short.*row of 9, so 81 are needed"), (dict(count=0), "0 tokens is too short")])
def test_errors_describe_windows_that_cannot_be_made(options, match):
    with pytest.raises(ValueError, match=match):
        counting(**options)
    assert counting(length=5, count=41).batch(0)[1].shape == (6, 1)


def test_a_vocabulary_without_the_special_ids_is_refused():
    with pytest.raises(ValueError, match="vocab_size is 103, .*the id 99, which becomes 103; .* 4"):
        MaskedWindows(np.arange(100), 5, 2, 0, 103)
    MaskedWindows(np.arange(100), 5, 2, 0, 104)


def plain_guess(ids, left, right, both):
    """Bigrams by the formula in the docstring, with loops and dicts of counts."""
    ids = (np.asarray(ids) + SPECIAL).tolist()
    pairs, single = list(zip(ids, ids[1:])), {w: ids.count(w) for w in sorted(set(ids))}
    best, chosen = -1.0, None
    for w in single:
        score = single[w] / len(ids)
        if left in single:
            score = (pairs.count((left, w)) + score) / (single[left] + 1)
        if both and right in single:
            score *= (pairs.count((w, right)) + single[right] / len(ids)) / (single[w] + 1)
        if score > best * (1 + 1e-12):
            best, chosen = score, w
    return chosen


@pytest.mark.parametrize("both", [False, True])
def test_guesses_are_those_of_plain_counting(both):
    rng = np.random.default_rng(5)
    text = rng.choice(12, 300, p=np.arange(12, 0, -1) / 78)                 # id 11 is rare, 12 to 15 never occur
    inputs = rng.integers(0, 16 + SPECIAL, (30, 8))
    positions = np.sort(rng.permuted(np.tile(np.arange(8), (30, 1)), axis=1)[:, :3], 1)
    found = Bigrams(text, 16 + SPECIAL).guess(inputs, positions, both)
    for row, where, guesses in zip(inputs.tolist(), positions.tolist(), found.tolist()):
        padded = [PAD, *row, PAD]
        assert guesses == [plain_guess(text, padded[p], padded[p + 2], both) for p in where]


def test_repr():
    assert repr(counting(length=9, batch_size=6, count=12_345)) == (
        "MaskedWindows(11,110 training tokens, 1,235 validation tokens, length=9, batch_size=6, share=0.15)")
    assert repr(Bigrams(np.arange(1_000), 1_004)) == "Bigrams(1,000 tokens, vocab_size=1004)"


A, B, C, D = range(4)


@pytest.mark.parametrize("row, position, left, both", [
    ([CLS, 4 + A, MASK, 4 + B, SEP], 2, B, C),      # after A: B twice, C once; but only A and C occur before B
    ([CLS, 4 + A, MASK, MASK, SEP], 2, B, B),       # the right neighbor is masked
    ([CLS, MASK, 4 + D, SEP], 1, A, B),             # [CLS]: A, the most frequent; only B occurs before D
    ([CLS, MASK, SEP], 1, A, A),                    # both neighbors are special
    ([CLS, 9, MASK, 9, SEP], 2, A, A),              # an id that is not in the text
    ([4 + B, MASK], 1, D, D), ([MASK, 4 + D], 0, A, B)])
def test_guesses_by_hand(row, position, left, both):
    counts = Bigrams([A, B, D, A, B, D, A, C, B, A], 10)
    inputs, positions = np.array([row]), np.array([[position]])
    assert counts.guess(inputs, positions).tolist() == [[4 + left]]
    assert counts.guess(inputs, positions, both=True).tolist() == [[4 + both]]


def test_accuracy_counts_the_targets_of_all_batches():
    batches = [((np.array([[7, 8]]), None, None, np.array([[0, 1]])), np.array([[7, 9]])),
               ((np.array([[5, 0], [6, 7]]), None, None, np.array([[0, 0], [0, 1]])), np.array([[5, IGNORE], [6, 7]]))]

    def copy(ids, mask, segments, positions):
        return np.take_along_axis(ids, positions, 1)

    assert masked_accuracy(copy, batches) == 4 / 5


def test_ten_thousand_positions_and_a_large_vocabulary():
    rng = np.random.default_rng(0)
    text = rng.zipf(1.3, 100_000) % 5000
    inputs, positions = rng.permutation(text).reshape(1000, 100) + SPECIAL, np.tile(np.arange(10, 90, 8), (1000, 1))
    found = Bigrams(text, 5004).guess(inputs, positions, both=True)
    assert found.shape == positions.shape and found.min() >= SPECIAL
