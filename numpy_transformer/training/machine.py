"""What makes NumPy quick on this machine: the threads of its matmuls, and memory that is not given back."""

import contextlib
import ctypes
import functools
import mmap
import os
import sys
from pathlib import Path

import numpy as np

FORKS = sys.platform not in ("win32", "darwin")             # where a process can be forked, and its libraries bear it
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
    """Let NumPy's matmuls use `count` threads; how many it was before, 0 where that cannot be set.

    On small matrices two threads are hardly quicker than one, and many times slower when another program wants the
    second core.
    """
    if blas() is None:
        return 0
    get, put = blas()
    before = get()
    put(count)
    return before


def keep_freed_memory():
    """Tell glibc's malloc to keep what a step frees, so that the next step need not fetch it anew, page by page.

    It holds for the whole process, whose memory then does not shrink. Whether there was a glibc to tell.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mmap_threshold, trim_threshold, top_pad, arenas = -3, -1, -2, -8    # names and numbers of malloc.h
        return all([mallopt(mmap_threshold, 2 ** 25), mallopt(trim_threshold, 2 ** 30), mallopt(top_pad, 2 ** 26),
                    mallopt(arenas, 1)])        # one for all threads, so that each finds what another has freed
    return False


def shared_copy(array):
    """A copy in memory that the processes forked from this one share with it."""
    copy = np.ndarray(array.shape, array.dtype, mmap.mmap(-1, max(array.nbytes, 1)))
    copy[...] = array
    return copy


def is_shared(array):
    """Whether it is a shared_copy, or a view of one."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def cores():
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
