"""Settings of this process: how malloc treats freed memory; how much memory is available; and a closed output."""

import contextlib
import ctypes
import os
import sys
from pathlib import Path

CLOSED_PIPE = 141                               # what a shell reports for a program that writes to a closed pipe


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


def drop_output():
    """Discards what is still buffered for standard output, so that Python does not try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
