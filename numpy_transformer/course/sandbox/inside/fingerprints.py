"""Fingerprints of arrays, by which the values of two programs are compared without keeping them.

A fingerprint holds the shape and a few weighted sums over the entries. The sums are linear, so those of 2 x are twice
those of x.
"""

import functools

MOST_VISITS, MOST_ROWS = 4, 5000                # values of one expression in one case, and of all, that are recorded
LARGEST, LONGEST_LIST = 50_000, 100             # entries of an array, and of a list, that is looked at
DIMS, SUMS = 5, 6                               # axes and weighted sums of a fingerprint
# Columns of a fingerprint: kind, number of axes, sizes, entries that are not finite, 1 if all entries are equal, sum of
# absolute values, weighted sums.
KIND, AXES, SHAPE, BAD, CONSTANT, TOTAL, PROJECTED = 0, 1, 2, 2 + DIMS, 3 + DIMS, 4 + DIMS, 5 + DIMS
WIDTH = PROJECTED + SUMS
BEFORE = 2                                      # columns of a recorded row before the fingerprint: case and node
KINDS = "bif"                                   # boolean or only 0 and 1, integer, floating point


def weights(size):
    """Returns the weights of the sums, an array (SUMS, size)."""
    return power_of_two_weights(size.bit_length())[:, :size]


@functools.cache
def power_of_two_weights(bits):
    import numpy as np
    return np.cos(np.outer(np.arange(1, SUMS + 1), np.arange(1, (1 << bits) + 1) ** 1.5))


def as_array(value):
    """Returns a number, a list of numbers or an array of numbers as an array; None for anything else."""
    import numpy as np
    numbers = bool, int, float, np.generic
    if isinstance(value, (list, tuple)):
        if not value or len(value) > LONGEST_LIST or not all(isinstance(part, numbers) for part in value):
            return None
    elif not isinstance(value, (np.ndarray, *numbers)):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        return None
    return array if array.dtype.kind in "biuf" and array.ndim <= DIMS and array.size <= LARGEST else None


def fingerprint(value):
    """Returns the fingerprint of what `as_array` accepts, as a list; None of anything else."""
    import numpy as np
    array = as_array(value)
    if array is None:
        return None
    flat = array.astype(float).ravel()
    finite = np.isfinite(flat)
    bad = flat.size - int(finite.sum())
    flat = np.where(finite, flat, 0.0) if bad else flat
    constant = not flat.size or bool(flat.min() == flat.max())
    is_mask = flat.size > 1 and bool(((flat == 0) | (flat == 1)).all())
    kind = "b" if is_mask else array.dtype.kind.replace("u", "i")
    return [KINDS.index(kind), array.ndim, *array.shape, *[0] * (DIMS - array.ndim), bad,
            constant, float(abs(flat).sum()), *(weights(flat.size) @ flat).tolist()]


class Recorder:
    """Takes the values of the nodes: the first visits of each in each case, as long as there is room."""

    def __init__(self):
        self.rows, self.visits, self.case = [], {}, 0

    def __call__(self, number, value):
        count = self.visits[self.case, number] = self.visits.get((self.case, number), 0) + 1
        if count <= MOST_VISITS and len(self.rows) < MOST_ROWS:
            value_fingerprint = fingerprint(value)
            if value_fingerprint is not None:
                self.rows.append([self.case, number, *value_fingerprint])
        return value
