"""Inference on several cores: each thread computes some of the batches, or some of the rows of a batch.

Splitting the batch is better than splitting each matmul, because the work between the matmuls then uses all cores too.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..module import Module, ThisModule, is_module, is_parameter
from ..threads import blas, blas_threads, cores, in_threads, limited_blas_threads

WORTHWHILE = 10 ** 9                            # tokens times parameters from which threads are worthwhile


def over_rows(function: Callable[..., np.ndarray], model: Module, ids: np.ndarray,
              mask: np.ndarray | None = None) -> np.ndarray:
    """Returns function(model, ids, mask) for ids (B, T), computed by as many threads as the matmuls use."""
    count = min(blas_threads(), len(ids)) if np.ndim(ids) == 2 else 1
    if count <= 1 or np.size(ids) * model.num_parameters() < WORTHWHILE:
        return function(model, ids, mask)
    masks = [None] * count if mask is None else np.array_split(mask, count)
    return np.concatenate(in_parallel(function, model, zip(np.array_split(ids, count), masks), count))


def in_parallel(function: Callable[..., Any], model: Module, batches: Iterable[Sequence[Any]],
                threads: int | None = None) -> list[Any]:
    """Returns [function(model, *inputs) for inputs in batches]; the model must be in eval mode.

    Each thread computes whole batches with a view of the model and one BLAS thread. With `threads` = None there are as
    many threads as cores, or one if the BLAS threads cannot be limited.
    """
    batches = list(batches)
    count = min(threads or cores(), len(batches))
    if count <= 1 or blas() is None:
        return [function(model, *inputs) for inputs in batches]
    views = [view_of(model) for _ in range(count)]
    with limited_blas_threads(1):
        return in_threads(lambda n: function(views[n % count], *batches[n]), range(len(batches)), count)


def view_of(model: ThisModule) -> ThisModule:
    """Returns a copy of a model with the same parameters and tables, in which a forward pass leaves the model unchanged."""
    copies = {}

    def view(part):
        if type(part) in (list, tuple):
            return type(part)(map(view, part))
        if is_parameter(part) or not is_module(part):
            return part
        if id(part) not in copies:
            copies[id(part)] = copy.copy(part)
            vars(copies[id(part)]).update({name: view(value) for name, value in vars(part).items()})
        return copies[id(part)]

    return view(model)
