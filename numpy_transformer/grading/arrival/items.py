"""Files and folders of a delivery, on the disk or in an archive. No link is followed, nothing is written or unpacked."""

import contextlib
import os
import re
import stat
from dataclasses import dataclass, field
from datetime import datetime, timezone

from .text import file_name, one_line

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
        name : its own name
        where : the names that lead to it, such as "Kim.zip/ex02.py"
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

    def children(self):
        """Returns the items in a folder, sorted by name, without those that no student wrote. Raises Unreadable."""
        items = [item for item in self.listed() if not IGNORED.fullmatch(item.name)]
        return sorted(items, key=lambda item: item.name)

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
    """A file or folder on the disk."""

    path: str = ""

    def listed(self):
        if self.problem:
            raise Unreadable(self.problem)
        try:
            with os.scandir(self.path) as entries:
                items = [on_disk(entry, self.where) for entry in entries]
        except OSError as error:
            raise Unreadable(cannot_read(error)) from error
        return [] if any(item.name == "pyvenv.cfg" for item in items) else items      # a virtual environment

    @contextlib.contextmanager
    def open(self):
        """Opens a regular file. Never follows a link and never waits for a pipe."""
        flags = [getattr(os, f"O_{name}", 0) for name in ("RDONLY", "NOFOLLOW", "NONBLOCK", "BINARY", "CLOEXEC")]
        try:
            descriptor = os.open(self.path, sum(flags))
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Unreadable("is not an ordinary file; hand in the file itself")
                yield file
        except OSError as error:
            raise Unreadable(cannot_read(error)) from error


def cannot_read(error):
    return f"cannot be read ({error.strerror or type(error).__name__}); check its permissions"


def on_disk(entry, above=""):
    """Returns the OnDisk of a directory entry."""
    name = file_name(entry.name)
    item = OnDisk(name, f"{above}/{name}" if above else name, path=entry.path)
    try:
        if entry.is_symlink():
            item.problem = A_LINK
        elif entry.is_dir(follow_symlinks=False):
            item.is_folder = True
        else:
            status = entry.stat(follow_symlinks=False)
            item.size = status.st_size
            item.modified = datetime.fromtimestamp(int(status.st_mtime), timezone.utc)
            if not stat.S_ISREG(status.st_mode):
                item.problem = "is a pipe or a device and not a file; hand in the file itself"
    except (OSError, OverflowError, ValueError) as error:
        item.problem = f"cannot be read ({one_line(str(error), 80)})"
    return item


@dataclass
class Folder(Item):
    """A folder in an archive."""

    is_folder: bool = True
    inside: dict = field(default_factory=dict)  # {name: Item}

    def listed(self):
        return [] if "pyvenv.cfg" in self.inside else list(self.inside.values())

    def folder(self, names):
        """Returns the folder with these names below this one, and creates it if needed."""
        below = self
        for name in names:
            item = below.inside.get(name)
            if not isinstance(item, Folder):
                item = below.inside[name] = Folder(name, f"{below.where}/{name}" if below.where else name)
            below = item
        return below
