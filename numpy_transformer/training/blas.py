"""How many threads NumPy's matmuls use."""

import ctypes
from pathlib import Path

import numpy as np

SETTERS = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads64_",
           "openblas_set_num_threads")


def set_blas_threads(count):
    """Let the OpenBLAS that NumPy brought along use `count` threads; whether one was found.

    On small matrices two threads are hardly quicker than one, and many times slower when another
    program wants the second core.
    """
    package = Path(np.__file__).parent
    for path in [*package.parent.glob("numpy.libs/*openblas*"), *package.glob(".dylibs/*openblas*")]:
        library = ctypes.CDLL(str(path))
        for name in SETTERS:
            if hasattr(library, name):
                getattr(library, name)(ctypes.c_int(count))
                return True
    return False
