"""Large arrays as small pictures of one byte per cell, and the arrays of a film as JSON."""

import base64

import numpy as np

from .budget import block_length, grid

LARGEST_CODE = 127                              # of int8, and 255 of uint8


def pool(x, side):
    """Returns the picture of an array: of each block the entry of the largest size, with its sign.

    A mean would hide weights, whose signs are mixed, and an entry picked from each block would hide those that grow.
    """
    rows, columns = grid(x.shape, side)
    x = x.reshape(-1, x.shape[-1]) if x.ndim > 1 else x.reshape(1, -1)
    high, low = (blocks_of_columns(blocks_of_rows(x, rows, extreme), columns, extreme) for extreme in (np.max, np.min))
    return np.where(high >= -low, high, low)


def blocks_of_rows(x, count, extreme):
    """(n, m) -> (count, m): the extreme of each block of rows. A reshaped array is much quicker than ufunc.reduceat."""
    length = block_length(len(x), count)
    whole = len(x) // length
    parts = [extreme(x[:whole * length].reshape(whole, length, -1), 1)]
    if whole * length < len(x):
        parts.append(extreme(x[whole * length:], 0)[None])
    return np.concatenate(parts)


def blocks_of_columns(x, count, extreme):
    """(n, m) -> (n, count)."""
    return blocks_of_rows(x.T, count, extreme).T


def signed_bytes(pictures):
    """Returns (int8 codes (F, rows, columns), scales (F)): the numbers are code / 127 * scale of the frame."""
    pictures = np.nan_to_num(np.asarray(pictures, np.float32), posinf=0, neginf=0)
    scales = abs(pictures).max((1, 2))
    codes = np.rint(pictures / np.where(scales > 0, scales, 1)[:, None, None] * LARGEST_CODE)
    return codes.astype(np.int8), scales


def unsigned_bytes(weights):
    """Returns uint8 codes of numbers from 0 to 1."""
    return np.rint(np.clip(np.nan_to_num(weights), 0, 1) * 255).astype(np.uint8)


def as_json(array):
    """Returns an array as FORMAT.md describes it: shape, dtype, and bytes in base64."""
    array = np.ascontiguousarray(array)
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {"shape": list(array.shape), "dtype": array.dtype.name, "data": base64.b64encode(little.tobytes()).decode()}
