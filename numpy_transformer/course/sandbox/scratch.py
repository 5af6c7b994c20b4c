"""Temporary folders for students' programs, which are deleted in whatever state they were left."""

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

PREFIX, NEW_PREFIX = "exercise-", "new-exercise-"           # of a folder in use, and of one that is not locked yet
OLD = 60                                        # seconds after which a new folder would have been locked


@contextlib.contextmanager
def scratch():
    """Makes a folder that only this user can enter, and deletes it afterwards. It is locked as long as it is used."""
    sweep()
    new = Path(tempfile.mkdtemp(prefix=NEW_PREFIX)).resolve()       # mode 0700
    lock = locked(new)
    folder = new.rename(new.with_name(PREFIX + new.name.removeprefix(NEW_PREFIX)))
    try:
        yield folder
    finally:
        remove(folder)
        if lock is not None:
            os.close(lock)


def locked(folder):
    """Returns a descriptor that locks this folder, or None if another process has locked it or it cannot be locked."""
    try:
        import fcntl
        descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    except (ImportError, OSError):              # Windows
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    except OSError:
        os.close(descriptor)
        return None


@functools.cache
def sweep():
    """Deletes, once in each process, the folders that killed graders of this user have left."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        folders = [path for prefix in (PREFIX, NEW_PREFIX) for path in Path(tempfile.gettempdir()).glob(f"{prefix}*")]
        for folder in folders:
            with contextlib.suppress(OSError):
                status = folder.lstat()
                is_left = folder.name.startswith(PREFIX) or status.st_mtime < time.time() - OLD
                if status.st_uid == os.geteuid() and is_left:
                    lock = locked(folder)
                    if lock is not None:
                        remove(folder)
                        os.close(lock)


def remove(folder):
    """Deletes the folder, whatever the student's program has left in it."""
    for i in range(5):
        time.sleep(0.02 * i)                    # after the first try, for a process that is just ending
        if shutil.which("rm"):                  # handles deep nesting; rmtree needs a file descriptor for each level
            subprocess.run(["rm", "-rf", str(folder)], stderr=subprocess.DEVNULL)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return
        unlock(folder)


def unlock(folder):
    """Restores the permissions of the folder and those below it, from the top down."""
    with contextlib.suppress(OSError, RecursionError):      # as far as possible; what is left is tried once more
        os.chmod(folder, 0o700)
        for path, folders, _ in os.walk(folder):
            for item in (os.path.join(path, name) for name in folders):
                if not os.path.islink(item):
                    os.chmod(item, 0o700)
