"""Compares what two programs did: the same values, or errors with the same text."""

import numpy as np


def fingerprint(observation):
    """Returns what distinguishes most answers.

    This is the type of an error, or the shape, a weighted sum and the sum of absolute values of each output.
    """
    if observation.error:
        return error_type(observation)
    parts = []
    with np.errstate(invalid="ignore"):
        for y in observation.outputs:
            y = np.asarray(y, float)
            weights = np.cos(np.arange(1, y.size + 1) ** 1.5)
            parts.append((y.shape, float(weights @ y.ravel()), float(np.abs(y).sum())))
    return tuple(parts)


def similar(a, b):
    """Returns True if two fingerprints may belong to the same answer."""
    if a is None or isinstance(a, str) or isinstance(b, str):
        return a == b
    return len(a) == len(b) and all(
        shape == shape2 and close_sums(x, x2, max(size, size2)) for (shape, x, size), (shape2, x2, size2) in zip(a, b))


def close_sums(x, x2, size):
    both_nan = x != x and x2 != x2
    return abs(x - x2) <= 1e-4 * size or both_nan or x == x2


def error_type(observation):
    """Returns the name of the error's class, such as "ValueError"; "" if there was no error."""
    return observation.error.split(":")[0]


def matches(observed, answers):
    """Returns True if both agree in every case: equal outputs, or errors with the same text.

    Observations that stop early do not match.
    """
    return len(observed) == len(answers) and all(map(matches_in_case, observed, answers))


def matches_in_case(a, b):
    if a.error or b.error:
        return a.error == b.error
    return len(a.outputs) == len(b.outputs) and all(equal(x, y, b.largest) for x, y in zip(a.outputs, b.outputs))


def equal(a, b, largest=0):
    """Returns True if both have the same shape and values to 1e-9 of b's largest entry, or 1e-6 if one is float32.

    Parameters:
        largest : largest entry of all outputs of the case; if b is only rounding error next to it, it replaces b's own
    """
    if a is None or b is None or a.shape != b.shape:
        return False
    tolerance = 1e-6 if np.float32 in (a.dtype, b.dtype) else 1e-9
    a, b = np.asarray(a, float), np.asarray(b, float)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = np.max(abs(b), initial=0, where=finite)
    if scale < 1e-9 * largest:
        scale = largest
    return bool(np.all(abs(a[finite] - b[finite]) <= tolerance * scale))


def agreement_on_changes(observed, answers):
    """Returns 2 if both changed the same arguments in each case, 1 if over all cases together, and 0 otherwise."""
    ours, theirs = ([set(observation.changed) for observation in observations] for observations in (observed, answers))
    return (ours == theirs) + (set().union(*ours) == set().union(*theirs))


def same_changes(a, b):
    """Returns True if two observations changed the same arguments to the same values."""
    return a.changed.keys() == b.changed.keys() and all(equal(a.changed[i], b.changed[i]) for i in a.changed)
