"""Memory: what malloc does with freed memory, and how much memory is available."""

import contextlib
import ctypes
from pathlib import Path


def keep_freed_memory():
    """Makes glibc's malloc keep freed memory, so that the next step does not request it from the system again.

    The setting applies to the whole process, whose memory then does not shrink. Returns True if glibc accepted it.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mmap_threshold, trim_threshold, top_pad, arenas = -3, -1, -2, -8    # names and numbers of malloc.h
        return all([mallopt(mmap_threshold, 2 ** 25), mallopt(trim_threshold, 2 ** 30), mallopt(top_pad, 2 ** 26),
                    mallopt(arenas, 1)])        # one arena, so that each thread can reuse memory that another has freed
    return False


def available_memory():
    """Returns the bytes of memory that new processes can use without swapping, or None if the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None
