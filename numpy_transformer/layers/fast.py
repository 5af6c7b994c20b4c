"""Tricks for speed that the components share. Elsewhere in layers/ the formula itself is written down.

The percentages say by how much the computation of gradients gets longer with the plain formula in place of the function.
They are medians of CPU time on one core of an AMD EPYC (Zen 4) with NumPy 2.4, whose matmuls ran in OpenBLAS's SkylakeX
kernels, measured in turns for one worker's part of the batches of `numpy-transformer bench`; they are uncertain by 1 to 2
points. The sums (plain: x.sum and x.mean) together save 9% of "tiny", 3.5% of "nanogpt-cpu" and 2 to 3% of
"classifier" and "seq2seq". What saves less than 3% in every configuration does not belong here, unless a large model
could not keep its memory without it.
"""

import functools
from collections.abc import Callable

import numpy as np

from ..threads import blocks, in_threads

BLOCK = 2 ** 16                                             # entries
LARGE_PRODUCT = 2 ** 21                                     # entries of a product that is added at a time
LARGE = 60.0                                                # exp(60) times any length is finite in float32
TINY = 1e-20                                                # a sum above this has its full precision in float32


# In Linear this saves 4% of "tiny", 7 to 8% of "nanogpt-cpu" and "mid", and 11% of "seq2seq".
def rows(x: np.ndarray) -> np.ndarray:
    """(..., n) -> (N, n), a view where possible: one large matrix product instead of a batch of small ones."""
    return x.reshape(-1, x.shape[-1])


def sum_over_rows(x: np.ndarray) -> np.ndarray:
    """(..., n) -> (n,): the sum over all axes but the last."""
    x = rows(x)
    return _constant(len(x), 1, x.dtype) @ x


def sum_over_features(x: np.ndarray) -> np.ndarray:
    """(..., n) -> (..., 1): the sum over the last axis."""
    return x @ _constant(x.shape[-1], 1, x.dtype)[:, None]


def mean_over_features(x: np.ndarray) -> np.ndarray:
    """(..., n) -> (..., 1): the mean over the last axis."""
    n = x.shape[-1]
    return x @ _constant(n, 1 / n, x.dtype)[:, None]


def sum_of_products(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(..., n) and (..., n) or (n,) -> (..., 1): the sum of x y over the last axis, without storing x y."""
    if y.ndim == 1:
        return x @ y[:, None]
    return np.vecdot(x.conj(), y)[..., None]    # vecdot conjugates its first argument; conj() undoes that


def mean_of_products(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(..., n) and (..., n) or (n,) -> (..., 1): the mean of x y over the last axis."""
    return sum_of_products(x, y) / x.shape[-1]


def subtract_max(x: np.ndarray) -> np.ndarray:
    """x minus the maximum of each row, so that exp cannot overflow; rows in which all x are -inf stay as they are."""
    dtype = np.result_type(x.dtype, np.float32)
    lowest = float(np.finfo(dtype).min)                     # for a maximum of -inf: -inf - lowest is -inf, not NaN
    maximum = np.maximum(x.real.max(-1, keepdims=True), lowest)
    return np.subtract(x, maximum, dtype=dtype)


def exp_and_sum(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """exp(x - c), and its sum over the last axis; the sum is 1 where all x are -inf, so that softmax gives zeros.

    The constant c is the maximum of each row, which cancels in softmax. If no entry is large enough to overflow, c = 0
    is tried first, and kept if the sum of every row has enough digits. This saves two passes over the scores: 6% of
    "classifier" and 4% of "tiny".
    """
    if x.size and x.real.max() < LARGE:
        y = np.exp(x, dtype=np.result_type(x.dtype, np.float32))
        total = sum_over_features(y)
        if total.real.min() > TINY:
            return y, total
    y = np.exp(subtract_max(x))
    total = sum_over_features(y)
    total += total == 0
    return y, total


def in_blocks_of_rows(function: Callable[..., tuple[np.ndarray, ...]], x: np.ndarray,
                      *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """function(x, *others), a tuple of arrays, for arrays with the same number of rows, computed in blocks of rows.

    The loss of a large vocabulary then needs no temporary arrays of its size: 100 MB of a step of "gpt2-small". If the
    matmuls use several threads, so do the blocks.
    """
    size = max(1, BLOCK // x.shape[-1])
    if len(x) <= size:
        return function(x, *others)
    results = tuple(np.empty((len(x), *part.shape[1:]), part.dtype) for part in function(x[:1], *(y[:1] for y in others)))

    def compute(block):
        for result, part in zip(results, function(x[block], *(y[block] for y in others))):
            result[block] = part

    in_threads(compute, blocks(len(x), size))
    return results


def add_product(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """total += a @ b in blocks of rows.

    The gradient of a large vocabulary then needs no temporary array of its size: 150 MB of a step of "gpt2-small".
    """
    for block in blocks(len(total), max(1, LARGE_PRODUCT // total.shape[-1])):
        total[block] += a[block] @ b


@functools.lru_cache
def _constant(n: int, value: float, dtype: np.dtype) -> np.ndarray:
    array = np.full(n, value, np.result_type(dtype, np.float32))
    array.flags.writeable = False               # it is cached and shared, so it must not be written to
    return array
