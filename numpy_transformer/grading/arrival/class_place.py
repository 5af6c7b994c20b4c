"""What the teacher named: a folder, or an archive of the whole class, and the downloads of whole classes in it."""

import contextlib
import os
from pathlib import Path

from . import archives
from .items import OnDisk, Unreadable


class ClassPlace(contextlib.ExitStack):
    """A folder or an archive that is read, until it is closed.

    Parameters:
        class_id : tells two readings of the same path apart
        path : path of the folder or of the archive
    """

    def __init__(self, class_id, path):
        super().__init__()
        path = Path(path)
        self.class_id, self.path, self.opened = class_id, path.absolute(), {}
        self.is_archive = archives.is_archive(path.name) and not path.is_dir()
        self.named = OnDisk(path.name, "", is_folder=not self.is_archive, top=os.path.realpath(path))

    def item(self, keys):
        """Returns the item that these keys lead to, which may lie in archives. Raises Unreadable."""
        item = self.named
        for i, key in enumerate(keys):
            item = self.inside(item, tuple(keys[:i])).child(key)
        return item

    def inside(self, item, keys):
        """Returns a folder, or the top of the archive that an item is. Raises Unreadable."""
        if item.is_folder:
            return item
        if keys not in self.opened:
            if not archives.is_archive(item.name):
                raise Unreadable("is no longer a folder or an archive")
            self.opened[keys] = self.enter_context(archives.opened(item, whole_class=True))
        return self.opened[keys]
