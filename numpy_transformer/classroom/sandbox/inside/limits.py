"""Limits of a student's process, and the refusal of imports, with a sentence that says what may be imported.

The operating system enforces the limits on every program. The import blocker only explains; what a student's program
cannot import is kept from it by the sandbox.
"""

import contextlib
import signal
import sys

FILE_BYTES = 4 << 20                            # the largest file that a student's program may write


def set_limits(seconds, megabytes):
    """Limits processor time, memory, files and processes, where the system supports it."""
    if hasattr(signal, "alarm"):
        signal.alarm(2 * seconds + 2)           # in case the process that would stop this one is gone
    try:
        import resource
    except ImportError:                         # Windows
        return
    limits = {"CPU": (seconds, seconds + 1), "AS": (megabytes << 20,) * 2, "FSIZE": (FILE_BYTES,) * 2,
              "CORE": (0, 0), "NOFILE": (64, 64), "MEMLOCK": (0, 0), "MSGQUEUE": (0, 0)}
    if sys.platform == "linux":                 # this counts threads too, which NumPy may need on other systems
        limits["NPROC"] = (0, 0)
    for name, values in limits.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):      # not every system has every limit
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), values)


class ImportBlocker:
    """The last of the finders: explains that a module which is neither NumPy nor Python's own cannot be imported."""

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top != "numpy":
            raise ModuleNotFoundError(f"{name} cannot be imported in an exercise; use only NumPy", name=name)
