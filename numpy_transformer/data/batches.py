"""Rows of ids as batches: rows of similar length side by side, in an order that depends on the seed alone."""

import numpy as np

PAD = 0                                 # the id that fills up a row
IGNORE = -1                             # a target that no loss counts


class Batches:
    """`batches(step)` is the batch of a training step. Each epoch of `len(batches)` steps has every row once, rows of
    similar length side by side; one batch may be smaller. It depends on seed and step alone.

    Parameters:
        sides : lists of N int arrays each; what belongs together has the same place in its list
        batch_size, seed : int
        pool : int, how many batches are sorted by length together; 1 is better where length tells the kind of text
    """

    def __init__(self, sides, batch_size, seed, pool=100):
        if min(len(sides[0]), batch_size, pool) < 1:
            raise ValueError(f"{len(sides[0])} rows, batch_size {batch_size} and pool {pool}; each must be at least 1")
        self.lengths = np.array([list(map(len, side)) for side in sides])
        self.starts = self.lengths.cumsum(1) - self.lengths
        self.ids = [np.concatenate(side) for side in sides]     # end to end: one look-up gathers a batch
        self.rows, self.batch_size = np.arange(len(sides[0])), batch_size
        self.seed, self.pool = seed, pool * batch_size
        self.drawn = None, None                                 # the latest epoch and its batches

    def __len__(self):
        return -(-len(self.rows) // self.batch_size)

    def __call__(self, step):
        epoch, number = divmod(step, len(self))
        return self.assemble(self.epoch(epoch)[number])

    def batches(self):
        """All batches once, in order of length, for validation."""
        return [self.assemble(rows) for rows in self.by_length(self.rows)]

    @property
    def padding(self):
        """The share of PAD among all ids of an epoch."""
        return float(1 - self.lengths.sum() / sum(len(rows) * self.lengths[:, rows].max(1).sum()
                                                  for rows in self.epoch(0)))

    def epoch(self, number):
        """The rows of each batch of an epoch: shuffled, sorted in pools, cut, and the batches shuffled."""
        if self.drawn[0] != number:
            rng = np.random.default_rng([self.seed, number])
            rows, starts = rng.permutation(self.rows), range(0, len(self.rows), self.pool)
            batches = [batch for i in starts for batch in self.by_length(rows[i:i + self.pool])]
            self.drawn = number, [batches[i] for i in rng.permutation(len(batches))]
        return self.drawn[1]

    def by_length(self, rows):
        """Batches of rows, the short ones first."""
        rows = rows[np.lexsort(self.lengths[::-1, rows])]       # by source, then target; equals stay shuffled
        return [rows[i:i + self.batch_size] for i in range(0, len(rows), self.batch_size)]

    def padded(self, side, rows, fill=PAD, width=None):
        """(B, longest or width) ids of a side, with `fill` behind them."""
        lengths, starts = self.lengths[side, rows, None], self.starts[side, rows, None]
        columns = np.arange(lengths.max() if width is None else width)
        return np.where(columns < lengths, self.ids[side].take(starts + columns, mode="clip"), fill)


class LabeledTexts(Batches):
    """Batches ((ids,), labels): ids (B, T), labels (B,); T is the longest text of the batch, or `width`."""

    def __init__(self, rows, labels, batch_size, seed, pool=100, width=None):
        super().__init__([rows], batch_size, seed, pool)
        self.labels, self.width = np.asarray(labels), width

    def assemble(self, rows):
        return (self.padded(0, rows, width=self.width),), self.labels[rows]


class TaggedTexts(Batches):
    """Batches ((ids,), tags): ids and tags (B, T); tags are IGNORE where no word begins, and behind the text."""

    def __init__(self, rows, tags, batch_size, seed, pool=100):
        super().__init__([rows, tags], batch_size, seed, pool)

    def assemble(self, rows):
        return (self.padded(0, rows),), self.padded(1, rows, IGNORE)
