"""What a student's program may not do, set from within its process before any line of it runs; for `worker.py` alone.

Limits of the system hold for every program. The rest stops accidents and simple tricks; it is no sandbox: code in the
same process can get round it.
"""

import contextlib
import os
import signal
import sys

BLOCKED = ("numpy_transformer", "lessons", "torch", "jax", "tensorflow", "scipy", "autograd")
LOOKS = ("open", "os.listdir", "os.scandir")
CHANGES = ("os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.truncate", "os.utime", "os.chmod")
HARMLESS = ("os.putenv", "os.unsetenv", "os.walk", "os.fwalk")
REFUSED = ("os.", "resource.", "socket.", "subprocess.", "ctypes.dlopen", "ctypes.dlsym", "ctypes.call_function")


def limit(seconds, megabytes):
    """Processor time, memory, size of a file and no further processes, where the system can do that."""
    if hasattr(signal, "alarm"):
        signal.alarm(2 * seconds + 2)           # should whoever waits for this process be gone
    try:
        import resource
    except ImportError:                         # Windows
        return
    limits = {"CPU": (seconds, seconds + 1), "AS": (megabytes << 20,) * 2, "FSIZE": (4 << 20,) * 2, "CORE": (0, 0)}
    if sys.platform == "linux":                 # threads count; elsewhere NumPy itself may need some
        limits["NPROC"] = (0, 0)
    for name, values in limits.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), values)


class Blocker:
    """Refuses the imports that would solve an exercise."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ImportError(f"{name} cannot be imported in an exercise: write it with NumPy alone")


def guard(readable, secret):
    """An audit hook: no files outside of the current folder, no other process, no network.

    Parameters:
        readable : folders from which Python and its packages load; the folder `secret` below them stays closed
    """
    here = os.getcwd()
    own, readable, secret = (here, os.devnull), tuple(readable), (secret,)
    looks, changes, harmless, refused, writing = frozenset(LOOKS), frozenset(CHANGES), frozenset(HARMLESS), REFUSED, (
        os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def below(path, folders):
        return any(path == folder or path.startswith(folder + "/") for folder in folders)

    def plain(path):                            # without os.path, whose functions a program can replace
        parts = []
        for part in (path if path[:1] == "/" else f"{here}/{path}").split("/"):
            if part == "..":
                del parts[-1:]
            elif part not in ("", "."):
                parts.append(part)
        return "/" + "/".join(parts)

    def look(event, path, writes):
        path = b"." if path is None else path
        text = path.decode(errors="surrogateescape") if type(path) is bytes else path
        whole = plain(text) if type(text) is str else "/"
        if not below(whole, own) and (writes or not below(whole, readable) or below(whole, secret)):
            raise PermissionError(f"{event} of {whole.rpartition('/')[2]!r} is refused: an exercise needs no file "
                                  "outside of its own folder")

    def hook(event, arguments):
        if event in looks:
            if type(arguments[0]) is not int:
                look(event, arguments[0], event == "open" and arguments[2] & writing)
        elif event in changes:
            for path in arguments[:1 + (event == "os.rename")]:
                look(event, path, True)
        elif event.startswith(refused) and event not in harmless:
            raise PermissionError(f"{event} is refused: an exercise needs no other process and no network")

    sys.addaudithook(hook)
