"""What makes NumPy quick on this machine: the number of BLAS threads, and memory that is kept instead of returned."""

import contextlib
import ctypes
import functools
import os
from pathlib import Path

import numpy as np

NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_",
         "openblas_{}_num_threads")


@functools.cache
def blas():
    """Two functions that get and set the threads of the BLAS that NumPy has loaded; None where none is found."""
    package = Path(np.__file__).parent
    for path in [*package.parent.glob("numpy.libs/*openblas*"), *package.glob(".dylibs/*openblas*")]:
        library = ctypes.CDLL(str(path))
        for name in NAMES:
            if hasattr(library, name.format("set")):
                return [getattr(library, name.format(verb)) for verb in ("get", "set")]
    with contextlib.suppress(ImportError, IndexError):      # another kind of BLAS, which threadpoolctl may know
        from threadpoolctl import ThreadpoolController
        library = ThreadpoolController().select(user_api="blas").lib_controllers[0]
        return [library.get_num_threads, library.set_num_threads]


def set_blas_threads(count):
    """Let NumPy's matmuls use `count` threads. Returns the number before, or 0 if it cannot be set.

    On small matrices two threads are hardly quicker than one, and many times slower when another program needs the
    second core.
    """
    if blas() is None:
        return 0
    get, put = blas()
    before = get()
    put(count)
    return before


@contextlib.contextmanager
def limited_blas_threads(count):
    """Give NumPy's matmuls `count` threads inside the block; None leaves their number unchanged."""
    before = 0 if count is None else set_blas_threads(count)
    try:
        yield
    finally:
        if before:
            set_blas_threads(before)


def keep_freed_memory():
    """Tell glibc's malloc to keep what a step frees, so that the next step need not fetch it anew, page by page.

    The setting holds for the whole process, whose memory then does not shrink. Returns True if glibc accepted it.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mmap_threshold, trim_threshold, top_pad, arenas = -3, -1, -2, -8    # names and numbers of malloc.h
        return all([mallopt(mmap_threshold, 2 ** 25), mallopt(trim_threshold, 2 ** 30), mallopt(top_pad, 2 ** 26),
                    mallopt(arenas, 1)])        # one for all threads, so that each finds what another has freed
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
