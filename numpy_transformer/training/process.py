"""Settings of this process: BLAS threads, and how malloc treats freed memory; what it may use, and a closed output."""

import contextlib
import ctypes
import functools
import os
import sys
from pathlib import Path

import numpy as np

CLOSED_PIPE = 141                               # what a shell reports for a program that writes to a closed pipe
NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_",
         "openblas_{}_num_threads")


@functools.cache
def blas():
    """Two functions that get and set the number of threads of NumPy's BLAS library, or None if it has no such functions."""
    package = Path(np.__file__).parent
    for path in [*package.parent.glob("numpy.libs/*openblas*"), *package.glob(".dylibs/*openblas*")]:
        library = ctypes.CDLL(str(path))
        for name in NAMES:
            if hasattr(library, name.format("set")):
                return [getattr(library, name.format(verb)) for verb in ("get", "set")]
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


def keep_freed_memory():
    """Make glibc's malloc keep freed memory, so that the next step does not request it from the system again.

    The setting applies to the whole process, whose memory then does not shrink. Returns True if glibc accepted it.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mmap_threshold, trim_threshold, top_pad, arenas = -3, -1, -2, -8    # names and numbers of malloc.h
        return all([mallopt(mmap_threshold, 2 ** 25), mallopt(trim_threshold, 2 ** 30), mallopt(top_pad, 2 ** 26),
                    mallopt(arenas, 1)])        # one arena, so that each thread can reuse memory that another has freed
    return False


def available_memory():
    """Bytes of memory that new processes can use without swapping, or None if the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def cores():
    """Number of CPU cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def drop_output():
    """Discards what is still buffered for standard output, so that Python does not try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
