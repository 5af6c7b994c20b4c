"""How many threads the matmuls of a command use: one for small models, all cores for large ones."""

import os

from ..threads import LARGE_MODEL, cores, set_blas_threads


def start_with_one():
    """Lets matmuls use one thread, because the commands multiply small matrices, unless the environment gives a number."""
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        set_blas_threads(1)


def adapt_to(model):
    """Lets the matmuls of a large model use all cores, unless the environment gives a number; returns the model."""
    if "OPENBLAS_NUM_THREADS" not in os.environ and model.num_parameters() >= LARGE_MODEL:
        set_blas_threads(cores())
    return model
