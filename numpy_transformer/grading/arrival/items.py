"""Files and folders of a delivery, on the disk or in an archive. No link is followed, nothing is written or unpacked.

A folder on the disk may change while it is read. So each name on the way from the folder of the class to a file is
opened in the folder before it, and refused if it has become a link.
"""

import contextlib
import errno
import os
import re
import stat
from dataclasses import dataclass, field
from datetime import datetime, timezone

from ...file_checks import one_line
from .text import file_name, plausible

LARGEST = 1 << 20                               # bytes of a student's Python file
IGNORED = re.compile(r"__(?!init__\.py$).*|\.(git|svn|hg|venv|idea|vscode|ipynb_checkpoints|DS_Store|_.*|.*_cache)|\._.*|"
                     r".*\.(egg|dist)-info|site-packages|node_modules|Thumbs\.db|desktop\.ini|~\$.*|.*\.sw[po]|.*~", re.I)
A_LINK = "is a link, which is not followed; hand in the file itself"


class Unreadable(ValueError):
    """What is wrong with something handed in, as the end of a sentence that starts with its name."""


@dataclass
class Item:
    """A file or a folder.

    Parameters:
        name : its own name, as people read it
        where : the names that lead to it, such as "Kim.zip/ex02.py"
        key : its own name as the disk or the archive has it, which no other item of the folder has; "" for the same as `name`
        modified : the time that the disk or the archive gives, with a time zone, or None
        size : bytes of a file, as far as the disk or the archive tells the truth
        problem : why it cannot be read, "" if nothing is known yet
    """

    name: str
    where: str
    is_folder: bool = False
    modified: datetime | None = None
    size: int = 0
    problem: str = ""
    key: str = ""

    def __post_init__(self):
        self.key = self.key or self.name

    def children(self):
        """Returns the items in a folder, sorted by name, without those that no student wrote. Raises Unreadable."""
        items = [item for item in self.listed() if not IGNORED.fullmatch(item.name)]
        return sorted(items, key=lambda item: (item.name, item.key))

    def child(self, key):
        """Returns the item with this key in a folder. Raises Unreadable."""
        for item in self.listed():
            if item.key == key:
                return item
        raise Unreadable("is no longer there")

    def read(self, most=LARGEST):
        """Returns the bytes of a file. Raises Unreadable, also if it holds more than `most` bytes."""
        if self.problem:
            raise Unreadable(self.problem)
        if self.size > most:
            raise Unreadable(too_large(most))
        with self.open() as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise Unreadable(too_large(most))
        return content


def too_large(most):
    return f"is larger than {most >> 20} MB; hand in only the files with your code"


@dataclass
class OnDisk(Item):
    """A file or folder on the disk.

    Parameters:
        top : path of the folder or file that the teacher named
        names : the names that lead from there to this item
    """

    top: str = ""
    names: tuple = ()

    @property
    def path(self):
        return os.path.join(self.top, *self.names)

    def listed(self):
        if self.problem:
            raise Unreadable(self.problem)
        try:
            with self.opened(FOLDER_FLAGS) as folder, os.scandir(folder) as entries:
                items = [on_disk(entry, self) for entry in entries]
        except OSError as error:
            raise Unreadable(cannot_read(error)) from error
        return [] if any(item.name == "pyvenv.cfg" for item in items) else items      # a virtual environment

    @contextlib.contextmanager
    def open(self):
        """Opens a regular file. Never follows a link and never waits for a pipe."""
        try:
            with self.opened(FILE_FLAGS) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Unreadable("is not an ordinary file; hand in the file itself")
                yield file
        except OSError as error:
            raise Unreadable(cannot_read(error)) from error

    @contextlib.contextmanager
    def opened(self, flags):
        """Yields a descriptor of this item, or its path where the system cannot open a name in a folder that is open."""
        if os.open not in os.supports_dir_fd or os.scandir not in os.supports_fd:       # Windows
            if flags == FOLDER_FLAGS:
                yield self.path
                return
            descriptor = os.open(self.path, flags)
        else:
            descriptor = os.open(self.top, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)       # which the teacher named
            for i, name in enumerate(self.names, 1):
                above = descriptor
                try:
                    descriptor = os.open(name, flags if i == len(self.names) else FOLDER_FLAGS, dir_fd=above)
                finally:
                    os.close(above)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


FILE_FLAGS = sum(getattr(os, f"O_{name}", 0) for name in ("RDONLY", "NOFOLLOW", "NONBLOCK", "BINARY", "CLOEXEC"))
FOLDER_FLAGS = sum(getattr(os, f"O_{name}", 0) for name in ("RDONLY", "NOFOLLOW", "DIRECTORY", "CLOEXEC"))


def cannot_read(error):
    if error.errno in (errno.ELOOP, errno.ENOTDIR):         # it was a file or a folder a moment ago
        return A_LINK
    return f"cannot be read ({error.strerror or type(error).__name__}); check its permissions"


def on_disk(entry, above):
    """Returns the OnDisk of a directory entry in the folder `above`."""
    name = file_name(entry.name)
    item = OnDisk(name, f"{above.where}/{name}" if above.where else name, key=entry.name, top=above.top,
                  names=(*above.names, entry.name))
    try:
        if entry.is_symlink():
            item.problem = A_LINK
        elif entry.is_dir(follow_symlinks=False):
            item.is_folder = True
        else:
            status = entry.stat(follow_symlinks=False)
            item.size = status.st_size
            item.modified = plausible(datetime.fromtimestamp, int(status.st_mtime), timezone.utc)
            if not stat.S_ISREG(status.st_mode):
                item.problem = "is a pipe or a device and not a file; hand in the file itself"
    except (OSError, OverflowError, ValueError) as error:
        item.problem = f"cannot be read ({one_line(str(error), 80)})"
    return item


@dataclass
class Folder(Item):
    """A folder in an archive."""

    is_folder: bool = True
    inside: dict = field(default_factory=dict)  # {key: Item}

    def listed(self):
        return [] if "pyvenv.cfg" in self.inside else list(self.inside.values())

    def folder(self, keys):
        """Returns the folder with these keys below this one, and creates it if needed."""
        below = self
        for key in keys:
            item = below.inside.get(key)
            if not isinstance(item, Folder):
                item = below.inside[key] = Folder(**below.names_of(key))
            below = item
        return below

    def names_of(self, key):
        """Returns the names of an item with this key in this folder, as parameters of an Item."""
        name = file_name(key if len(key) < 256 else f"{key[:99]}...{key[-99:]}")
        return {"name": name, "where": f"{self.where}/{name}" if self.where else name, "key": key}
