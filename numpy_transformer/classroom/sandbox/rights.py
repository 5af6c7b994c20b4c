"""Drops privileges before student code runs, and hides the grader from it if both belong to the same user."""

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from . import worker

UNUSED_IDS = 14                                 # user ids that systems leave unused, from nobody's (65534) down


def is_root():
    return hasattr(os, "geteuid") and os.geteuid() == 0


def users(count):
    """Returns `count` user ids for running students' programs; None stands for the current user.

    As root, these are nobody and unused ids below it, so that programs that run at the same time cannot affect each
    other. If those users cannot run Python, the programs run as root, and `warnings` says so.
    """
    if not is_root():
        return [None] * count
    import pwd
    try:
        nobody = pwd.getpwnam("nobody").pw_uid
    except KeyError:
        return [None] * count
    only_nobody = [nobody] * count
    separate = [nobody - i % UNUSED_IDS for i in range(count)] if sys.platform == "linux" else only_nobody
    for ids in (separate, only_nobody):
        if all(map(can_run, set(ids))):
            return ids
    return [None] * count


def can_run(user):
    """Returns True if this user can own a temporary folder and can read Python, NumPy and the worker."""
    code = "import sys; open(sys.argv[1]).close(); sys.path.append(sys.argv[2]); import numpy"
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, user, user)
        with contextlib.suppress(OSError, subprocess.SubprocessError):      # cannot be started as that user: False
            command = [sys.executable, "-I", "-B", "-c", code, worker.__file__, Path(np.__file__).parents[1]]
            return subprocess.run(command, cwd=folder, env={"OPENBLAS_NUM_THREADS": "1"}, timeout=60, user=user,
                                  group=user, extra_groups=[], capture_output=True).returncode == 0
    return False


@contextlib.contextmanager
def private():
    """Keeps other programs of the same user from reading this process's memory and environment (Linux only)."""
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
    """Yields sentences about protection that is missing on this system."""
    if is_root() and ids[0] is None:
        yield ("students' programs run as root, because the user nobody cannot read the Python installation; grade as "
               "an ordinary user or in a container")
    if os.name == "nt":
        yield "only the time limit works on this system: memory, processor time and files are not limited"
    if sys.platform == "darwin":
        yield "memory is not limited on this system; the limits on time and files work"
