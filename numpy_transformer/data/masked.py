"""Masked words: BERT's corruption of a text, and windows of it as batches."""

import numpy as np

from .batches import IGNORE
from .reader import CLS, MASK, SEP, SPECIAL


def corrupt(ids, rng, vocab_size, share=0.15):
    """Hide some tokens of each row: (corrupted, places, targets).

    Of those chosen, by draws, 80 % become MASK, 10 % any token and 10 % stay, so that a model must know each token
    from its neighbours and yet mind the token itself.

    Parameters: vocab_size : int, special ids included; share : of a row's ordinary tokens, rounded, at least one
    Shape: ids (B, T) -> corrupted (B, T), places (B, K) in ascending order, targets (B, K): what stood there. A row
        with fewer than K fills up with place 0 and target IGNORE.
    Raises: ValueError if share is not in (0, 1], or no row has an ordinary token.
    Source: Devlin et al. 2019, section 3.1 and appendix A.1.
    """
    check_share(share)
    ordinary = ids >= SPECIAL
    if not ordinary.any():
        raise ValueError(f"none of the {ids.size} ids is an ordinary token, of at least {SPECIAL}, so nothing can be "
                         f"masked; add {SPECIAL} to the ids of a tokenizer")
    count = ordinary.sum(1)
    count = np.minimum(count, np.maximum(1, np.rint(share * count).astype(int)))
    order = np.where(ordinary, rng.random(ids.shape), 2).argsort(1)         # the ordinary ones, shuffled, come first
    chosen = order.argsort(1) < count[:, None]
    fate, anything = rng.random(ids.shape), rng.integers(SPECIAL, vocab_size, ids.shape)
    corrupted = np.where(chosen & (fate < 0.8), MASK, np.where(chosen & (fate >= 0.9), anything, ids))
    places = (~chosen).argsort(1, kind="stable")[:, :count.max()]
    real = np.arange(places.shape[1]) < count[:, None]
    return corrupted, np.where(real, places, 0), np.where(real, np.take_along_axis(ids, places, 1), IGNORE)


def check_share(share):
    if not 0 < share <= 1:
        raise ValueError(f"the share of masked tokens is {share}, but it must be above 0 and at most 1; 0.15 is usual")


class MaskedWindows:
    """Batches ((corrupted, None, segments, places), targets) of [CLS] A [SEP] or [CLS] A [SEP] B [SEP].

    A, or A and then B, is running text that is cut anywhere; segments are 0 up to the first [SEP] and 1 for B [SEP].
    One row in two has a B. The first nine tenths of the ids are for training, the rest for validation. `batch(step)`
    depends on seed and step alone.

    Parameters:
        ids : the whole text as ids of a tokenizer, without SPECIAL
        length : int, ids in a row, specials included; batch_size, seed : int
        vocab_size : int, the tokenizer's + SPECIAL
        share : as corrupt
        held_out : ids that validate, instead of the last tenth
    """

    def __init__(self, ids, length, batch_size, seed, vocab_size, share=0.15, held_out=None):
        ids = np.asarray(ids)
        cut = len(ids) * 9 // 10
        self.train, self.held_out = (ids[:cut], ids[cut:]) if held_out is None else (ids, np.asarray(held_out))
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self.vocab_size, self.share = vocab_size, share
        if length < 5 or batch_size < 1:
            raise ValueError(f"length is {length}, batch_size {batch_size}; give at least 5, which holds "
                             "[CLS] A [SEP] B [SEP], and 1")
        check_share(share)
        if len(self.held_out) < length and held_out is not None:
            raise ValueError(f"a text of {len(held_out):,} tokens is too short: it must fill a row of {length}; use a "
                             "longer one")
        if len(self.held_out) < length:
            raise ValueError(f"a text of {len(ids):,} tokens is too short: its last tenth must fill a row of {length}, "
                             f"so {10 * length - 9:,} are needed; use a longer text")
        if (largest := ids.max()) + SPECIAL >= vocab_size:
            raise ValueError(f"vocab_size is {vocab_size}, but the text has the id {largest}, which becomes "
                             f"{largest + SPECIAL}; give the tokenizer's vocab_size + {SPECIAL}")

    def batch(self, step):
        """The batch of a training step."""
        rng = np.random.default_rng([self.seed, step])
        starts = rng.integers(0, len(self.train) - (self.length - 2) + 1, self.batch_size)
        return self.masked(self.train, starts, self.cuts(rng, self.batch_size), self.length, rng)

    def validation(self):
        """The whole held-out part once, in rows of as many ids as fit, as a list of batches; always the same."""
        rng, total = np.random.default_rng([self.seed, 0, 1]), len(self.held_out)
        cuts = self.cuts(rng, -(-total // (self.length - 3)))
        ends = np.where(cuts == self.length - 2, cuts, self.length - 3).cumsum()
        full = np.count_nonzero(ends <= total)
        starts, cuts = np.append(0, ends)[:full], cuts[:full]
        batches = [self.masked(self.held_out, starts[i:i + 64], cuts[i:i + 64], self.length, rng)
                   for i in range(0, full, 64)]
        rest = total - ends[full - 1]
        last = np.array([ends[full - 1]]), np.array([rest]), rest + 2
        return batches + [self.masked(self.held_out, *last, rng)] if rest else batches

    def cuts(self, rng, count):
        """How many tokens A has in each row; if there is no B, all that fit."""
        return np.where(rng.random(count) < 0.5, self.length - 2, rng.integers(1, self.length - 3, count))

    def masked(self, ids, starts, cuts, length, rng):
        """The rows of the text from starts on, corrupted."""
        columns, cuts = np.arange(length), cuts[:, None]
        segments = (columns > cuts + 1).astype(int)
        rows = ids.take(starts[:, None] + columns - 1 - segments, mode="clip") + SPECIAL
        rows[:, 0] = CLS
        rows[(columns == cuts + 1) | (columns == length - 1)] = SEP
        corrupted, places, targets = corrupt(rows, rng, self.vocab_size, self.share)
        return (corrupted, None, segments, places), targets


def masked_accuracy(guess, batches):
    """The share of masked tokens that guess(ids, mask, segments, places) -> (B, K) ids names rightly."""
    right = total = 0
    for inputs, targets in batches:
        right += np.count_nonzero(guess(*inputs) == targets)            # no guess is IGNORE
        total += np.count_nonzero(targets != IGNORE)
    return right / total
