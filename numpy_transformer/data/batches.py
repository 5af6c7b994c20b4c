"""Rows of ids as padded batches of similar length, in an order that depends only on the seed."""

import numpy as np

from .plurals import counted

PAD = 0                                 # the id of padding tokens
IGNORE = -1                             # a target that the loss ignores


class Batches:
    """Batches of rows; `batches(step)` returns the batch of a training step.

    An epoch of `len(batches)` steps contains every row once. Each batch has rows of similar length, so that it needs
    little padding, and one batch may be smaller than the others. A batch depends only on the seed and the step.

    Parameters:
        sides : lists of N int arrays each, such as the sources and the targets; item i of each list belongs to row i
        batch_size : int, rows in a batch
        seed : int
        pool : int, number of batches that are sorted by length at a time; choose 1 if length is related to the label
        pad_id : int, the id of padding tokens
    """

    def __init__(self, sides, batch_size, seed, pool=100, pad_id=PAD):
        num_rows = len(sides[0])
        if min(num_rows, batch_size, pool) < 1:
            raise ValueError(f"the number of rows is {num_rows}, batch_size {batch_size} and pool {pool}; each must "
                             "be at least 1")
        self.lengths = np.array([list(map(len, side)) for side in sides])
        self.starts = self.lengths.cumsum(1) - self.lengths
        self.ids = [np.concatenate(side) for side in sides]     # end to end: one lookup gathers a batch
        self.rows = np.arange(num_rows)
        self.batch_size = batch_size
        self.seed = seed
        self.pool_size = pool * batch_size                      # rows
        self.pad_id = pad_id
        self.cached_epoch = None, None                          # the number and the batches of the latest epoch

    def __repr__(self):
        return f"{type(self).__name__}({counted(len(self.rows), 'row')}, batch_size={self.batch_size})"

    def __len__(self):
        return -(-len(self.rows) // self.batch_size)

    def __call__(self, step):
        """Returns the batch of a training step."""
        epoch, number = divmod(step, len(self))
        return self.assemble(self.epoch(epoch)[number])

    def batches(self):
        """Returns all batches once, sorted by length, for validation."""
        return [self.assemble(rows) for rows in self.by_length(self.rows)]

    @property
    def padding(self):
        """The share of padding tokens among all ids of an epoch, 0 to 1."""
        padded = sum(len(rows) * self.lengths[:, rows].max(1).sum() for rows in self.epoch(0))
        return float(1 - self.lengths.sum() / padded)

    def epoch(self, number):
        """Returns the rows of each batch of an epoch: shuffled rows, sorted within pools, in shuffled batches."""
        if self.cached_epoch[0] != number:
            rng = np.random.default_rng([self.seed, number])
            rows = rng.permutation(self.rows)
            pools = [rows[i:i + self.pool_size] for i in range(0, len(rows), self.pool_size)]
            batches = [batch for pool in pools for batch in self.by_length(pool)]
            self.cached_epoch = number, [batches[i] for i in rng.permutation(len(batches))]
        return self.cached_epoch[1]

    def by_length(self, rows):
        """Returns batches of these rows, the shortest rows first."""
        rows = rows[np.lexsort(self.lengths[::-1, rows])]       # by source, then target; ties stay shuffled
        return [rows[i:i + self.batch_size] for i in range(0, len(rows), self.batch_size)]

    def padded(self, side, rows, fill=None, width=None):
        """Returns the ids of a side, padded on the right with `fill` or else pad_id, to the longest row or to `width`."""
        lengths = self.lengths[side, rows, None]
        starts = self.starts[side, rows, None]
        columns = np.arange(lengths.max() if width is None else width)
        ids = self.ids[side].take(starts + columns, mode="clip")
        return np.where(columns < lengths, ids, self.pad_id if fill is None else fill)


class LabeledTexts(Batches):
    """Batches ((ids,), labels) of texts with a label each.

    Parameters:
        rows : list of N int arrays, the texts as ids
        labels : N ints
        batch_size, seed, pool : as for Batches
        width : int or None, pad to this length; None pads to the longest text of the batch
        pad_id : as for Batches

    Shape: ids (B, T), labels (B,).
    """

    def __init__(self, rows, labels, batch_size, seed, pool=100, width=None, pad_id=PAD):
        super().__init__([rows], batch_size, seed, pool, pad_id)
        self.labels, self.width = np.asarray(labels), width

    def assemble(self, rows):
        return (self.padded(0, rows, width=self.width),), self.labels[rows]


class TaggedTexts(Batches):
    """Batches ((ids,), tags) of texts with a tag for each id.

    Parameters:
        rows : list of N int arrays, the texts as ids
        tags : list of N int arrays; IGNORE where no word begins
        batch_size, seed, pool, pad_id : as for Batches

    Shape: ids and tags (B, T); ids are padded with pad_id, tags with IGNORE.
    """

    def __init__(self, rows, tags, batch_size, seed, pool=100, pad_id=PAD):
        super().__init__([rows, tags], batch_size, seed, pool, pad_id)

    def assemble(self, rows):
        return (self.padded(0, rows),), self.padded(1, rows, IGNORE)
