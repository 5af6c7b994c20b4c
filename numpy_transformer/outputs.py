"""Where results are written: checked before the work begins, so that nothing is computed in vain and nothing else is harmed.

A result replaces the file at its path as a whole. Whatever is not a regular file cannot be replaced in this way: opening a
named pipe waits for a reader, a device keeps nothing, and a socket cannot be opened.
"""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from .types import PathLike

KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"),
         (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"))
STREAMS = "/dev/fd", "/proc"                    # names in these folders stand for what a process has open


def check_output(path: PathLike) -> Path:
    """Returns the Path of a file that will be written. An existing file is not changed.

    Raises: ValueError if it is something other than a regular file or a link to one, which may be new, or if its folder
        cannot be written to
    """
    try:
        check_regular(path)
        file = Path(os.path.realpath(path))
        probe = file.with_name(f".{file.name}.{os.getpid()}")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"cannot write {str(path)!r}: {error.strerror}; name a file in an existing folder that you can "
                         "write to") from error
    return Path(path)


def check_regular(path: PathLike) -> None:
    """Raises ValueError if something other than a regular file is at this path, or a link leads to it."""
    kind = kind_of_path(path)
    if kind:
        raise ValueError(f"cannot write {str(path)!r}: it is {kind}, but a result replaces a regular file; name a file in "
                         "an existing folder")


def check_folder_kind(path: PathLike) -> None:
    """Raises ValueError if something other than a folder is at the path of a folder that will be written."""
    if os.path.lexists(path) and not os.path.isdir(path):
        raise ValueError(f"cannot write to the folder {str(path)!r}: it is {kind_of_path(path) or 'a file'}; name a folder, "
                         "new or existing")


def kind_of_path(path: PathLike) -> str:
    """Returns what lies at this path, such as "a folder"; "" for a regular file, a link to one, or nothing."""
    if stands_for_stream(path):
        return "a stream that this process has open"
    try:
        mode = os.stat(path or ".").st_mode
    except (OSError, ValueError):               # nothing is there, or it cannot be looked at
        return ""
    return next((kind for test, kind in KINDS if test(mode)), "")


def stands_for_stream(path: PathLike) -> bool:
    """Returns True for /dev/stdout, /proc/self/fd/1 and the like, even if that is redirected to a file."""
    if os.name != "posix":
        return False
    places = [os.path.abspath(path)]
    for _ in range(8):
        if not os.path.islink(places[-1]):
            break
        places.append(os.path.join(os.path.dirname(places[-1]), os.readlink(places[-1])))
    folders = [os.path.dirname(place) for place in places]
    return any(os.path.commonpath([folder, stream]) == stream for stream in STREAMS
               for folder in (*folders, *map(os.path.realpath, folders)))


def write_output(path: PathLike, content: bytes) -> Path:
    """Writes a file, which appears, or replaces an existing one, only when it is complete. Returns its path.

    Raises: ValueError as check_output does, OSError if the disk is full
    """
    check_regular(path)
    file = Path(os.path.realpath(path))
    part = file.with_name(file.name + ".part")
    try:
        with open_new(part) as new:
            new.write(content)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(f"cannot write {str(path)!r}: {error.strerror or error}; free some space, or name another "
                      "file") from error
    return Path(path)


def open_new(path: Path) -> BinaryIO:
    """Opens a new file for writing in place of whatever has this name: "x" follows no link and opens no pipe."""
    path.unlink(missing_ok=True)
    return open(path, "xb")
