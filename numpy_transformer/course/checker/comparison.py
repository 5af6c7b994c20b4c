"""Compares a student's array with the correct one, and describes in words how they differ."""

import numpy as np


def close(yours, right, all_right, single=False):
    """Returns a boolean array: which entries are correct.

    The tolerance is 1e-7 relative plus 1e-9 of the largest entry. If `yours` is float32, it is 1e-6 of both, which
    computing in float32 keeps to but a wrong constant does not.

    Parameters:
        yours, right : the student's output and the correct one
        all_right : all correct outputs; if `right` is only rounding error next to them, they set the scale
        single : the arguments were float32, too, so that `right` depends on numbers that the student's code never
            saw: the tolerance is 1e-4 and 1e-5
    """
    rtol, atol = (1e-6, 1e-6) if yours.dtype == np.float32 else (1e-7, 1e-9)
    if single:
        rtol, atol = 1e-4, 1e-5
    largest = max(np.max(abs(other), initial=0, where=np.isfinite(other)) for other in map(np.asarray, all_right))
    scale = np.max(abs(right), initial=0, where=np.isfinite(right))
    if scale < 1e-9 * largest:
        scale = largest
    with np.errstate(invalid="ignore"):
        near = abs(yours - right) <= rtol * abs(right) + atol * scale
        return near | (yours == right) | (np.isnan(yours) & np.isnan(right))


def is_close(yours, right, all_right):
    """Returns True if an output has the right shape and all its entries are correct."""
    return yours.shape == right.shape and bool(close(yours, np.asarray(right, float), all_right).all())


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
    """Returns a list with the relative error and the cosine in words, or an empty list if they mean nothing.

    For booleans and whole numbers, it counts the wrong entries instead.
    """
    if right.size <= 1:
        return []
    if right.dtype.kind in "biu":
        return [count_differences(yours, right)]
    if not right.any() or not yours.any():
        return []
    relative = np.linalg.norm(yours - right) / np.linalg.norm(right)
    cosine = np.vdot(yours, right) / (np.linalg.norm(yours) * np.linalg.norm(right))
    if not np.isfinite(relative * cosine):
        return []
    return [f"relative error {relative:.2g}, cosine {cosine:.2f}"]


def count_differences(yours, right):
    """Says how many booleans or whole numbers are wrong, and in which direction."""
    wrong = yours != right
    above, below = int((yours > right)[wrong].sum()), int((yours < right)[wrong].sum())
    if right.dtype.kind == "b":
        parts = [(above, "True instead of False"), (below, "False instead of True")]
    else:
        parts = [(above, "too large"), (below, "too small")]
    words = ", ".join(f"{count} {direction}" for count, direction in parts if count)
    directions = f" ({words})" if words else ""
    return f"{int(wrong.sum())} of {right.size} entries are wrong{directions}"


def show_entry(value, kind):
    """Returns one entry as it is printed: True or False for booleans (kind "b"), else six digits."""
    return str(bool(value)) if kind == "b" and value in (0, 1) else f"{value:.6g}"


def precision(yours, right, all_right):
    """Returns a sentence about an output that is wrong only because it has lost digits, or ""."""
    loose = {np.float32: 1e-4, np.float16: 1e-2}.get(yours.dtype.type)
    if loose is None or right.dtype != np.float64:
        return ""
    scale = max(np.max(abs(np.asarray(other, float)), initial=0) for other in all_right)
    if not np.all(abs(yours - right) <= loose * (abs(right) + scale)):
        return ""
    return (f"is {yours.dtype}, although the arguments are float64, and correct to a few digits only. If your code "
            "converts to a smaller dtype, compute in that of the arguments. If that does not help, look for a constant "
            "that is slightly wrong")
