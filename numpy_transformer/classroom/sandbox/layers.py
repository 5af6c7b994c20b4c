"""What this machine offers to keep students' programs apart from everything else."""

import contextlib
import functools
import os
import platform
import sys
from dataclasses import dataclass

from . import bubblewrap
from .inside import seccomp
from .server import Server

REMEDY = "install bubblewrap with your system's package manager, or with pip install numpy-transformer[sandbox]"


@dataclass(frozen=True)
class Layer:
    """One way to run students' programs, whether it works on this machine, and a sentence that says so."""

    name: str                                   # "bubblewrap", "Landlock" or "none"
    works: bool
    sentence: str
    program: str = ""                           # of bubblewrap

    @contextlib.contextmanager
    def server(self, stop=lambda: False):
        """Starts a worker in this layer, for the student's files and tasks, and ends it afterwards."""
        setup = {"numpy": bubblewrap.PACKAGES, "scratch": bubblewrap.SCRATCH}
        with contextlib.closing(Server(bubblewrap.command(self.program), setup, stop)) as server:
            yield server


NO_LAYER = Layer("none", False, "without a sandbox a student's program can read, change and stop whatever you can; "
                                "--trust-students accepts that")


def missing():
    """Returns a sentence if no sandbox can work on this system, else ""."""
    if sys.platform != "linux":
        return f"{platform.system()} has no sandbox for students' programs; grade on Linux or in a container"
    if platform.machine() not in seccomp.ARCHITECTURES:
        return f"the system calls of this processor, {platform.machine()}, are not known; use x86_64 or aarch64"
    return ""


@functools.cache
def layers():
    """Returns a Layer for each way to run students' programs, the strongest first. Tries each of them once."""
    return [find_bubblewrap(), NO_LAYER]


def best_layer():
    """Returns the strongest layer that works on this machine, or None."""
    return next((layer for layer in layers() if layer.works), None)


def find_bubblewrap():
    problem = missing()
    if problem:
        return Layer("bubblewrap", False, problem)
    problem = f"bubblewrap is not installed; {REMEDY}"
    for program in bubblewrap.programs():
        complaint = try_layer(Layer("bubblewrap", True, "", program))
        if not complaint:
            return Layer("bubblewrap", True, "bubblewrap works: a student's program runs in namespaces of its own, and "
                         "sees only Python, NumPy and its own folder", program)
        problem = (f"bubblewrap is installed, but this system does not let it make namespaces ({complaint}); allow "
                   "user namespaces, or use Landlock")
    return Layer("bubblewrap", False, problem)


def try_layer(layer):
    """Returns "" if a worker starts in this layer, else why not."""
    try:
        with layer.server():
            return ""
    except OSError as error:
        return str(error)
