"""Who runs the students' programs where the grader is root, and what they can see of it where they are one user."""

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from . import worker

APART = 14                                      # ids below nobody's own (65534) that systems leave unused


def is_root():
    return hasattr(os, "geteuid") and os.geteuid() == 0


def users(count):
    """The ids of `count` users who run students' programs: None is whoever runs this.

    root takes nobody, and unused ids below, so that programs at the same time are strangers to each other.
    """
    if not is_root():
        return [None] * count
    import pwd
    try:
        nobody = pwd.getpwnam("nobody").pw_uid
    except KeyError:
        return [None] * count
    several = [nobody - i % APART for i in range(count)] if sys.platform == "linux" else [nobody] * count
    return next((ids for ids in (several, [nobody] * count) if all(map(can_run, set(ids)))), [None] * count)


def can_run(user):
    """Whether Python, NumPy and the worker can be read by this user, who may own a temporary folder."""
    code = "import sys; open(sys.argv[1]).close(); sys.path.append(sys.argv[2]); import numpy"
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, user, user)
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = [sys.executable, "-I", "-B", "-c", code, worker.__file__, Path(np.__file__).parents[1]]
            return subprocess.run(command, cwd=folder, env={"OPENBLAS_NUM_THREADS": "1"}, timeout=60, user=user,
                                  group=user, extra_groups=[], capture_output=True).returncode == 0
    return False


@contextlib.contextmanager
def private():
    """While entered, other programs of the same user cannot read this process's memory and environment (Linux)."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    before = prctl(3, 0, 0, 0, 0) if prctl else 0           # PR_GET_DUMPABLE
    if prctl:
        prctl(4, 0, 0, 0, 0)                                # PR_SET_DUMPABLE
    try:
        yield
    finally:
        if prctl:
            prctl(4, before, 0, 0, 0)


def warnings(ids):
    """Sentences on what does not protect here."""
    if is_root() and ids[0] is None:
        yield ("students' programs run as root: Python lies where the user nobody cannot read it; "
               "grade as an ordinary user, or in a container")
    if os.name == "nt":
        yield "this system limits neither memory nor processor time nor files: only the time limit holds"
    if sys.platform == "darwin":
        yield "this system does not limit memory: only the limits on time and files hold"
