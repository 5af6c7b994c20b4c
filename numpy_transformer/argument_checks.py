"""Checks of arguments that the components share. Each error names the value, the limit and the remedy."""

import numpy as np


def check_array(layer, *arrays):
    """Raises TypeError unless all arrays are NumPy arrays."""
    for x in arrays:
        if not isinstance(x, (np.ndarray, np.generic)):
            raise TypeError(f"{type(layer).__name__} takes NumPy arrays, got {type(x).__name__}; use np.array")


def check_last_dim(layer, x, name, size):
    """Raises an error unless x is an array (..., size); `name` is what the layer calls this dimension."""
    check_array(layer, x)
    if x.shape[-1:] != (size,):
        raise ValueError(f"{type(layer).__name__} takes inputs whose last dimension is {name} = {size}, got shape "
                         f"{x.shape}; pass (..., {size}) or build the layer with another {name}")


def check_positive(**sizes):
    """Raises ValueError unless every size is an integer of at least 1."""
    for name, size in sizes.items():
        is_integer = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
        if not is_integer or size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {size!r}")


def check_divides(whole_name, whole, part_name, part):
    """Raises ValueError unless both sizes are positive integers and `part` divides `whole`."""
    check_positive(**{whole_name: whole, part_name: part})
    if whole % part:
        divisors = [n for n in range(1, whole + 1) if whole % n == 0]
        raise ValueError(f"{whole_name} = {whole} is not divisible by {part_name} = {part}; "
                         f"choose {part_name} among {divisors}")


def check_choice(name, value, choices):
    """Raises ValueError unless `value` is one of the choices."""
    if value not in tuple(choices):
        raise ValueError(f"{name} = {value!r} is unknown; choose one of {', '.join(map(repr, choices))}")


def check_integers(values, size, what, limit_name):
    """Returns `values`, integers from 0 to size - 1, as an array of np.intp, the dtype with which NumPy indexes.

    Raises TypeError for another dtype and IndexError for a value outside this range.
    """
    values = np.asarray(values)
    if values.dtype.kind not in "iu":
        raise TypeError(f"{what} must be integers, got dtype {values.dtype}; convert them with .astype(int)")
    if values.size and (values.min() < 0 or values.max() >= size):
        first = tuple(map(int, np.argwhere((values < 0) | (values >= size))[0]))
        raise IndexError(f"{what} must lie in 0 to {size - 1} ({limit_name} = {size}), got {values[first]} "
                         f"at index {list(first)}; check the tokenizer, or build with a larger {limit_name}")
    return values.astype(np.intp, copy=False)


def check_ids(ids, max_len, segments=None):
    """Returns the ids of one text (T,) or of several (B, T) as an array.

    Raises ValueError unless T is from 1 to max_len and the segments, if given, have the shape of the ids.
    """
    ids = np.asarray(ids)
    if ids.ndim not in (1, 2) or ids.size == 0 or ids.shape[-1] > max_len:
        raise ValueError(f"ids have shape {ids.shape}: wanted (B, T) or (T,) with T from 1 to max_len = {max_len}; "
                         "shorten the text, or build the model with a larger max_len")
    if segments is not None and np.shape(segments) != ids.shape:
        raise ValueError(f"segments have shape {np.shape(segments)}: wanted the shape of the ids, {ids.shape}, with "
                         "one segment for each token")
    return ids


def check_token_mask(mask, shape):
    """Returns a mask of tokens as a boolean array of this shape; True marks a real token."""
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape != shape:
        raise ValueError(f"mask has dtype {mask.dtype} and shape {mask.shape}: wanted booleans, True = real token, of "
                         f"shape {shape}, one for each token")
    return mask
