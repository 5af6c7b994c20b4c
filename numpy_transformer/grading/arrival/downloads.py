"""Tells the download of a whole class from the work of one student, by the names in it."""

import contextlib

from . import archives, formats, github, gradescope
from .clones import is_clone
from .items import Unreadable

DEEPEST = 2                                     # folders in a folder in which a download is looked for


def count_people(item, whole_class=False):
    """Returns how many people's work a folder or an archive holds as a system names it, 0 if it is no such download.

    Parameters:
        whole_class : if True, an archive may have the size of a class
    """
    with contextlib.suppress(Unreadable):       # said where the student's work is read
        if item.is_folder and not item.problem:
            return people_in(item)
        if archives.is_archive(item.name) and not item.problem:
            with archives.opened(item, whole_class) as top:
                return people_in(top)
    return 0


def people_in(folder):
    """Returns how many people's work is in a folder, or in the only folder in it."""
    items = folder.children()
    if len(items) == 1 and items[0].is_folder and not items[0].problem and not formats.naming_system([items[0].name]):
        folder, items = items[0], items[0].children()
    if any(item.name == gradescope.METADATA for item in items) or folder.name.endswith(github.ENDING):
        return sum(item.name.startswith("submission_") or is_clone(item) for item in items if item.is_folder)
    system = formats.naming_system([item.name for item in items])
    owners = filter(None, map(formats.NAMED_BY[system], [item.name for item in items])) if system else ()
    return len({owner.key for owner in owners})


def find_download(item, depth=DEEPEST):
    """Returns the path of a download of several people's work below a folder, "" if there is none."""
    try:
        inside = [one for one in item.children() if not one.problem] if item.is_folder and not item.problem else []
    except Unreadable:
        return ""
    for one in inside:
        if count_people(one) > 1:
            return one.where
    deeper = (find_download(one, depth - 1) for one in inside if one.is_folder and depth)
    return next(filter(None, deeper), "")
