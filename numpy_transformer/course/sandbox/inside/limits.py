"""Limits of a student's process, and what happens on an import of anything but NumPy and the standard library.

The operating system enforces the limits on every program. The finder of imports only explains; what a student's program
must not import is kept from it by the sandbox.
"""

import contextlib
import importlib.machinery
import signal
import sys
import types

FILE_BYTES = 4 << 20                            # the largest file that a student's program may write
# Packages that are often imported, but that no exercise needs: importing them is allowed, using them is not.
SPARE = ("matplotlib", "seaborn", "pandas", "sklearn", "tqdm", "IPython", "pytest", "google")


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


def are_enforced():
    """Returns True if this process has a limit of memory that the system enforces. macOS and Windows enforce none."""
    if sys.platform != "linux":
        return False
    import resource
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


class LastFinder:
    """The last of the finders: gets the imports of what is neither Python's own nor NumPy's."""

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in SPARE:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if top not in sys.stdlib_module_names and top != "numpy":
            raise ModuleNotFoundError(f"{name} cannot be imported in an exercise; use only NumPy", name=name)

    def create_module(self, spec):
        return SpareModule(spec.name)

    def exec_module(self, module):
        pass


class SpareModule(types.ModuleType):
    """Stands for a package that is not there. Its names can be imported, but using them raises an error."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Spare(f"{self.__name__}.{name}")


class Spare:
    """A name of a package that is not there."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Spare(f"{self.name}.{name}")

    def __call__(self, *arguments, **options):
        raise RuntimeError(f"{self.name} is not available while an exercise is checked; use only NumPy")
