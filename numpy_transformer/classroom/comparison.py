"""Compares a student's array with the correct one, and describes in words how they differ."""

import numpy as np


def close(yours, right, all_right, single=False):
    """Returns a boolean array: which entries are correct.

    The tolerance is 1e-7 relative plus 1e-9 of the largest entry, or 1e-4 and 1e-5 in float32.

    Parameters:
        yours, right : the student's output and the correct one
        all_right : all correct outputs; if `right` is only rounding error next to them, they set the scale
        single : use the tolerance of float32 whatever the dtype
    """
    rtol, atol = (1e-4, 1e-5) if single or yours.dtype == np.float32 else (1e-7, 1e-9)
    largest = max(np.max(abs(other), initial=0, where=np.isfinite(other)) for other in map(np.asarray, all_right))
    scale = np.max(abs(right), initial=0, where=np.isfinite(right))
    if scale < 1e-9 * largest:
        scale = largest
    with np.errstate(invalid="ignore"):
        near = abs(yours - right) <= rtol * abs(right) + atol * scale
        return near | (yours == right) | (np.isnan(yours) & np.isnan(right))


def unlike(dtype, right):
    """Returns True if the dtype is not boolean, or not an integer, where `right` is. Any number stands for a float."""
    accepted = {"b": "b", "i": "iu"}
    return right.kind in accepted and dtype.kind not in accepted[right.kind]


def compare_shapes(shape, right):
    """Describes how a wrong shape differs from the correct one."""
    if [n for n in shape if n > 1] == [n for n in right if n > 1]:
        return "they differ in axes of size 1"
    if len(shape) > len(right):
        return "it has too many axes: is a sum missing?"
    if len(shape) < len(right):
        return "it has too few axes: was an axis summed that should stay?"
    if sorted(shape) == sorted(right):
        return "it looks transposed"
    wrong = [str(axis) for axis, (n, m) in enumerate(zip(shape, right)) if n != m]
    return f"it is wrong along axis {' and '.join(wrong)}"


def compare_arrays(yours, right):
    """Returns a list with the relative error and the cosine in words, or an empty list if they mean nothing."""
    if right.size <= 1 or not right.any() or not yours.any():
        return []
    relative = np.linalg.norm(yours - right) / np.linalg.norm(right)
    cosine = np.vdot(yours, right) / (np.linalg.norm(yours) * np.linalg.norm(right))
    if not np.isfinite(relative * cosine):
        return []
    return [f"relative error {relative:.2g}, cosine {cosine:.2f}"]
