"""Masked language modeling: BERT's corruption of a text, and windows of the text as batches."""

import numpy as np

from .batches import IGNORE
from .plurals import counted
from .reader import TextReader
from .text import rows_in_batch


def corrupt(ids, rng, vocab_size, share=0.15, reader=TextReader):
    """Corrupts some tokens of each row as BERT does; returns (corrupted, positions, targets).

    The tokens are chosen at random. Of the chosen tokens, 80% become [MASK], 10% become a random token, and 10% are
    left unchanged. Since the model cannot know which tokens were replaced, it must use the neighbors of each token as
    well as the token itself.

    Parameters:
        ids : int array (B, T)
        rng : numpy Generator
        vocab_size : int, special ids included
        share : float, the fraction of a row's ordinary tokens to choose; rounded, at least one token per row
        reader : the TextReader that has read the ids, or its class; it knows the special ids, which are never chosen

    Shape:
        corrupted (B, T); positions (B, K) of the chosen tokens in ascending order; targets (B, K), the tokens that were
        there. A row with fewer than K chosen tokens is filled up with position 0 and target IGNORE.

    Raises:
        ValueError if share is not in (0, 1], or if no row has an ordinary token.

    Source: Devlin et al. 2019, section 3.1 and appendix A.1.
    """
    check_share(share)
    special = sorted(reader.special_names)
    ordinary = np.isin(ids, special, invert=True)
    if not ordinary.any():
        raise ValueError(f"the ids contain no ordinary token, only the special ids {', '.join(map(str, special))}, so "
                         "nothing can be masked; give the ids of a text, as `pieces` of a TextReader returns them")
    available = ordinary.sum(1)
    count = np.minimum(available, np.maximum(1, np.rint(share * available).astype(int)))
    order = np.where(ordinary, rng.random(ids.shape), 2).argsort(1)         # ordinary tokens first, shuffled
    chosen = order.argsort(1) < count[:, None]
    draw = rng.random(ids.shape)
    random_tokens = nth_ordinary(rng.integers(len(special), vocab_size, ids.shape).astype(np.intp) - len(special), special)
    corrupted = np.where(chosen & (draw < 0.8), reader.mask_id, np.where(chosen & (draw >= 0.9), random_tokens, ids))
    positions = (~chosen).argsort(1, kind="stable")[:, :count.max()]
    is_chosen = np.arange(positions.shape[1]) < count[:, None]
    targets = np.where(is_chosen, np.take_along_axis(ids, positions, 1), IGNORE)
    return corrupted, np.where(is_chosen, positions, 0), targets


def nth_ordinary(n, special):
    """Returns the id of ordinary token number n, from 0 on: n, plus the number of (sorted) special ids before it."""
    ordinary_before = np.array(special) - np.arange(len(special))       # how many ordinary ids each special id follows
    return n + np.searchsorted(ordinary_before, n, side="right")


def check_share(share):
    if not 0 < share <= 1:
        raise ValueError(f"the share of masked tokens is {share}, but it must be above 0 and at most 1; 0.15 is usual")


