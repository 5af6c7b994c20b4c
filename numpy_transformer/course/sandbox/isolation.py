"""What this machine offers to keep students' programs apart from everything else."""

import contextlib
import functools
import json
import os
import platform
import sys
from dataclasses import dataclass

from . import bubblewrap
from .inside import seccomp
from .inside.worker import OUTPUT
from .protocol import read_array, read_records, request
from .scratch import scratch
from .server import Server
from .visible_files import ENVIRONMENT, INSIDE, ISOLATED, visible

ONLY = "NUMPY_TRANSFORMER_SANDBOX"             # environment variable: the only layer to try
# A task that every layer that works must refuse in all four ways.
PROBE = b"""
import os, socket

def probe(path):
    refused = 0
    for attempt in (lambda: open(path), lambda: os.listdir("/proc"), os.fork, socket.socket):
        try:
            attempt()
        except OSError:
            refused += 1
    return refused
"""
REMEDY = "install bubblewrap with your system's package manager, or with pip install numpy-transformer[sandbox]"


@dataclass(frozen=True)
class Layer:
    """One way to run students' programs, whether it works on this machine, and a sentence that says so."""

    name: str                                   # "bubblewrap", "Landlock" or "none"
    works: bool
    sentence: str
    way: tuple = ()                             # to start bubblewrap

    @contextlib.contextmanager
    def server(self, stop=lambda: False):
        """Starts a worker in this layer, for one student's files and tasks, and ends it afterwards."""
        with contextlib.ExitStack() as stack:
            if self.name == "bubblewrap":
                command = bubblewrap.command(self.way)
                setup = {"numpy": bubblewrap.PACKAGES, "scratch": bubblewrap.SCRATCH, "landlock": []}
                environment = None
            else:
                folder, files = str(stack.enter_context(scratch())), visible()
                command = (files.python, *ISOLATED, str(INSIDE / "supervisor.py"))
                setup = {"numpy": os.path.dirname(files.numpy[0]), "scratch": folder, "landlock": files.entries(),
                         "parent": os.getpid()}
                environment = {**ENVIRONMENT, "HOME": folder, "TMPDIR": f"{folder}/work"}
            yield stack.enter_context(contextlib.closing(Server(command, setup, stop, environment)))


NO_LAYER = Layer("none", False, "without a sandbox a student's program can read, change and stop whatever you can; "
                                "--trust-students accepts that")


def missing():
    """Returns a sentence if no sandbox can work on this system, else ""."""
    if sys.platform != "linux":
        system = {"Darwin": "macOS"}.get(platform.system(), platform.system())
        return f"{system} has no sandbox for students' programs; grade on Linux or in a container"
    if platform.machine() not in seccomp.ARCHITECTURES:
        return f"the system calls of this processor, {platform.machine()}, are not known; use x86_64 or aarch64"
    return ""


def layers():
    """Returns a Layer for each way to run students' programs, the strongest first. Tries each of them once."""
    return [*map(find_isolation, FIND), NO_LAYER]


def best_layer():
    """Returns the strongest layer that works on this machine, or None."""
    return next((layer for layer in map(find_isolation, FIND) if layer.works), None)


@functools.cache
def find_isolation(name):
    """Returns the Layer of this name, which has been tried."""
    only = os.environ.get(ONLY, name)           # so that tests can try each of them
    problem = missing() if only == name else f"{name} was not tried, because {ONLY} is {only}"
    return Layer(name, False, problem) if problem else FIND[name]()


def find_bubblewrap():
    problem = f"bubblewrap is not installed; {REMEDY}"
    for way in (way for program in bubblewrap.programs() for way in bubblewrap.ways(program)):
        complaint = complaint_of(Layer("bubblewrap", True, "", way))
        if not complaint:
            return Layer("bubblewrap", True, "a student's program runs in namespaces of its own; it sees only Python, "
                         "NumPy and its own folder, which is in memory", way)
        problem = (f"bubblewrap is installed, but this system does not let it make namespaces ({complaint}); allow "
                   "user namespaces, or use Landlock")
    return Layer("bubblewrap", False, problem)


def find_landlock():
    complaint = complaint_of(Layer("Landlock", True, ""))
    if complaint:
        return Layer("Landlock", False, f"Landlock does not work here ({complaint}); it needs Linux 5.13 or newer with "
                     "Landlock enabled, and a container that allows it")
    return Layer("Landlock", True, "the kernel lets a student's program open only Python, NumPy and its own folder, and "
                 "make only the system calls of a computation; it can ask whether other files exist, but cannot read "
                 "them")


FIND = {"bubblewrap": find_bubblewrap, "Landlock": find_landlock}


def complaint_of(layer):
    """Runs a program that tries to get out. Returns "" if it runs and does not get out, else what is wrong."""
    job = {"file": "probe.py", "name": "probe", "paths": [], "seconds": 20, "processor": 20, "megabytes": 1024,
           "printed": 500}
    try:
        with layer.server() as server:
            server.send(request({"probe.py": len(PROBE)}, b"", PROBE))
            reply = server.ask(request(job, json.dumps([[[__file__], [], None]]).encode()), 30)
    except OSError as error:
        return str(error)
    if reply is None:
        return "a test program was not run"
    array = read_array(read_records(reply[-1]).get((OUTPUT, 0, 0), b""))
    if array is None or array != 4:
        return " ".join(reply[3].split())[-200:] or "a test program was not kept from other files and processes"
    return ""
