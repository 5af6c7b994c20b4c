"""Checks of arguments that the components share: each raises an error that names the value, the limit and the remedy."""

import numpy as np


def check_array(layer, *arrays):
    for x in arrays:
        if not isinstance(x, (np.ndarray, np.generic)):
            raise TypeError(f"{type(layer).__name__} takes NumPy arrays, got {type(x).__name__}; use np.array")


def check_last_dim(layer, x, name, size):
    if not isinstance(x, np.ndarray):
        check_array(layer, x)
    if x.shape[-1:] != (size,):
        raise ValueError(f"{type(layer).__name__} takes inputs whose last dimension is {name} = {size}, got shape "
                         f"{x.shape}; pass (..., {size}) or build the layer with another {name}")


def check_positive(**sizes):
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {size!r}")


def check_divides(whole_name, whole, part_name, part):
    check_positive(**{whole_name: whole, part_name: part})
    if whole % part:
        raise ValueError(f"{whole_name} = {whole} is not divisible by {part_name} = {part}; "
                         f"choose {part_name} among {[n for n in range(1, whole + 1) if whole % n == 0]}")


def check_choice(name, value, choices):
    if value not in tuple(choices):
        raise ValueError(f"{name} = {value!r} is unknown; choose one of {', '.join(map(repr, choices))}")


def check_ids(ids, max_len, segments=None):
    """ids of one text (T,) or several (B, T), T from 1 to max_len, as an array; segments have the same shape."""
    ids = np.asarray(ids)
    if not (ids.ndim in (1, 2) and ids.size and ids.shape[-1] <= max_len):
        raise ValueError(f"ids have shape {ids.shape}: wanted (B, T) or (T,) with T from 1 to max_len = {max_len}; shorten "
                         "the text, or build the model with a larger max_len")
    if segments is not None and np.shape(segments) != ids.shape:
        raise ValueError(f"segments have shape {np.shape(segments)}: wanted that of ids, {ids.shape}, one for each token")
    return ids


def check_token_mask(mask, shape):
    """A mask of tokens as an array: booleans, True = real token."""
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape != shape:
        raise ValueError(f"mask has dtype {mask.dtype} and shape {mask.shape}: wanted booleans, True = real token, of shape "
                         f"{shape}, one for each token")
    return mask


def check_integers(ids, size, what, limit_name):
    """ids as an integer array, each in [0, size)."""
    ids = np.asarray(ids)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"{what} must be integers, got dtype {ids.dtype}; convert them with .astype(np.int64)")
    if ids.size and (ids.min() < 0 or ids.max() >= size):
        bad = tuple(map(int, np.argwhere((ids < 0) | (ids >= size))[0]))
        raise IndexError(f"{what} must lie in 0 to {size - 1} ({limit_name} = {size}), got {ids[bad]} "
                         f"at index {list(bad)}; check the tokenizer, or build with a larger {limit_name}")
    return ids
