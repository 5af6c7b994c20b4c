"""Restricts a student's program. `worker.py` applies the restrictions in its own process before the program starts.

The operating system enforces its limits on every program. The import blocker and the audit hook only stop accidents and
simple tricks. They are not a sandbox, because code in the same process can circumvent them.
"""

import contextlib
import os
import signal
import sys

BLOCKED = ("numpy_transformer", "lessons", "torch", "jax", "tensorflow", "scipy", "autograd")
READS = ("open", "os.listdir", "os.scandir")
WRITES = ("os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.truncate", "os.utime", "os.chmod")
HARMLESS = ("os.putenv", "os.unsetenv", "os.walk", "os.fwalk")
REFUSED = ("os.", "resource.", "socket.", "subprocess.", "ctypes.dlopen", "ctypes.dlsym", "ctypes.call_function")


def set_limits(seconds, megabytes):
    """Limits processor time, memory and file size, and forbids new processes, where the system supports it."""
    if hasattr(signal, "alarm"):
        signal.alarm(2 * seconds + 2)           # in case the grader, which would stop this process, is gone
    try:
        import resource
    except ImportError:                         # Windows
        return
    limits = {"CPU": (seconds, seconds + 1), "AS": (megabytes << 20,) * 2, "FSIZE": (4 << 20,) * 2, "CORE": (0, 0)}
    if sys.platform == "linux":                 # this counts threads too, which NumPy may need on other systems
        limits["NPROC"] = (0, 0)
    for name, values in limits.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):      # not every system has every limit
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), values)


class ImportBlocker:
    """Refuses imports of packages that would solve an exercise."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ImportError(f"{name} cannot be imported in an exercise; use only NumPy")


def install_audit_hook(readable, secret):
    """Installs an audit hook that refuses files outside the current folder, other processes and the network.

    Parameters:
        readable : folders from which Python and its packages are loaded; files there may be read
        secret : a folder inside them that stays closed
    """
    here = os.getcwd()
    own_paths, readable, secret = (here, os.devnull), tuple(readable), (secret,)
    # Copies in the closure, because a program could replace the module's own names.
    reads, writes, harmless, refused = frozenset(READS), frozenset(WRITES), frozenset(HARMLESS), REFUSED
    write_flags = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

    def below(path, folders):
        return any(path == folder or path.startswith(folder + "/") for folder in folders)

    def normalized(path):                       # without os.path, whose functions a program can replace
        parts = []
        for part in (path if path[:1] == "/" else f"{here}/{path}").split("/"):
            if part == "..":
                del parts[-1:]
            elif part not in ("", "."):
                parts.append(part)
        return "/" + "/".join(parts)

    def check_path(event, path, writing):
        path = b"." if path is None else path
        text = path.decode(errors="surrogateescape") if type(path) is bytes else path
        whole = normalized(text) if type(text) is str else "/"
        may_read = below(whole, readable) and not below(whole, secret)
        if not below(whole, own_paths) and (writing or not may_read):
            raise PermissionError(f"{event} of {whole.rpartition('/')[2]!r} is refused: an exercise needs no files "
                                  "outside its own folder")

    def hook(event, arguments):
        if event in reads:
            if type(arguments[0]) is not int:   # a descriptor, which has been checked when it was opened
                check_path(event, arguments[0], event == "open" and arguments[2] & write_flags)
        elif event in writes:
            for path in arguments[:2] if event == "os.rename" else arguments[:1]:
                check_path(event, path, True)
        elif event.startswith(refused) and event not in harmless:
            raise PermissionError(f"{event} is refused: an exercise needs no other process and no network")

    sys.addaudithook(hook)
