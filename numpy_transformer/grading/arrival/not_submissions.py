"""What lies in a folder and is no student's: what the command itself has written, and downloads of whole classes."""

import contextlib
import re

from . import archives, formats, github, gradescope
from .items import Unreadable

FEEDBACK = re.compile(rb"[^\n]*\n[\d.]+ of [\d.]+ points\n")
DEEPEST = 2                                     # folders in a folder in which a download is looked for


def is_feedback(item):
    """Returns True for a folder that holds nothing but feedback that the command wrote."""
    if not item.is_folder or item.problem:
        return False
    try:
        files = item.children()
        return bool(files) and all(file.name.endswith(".txt") and not file.is_folder and not file.problem
                                   for file in files) and all(map(starts_like_feedback, files))
    except Unreadable:
        return False


def starts_like_feedback(file):
    with file.open() as opened:
        return FEEDBACK.match(opened.read(1000)) is not None


def is_picture_of_a_table(item, items):
    """Returns True for the picture that the command writes beside a table, its JSON or a page."""
    stem, _, suffix = item.name.rpartition(".")
    return suffix.lower() == "png" and not {f"{stem}.csv", f"{stem}.json", f"{stem}.html"}.isdisjoint(
        other.name for other in items)


def find_class_download(folder, depth=DEEPEST):
    """Returns the path of a download of a whole class below a folder, else ""."""
    try:
        items = folder.children() if not folder.problem else []
    except Unreadable:
        return ""
    for item in items:
        if is_class_download(item):
            return item.where
    deeper = (find_class_download(item, depth - 1) for item in items if item.is_folder and depth)
    return next(filter(None, deeper), "")


def is_class_download(item):
    """Returns True if a folder or an archive holds the work of several people as a system names it."""
    with contextlib.suppress(Unreadable):       # said where the student's work is read
        if item.is_folder and not item.problem:
            return several_people(item)
        if archives.is_archive(item.name) and not item.problem:
            with archives.opened(item, whole_class=True) as top:
                return several_people(top)
    return False


def several_people(folder):
    items = folder.children()
    owners = {owner.key for item in items if (owner := formats.owner_by_system(item.name, item.is_folder))}
    clones = sum(item.is_folder and github.dot_git(item) is not None for item in items)
    is_export = any(item.name == gradescope.METADATA for item in items)
    wrapped = len(items) == 1 and items[0].is_folder and several_people(items[0])
    return len(owners) > 1 or clones > 1 and folder.name.endswith("-submissions") or is_export or wrapped
