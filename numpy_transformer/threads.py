"""Threads: those of NumPy's matmuls, and those of the work between the matmuls."""

import contextlib
import contextvars
import ctypes
import functools
import os
from pathlib import Path

import numpy as np

NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_",
         "openblas_{}_num_threads")
LARGE_MODEL = 2 ** 25                           # weights from which several BLAS threads are better than several workers


@functools.cache
def openblas():
    """The OpenBLAS library that NumPy's package contains, or None."""
    package = Path(np.__file__).parent
    paths = [*package.parent.glob("numpy.libs/*openblas*"), *package.glob(".dylibs/*openblas*")]
    return ctypes.CDLL(str(paths[0])) if paths else None


@functools.cache
def blas():
    """Two functions that get and set the number of threads of NumPy's BLAS library, or None if it has no such functions."""
    for name in NAMES:
        if hasattr(openblas(), name.format("set")):
            return [getattr(openblas(), name.format(verb)) for verb in ("get", "set")]
    with contextlib.suppress(ImportError, IndexError):      # another BLAS library, which threadpoolctl may support
        from threadpoolctl import ThreadpoolController
        library = ThreadpoolController().select(user_api="blas").lib_controllers[0]
        return [library.get_num_threads, library.set_num_threads]


def set_blas_threads(count):
    """Let NumPy's matmuls use `count` threads. Returns the previous number, or 0 if it cannot be set.

    For small matrices, two threads are hardly faster than one, and much slower if another program needs the second core.
    """
    if blas() is None:
        return 0
    get, put = blas()
    before = get()
    put(count)
    return before


@contextlib.contextmanager
def limited_blas_threads(count):
    """Let NumPy's matmuls use `count` threads inside the block; None leaves the number unchanged."""
    before = 0 if count is None else set_blas_threads(count)
    try:
        yield
    finally:
        if before:
            set_blas_threads(before)


def blas_threads():
    """Number of threads that NumPy's matmuls use now; 1 if it is not known."""
    return 1 if blas() is None else blas()[0]()


def cores():
    """Number of CPU cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(function, items, count=None):
    """Returns [function(item) for item in items], computed by up to `count` threads; None: as many as the matmuls use.

    NumPy lets other threads run while it computes. If one of the threads fails, its error is raised when all have ended. A
    function that runs in one of them does not start others.
    """
    items = list(items)
    count = 1 if is_inside.get() else min(count or blas_threads(), len(items))
    if count <= 1:
        return [function(item) for item in items]
    shares = [items[n::count] for n in range(count)]
    results = [None] * len(items)
    futures = [pool(os.getpid()).submit(contextvars.copy_context().run, run_share, function, share)    # contains np.errstate
               for share in shares[1:]]
    try:
        results[::count] = contextvars.copy_context().run(run_share, function, shares[0])
    finally:
        for future in futures:
            future.exception()                  # waits for its end
    for n, future in enumerate(futures, 1):
        results[n::count] = future.result()
    return results


def blocks(n, size):
    """The slices of `size` entries into which n entries are divided; the last one may be shorter."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


is_inside = contextvars.ContextVar("is_inside", default=False)


def run_share(function, items):
    """Returns the results of one thread."""
    is_inside.set(True)
    return [function(item) for item in items]


@functools.cache
def pool(process):
    """Returns the threads of a process; a forked process, whose number is another one, makes its own."""
    from concurrent.futures import ThreadPoolExecutor  # takes as long to import as ten of our own files
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="numpy_transformer")


def start_with_one_thread():
    """Lets matmuls use one thread, because commands multiply small matrices, unless the environment gives a number."""
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        set_blas_threads(1)


def adapt_threads(model):
    """Lets the matmuls of a large model use all cores, unless the environment gives a number; returns the model."""
    if "OPENBLAS_NUM_THREADS" not in os.environ and model.num_parameters() >= LARGE_MODEL:
        set_blas_threads(cores())
    return model