class MaskedWindows:
    """Batches ((corrupted, None, segments, positions), targets) of rows [CLS] A [SEP] or [CLS] A [SEP] B [SEP].

    A, or A followed by B, is a stretch of the text that is split at a random token. Segments are 0 up to the first
    [SEP] and 1 for B [SEP]. About half of the rows have a B. The first nine tenths of the ids are the training set, the
    last tenth is the validation set. `batch(step)` depends only on the seed and the step.

    Parameters:
        ids : int array, the whole text as ids of a tokenizer, without the reader's offset added
        length : int, ids in a row, special ids included
        batch_size : int, rows in a training batch
        seed : int
        vocab_size : int, the vocab_size of the reader
        share : float, as for `corrupt`
        held_out : int array, the validation set; then all ids are the training set
        reader : TextReader or its class; it knows the special ids
        two_segments : bool; False makes rows without a B, and no segments (None), for a model without two of them

    Raises:
        ValueError if length, batch_size, share or vocab_size is too small, or if the validation set is too short.
    """

    def __init__(self, ids, length, batch_size, seed, vocab_size, share=0.15, held_out=None,
                 reader=TextReader, two_segments=True):
        ids = np.asarray(ids)
        if held_out is None:
            split = len(ids) * 9 // 10
            self.train, self.held_out = ids[:split], ids[split:]
        else:
            self.train, self.held_out = ids, np.asarray(held_out)
        self.length = length
        self.batch_size = batch_size
        self.seed = seed
        self.vocab_size = vocab_size
        self.share = share
        self.reader = reader
        self.two_segments = two_segments
        if length < 5 or batch_size < 1:
            raise ValueError(f"length is {length} and batch_size {batch_size}; give a length of at least 5, for "
                             "[CLS] A [SEP] B [SEP], and a batch_size of at least 1")
        check_share(share)
        if len(self.held_out) < length and held_out is not None:
            raise ValueError(f"a text of {counted(len(held_out), 'token')} is too short: it must fill a row of "
                             f"{length}; use a longer one")
        if len(self.held_out) < length:
            raise ValueError(f"a text of {counted(len(ids), 'token')} is too short: its last tenth must fill a row of "
                             f"{length}, so {10 * length - 9:,} are needed; use a longer text")
        largest = ids.max()
        if largest + reader.offset >= vocab_size:
            raise ValueError(f"vocab_size is {vocab_size}, but the text has the id {largest}, which becomes "
                             f"{largest + reader.offset}; give the tokenizer's vocab_size + {reader.offset}")

    def __repr__(self):
        return (f"MaskedWindows({len(self.train):,} training tokens, {len(self.held_out):,} validation tokens, "
                f"length={self.length}, batch_size={self.batch_size}, share={self.share})")

    def batch(self, step):
        """Returns the batch of a training step."""
        rng = np.random.default_rng([self.seed, step])
        starts = rng.integers(0, len(self.train) - (self.length - 2) + 1, self.batch_size)
        return self.mask_rows(self.train, starts, self.draw_splits(rng, self.batch_size), self.length, rng)

    def validation(self):
        """Returns the whole validation set once, as a list of batches of full rows; the same batches at every call."""
        rng = np.random.default_rng([self.seed, 0, 1])
        total = len(self.held_out)
        splits = self.draw_splits(rng, -(-total // (self.length - 3)))
        ends = np.where(splits == self.length - 2, splits, self.length - 3).cumsum()
        full = np.count_nonzero(ends <= total)
        starts, splits = np.append(0, ends)[:full], splits[:full]
        rows = rows_in_batch(self.length * self.share * self.vocab_size)
        batches = [self.mask_rows(self.held_out, starts[i:i + rows], splits[i:i + rows], self.length, rng)
                   for i in range(0, full, rows)]
        rest = total - ends[full - 1]
        if rest:                                # one shorter row [CLS] A [SEP]
            batches.append(self.mask_rows(self.held_out, ends[full - 1:full], np.array([rest]), rest + 2, rng))
        return batches

    def draw_splits(self, rng, count):
        """Draws the number of tokens in the A of each row; a row without a B has length - 2 of them."""
        if not self.two_segments:
            return np.full(count, self.length - 2)
        return np.where(rng.random(count) < 0.5, self.length - 2, rng.integers(1, self.length - 3, count))

    def mask_rows(self, ids, starts, splits, length, rng):
        """Returns the batch of the rows of the text that begin at `starts`."""
        columns, splits = np.arange(length), splits[:, None]
        segments = (columns > splits + 1).astype(int)
        places = (starts[:, None] + columns - 1 - segments).astype(np.intp)
        rows = ids.take(places, mode="clip") + self.reader.offset
        rows[:, 0] = self.reader.cls_id
        rows[(columns == splits + 1) | (columns == length - 1)] = self.reader.sep_id
        corrupted, positions, targets = corrupt(rows, rng, self.vocab_size, self.share, self.reader)
        return (corrupted, None, segments if self.two_segments else None, positions), targets


def masked_accuracy(guess, batches):
    """Returns the share of masked tokens that guess(ids, mask, segments, positions) -> ids (B, K) gets right."""
    correct = total = 0
    for inputs, targets in batches:
        correct += np.count_nonzero(guess(*inputs) == targets)          # no prediction equals IGNORE
        total += np.count_nonzero(targets != IGNORE)
    return correct / total
