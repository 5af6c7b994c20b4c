"""Applies a model to several batches at the same time, one on each core."""

import copy

from ..module import is_module, is_parameter
from ..threads import blas, cores, in_threads, limited_blas_threads


def in_parallel(function, model, batches, threads=None):
    """Returns [function(model, *inputs) for inputs in batches]; the model must be in eval mode.

    Each thread computes whole batches with a view of the model and one BLAS thread, so that the work between the matmuls
    uses all cores too. With `threads` = None there are as many threads as cores, or one if the BLAS threads cannot be
    limited.
    """
    batches = list(batches)
    count = min(threads or cores(), len(batches))
    if count <= 1 or blas() is None:
        return [function(model, *inputs) for inputs in batches]
    models = [model, *(view_of(model) for _ in range(1, count))]
    with limited_blas_threads(1):
        return in_threads(lambda n: function(models[n % count], *batches[n]), range(len(batches)), count)


def view_of(model):
    """Returns a copy of a model with the same parameters and tables, in which a forward pass leaves the model unchanged."""
    copies = {}

    def view(part):
        if isinstance(part, (list, tuple)):
            return type(part)(map(view, part))
        if is_parameter(part) or not is_module(part):
            return part
        if id(part) not in copies:
            copies[id(part)] = copy.copy(part)
            vars(copies[id(part)]).update({name: view(value) for name, value in vars(part).items()})
        return copies[id(part)]

    return view(model)
