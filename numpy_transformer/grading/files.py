"""Opens the grader's own files safely: regular files only, no links, and never half-written."""

import contextlib
import errno
import os
import stat
import sys
import tempfile
from pathlib import Path

try:
    import fcntl
except ImportError:                             # Windows
    fcntl = None

PRIVATE = 0o600                                 # only the teacher reads grades, and the seed of the cases
KINDS = ((stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a named pipe"),
         (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"))


def check_output(path):
    """Raises ValueError if a file cannot be written at this path, or something other than a regular file is there."""
    path = Path(path)
    try:
        kind = kind_of_path(path)
        if kind:
            raise OSError(errno.EEXIST, f"it is {kind}")
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise ValueError(f"cannot write {str(path)!r}: {error.strerror}; name a file in an existing folder") from error
    return path


def check_output_folder(path):
    """Raises ValueError if no files can be written to this folder, which may be new, in an existing folder."""
    try:
        kind = kind_of_path(path)
        if not kind and os.path.lexists(path):
            raise OSError(errno.ENOTDIR, "it is a file")
        if kind not in ("", "a folder"):
            raise OSError(errno.ENOTDIR, f"it is {kind}")
        tempfile.TemporaryFile(dir=path if kind else Path(path).parent).close()
    except OSError as error:
        raise ValueError(f"cannot write to the folder {str(path)!r}: {error.strerror}; name a folder, new or existing, in "
                         "an existing folder") from error


def kind_of_path(path):
    """Returns what lies at this path, such as "a link", or "" if it is a regular file or nothing."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return ""
    kinds = [name for test, name in KINDS if test(mode)]
    return kinds[0] if kinds else ""


def replace_file(path, write, backup=True, encoding="utf-8", mode=PRIVATE):
    """Writes a file completely before it replaces an existing one, which is kept as .bak if `backup` is True.

    Parameters:
        path : path of the file
        write : function (file) that writes the contents
        encoding : such as "utf-8-sig"; None for a binary file
        mode : who may read and write the file
    Raises: ValueError if something other than a regular file is at the path; OSError with the path if it cannot be written.
    """
    path = check_output(path)
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    text = {"mode": "xb"} if encoding is None else {"mode": "x", "encoding": encoding, "newline": ""}
    try:                                        # "x" follows no link and opens no pipe
        with open(new, **text, opener=lambda name, flags: os.open(name, flags, mode)) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if backup and path.exists():
            os.replace(path, path.with_name(path.name + ".bak"))
        os.replace(new, path)
    except OSError as error:                    # a full disk does not say which file it had no room for
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        new.unlink(missing_ok=True)
    return path


def open_regular(path, flags):
    """Opens a file without following a link or waiting for a pipe. Returns a descriptor.

    Raises: ValueError if it is not a regular file; OSError if it cannot be opened.
    """
    flags |= sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "BINARY", "CLOEXEC"))
    kind = kind_of_path(path)
    if kind:
        raise ValueError(f"{path} is {kind}, not a file; move it away")
    descriptor = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is not a file; move it away")
    return descriptor


def lock(descriptor):
    """Returns False if another process has locked this file. The lock lasts until the file is closed."""
    try:
        if fcntl:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError as error:                    # a file system without locks is used without one
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
    return True


def state_folder():
    """Returns the folder in which the user's programs keep their state. It is created if it is missing."""
    if os.environ.get("XDG_STATE_HOME"):
        base = Path(os.environ["XDG_STATE_HOME"])
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    elif os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path.home() / ".local" / "state"
    folder = base / "numpy-transformer"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def read_or_make_key():
    """Returns the key that authenticates this user's journals. It is drawn at the first use.

    Raises: ValueError if the key cannot be read or written.
    """
    try:
        path = state_folder() / "journal.key"
        if not path.exists():
            make_key(path)
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            key = file.read(64)
    except (OSError, RuntimeError) as error:    # Path.home raises RuntimeError
        raise ValueError(f"the journal's key cannot be kept ({error}); set XDG_STATE_HOME to a folder of your own"
                         ) from error
    if len(key) != 32:
        raise ValueError(f"{path} is damaged; delete it, and a new key is drawn")
    return key


def make_key(path):
    """Writes a new key, unless another process has done so in the meantime."""
    descriptor, new = tempfile.mkstemp(dir=path.parent)     # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(32))
        with contextlib.suppress(FileExistsError):
            os.link(new, path)                  # the key appears only when it is complete
    finally:
        os.unlink(new)
