"""The Large Movie Review Dataset (Maas et al. 2011): 50,000 reviews, read from its folder or from its archive."""

import hashlib
import os
import re
from contextlib import contextmanager
from pathlib import Path

from .review_archive import members
from .review_cache import load_cache, save_cache

URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"
GROUPS = {"train/neg": "training", "train/pos": "training", "test/neg": "test", "test/pos": "test"}
PUBLISHED = 12_500                              # reviews in each group
REVIEW = re.compile(r"[0-9]{1,9}_[0-9]{1,9}\.txt")
MEMBER = re.compile(rf"(?:\./)?(?:[^/]+/)?({'|'.join(GROUPS)})/({REVIEW.pattern})")
REMEDY = f"get it again from {URL} (MD5 {MD5})"


def read_reviews(path, progress=None):
    """({"training": [(text, "neg" or "pos")], "test": ...}, report) of the folder aclImdb or its .tar.gz.

    The folder may also be the one that aclImdb lies in. Files that are no labeled reviews are left out, the line
    breaks <br /> become spaces, and reviews are in the order of their numbers. A cache beside the folder or archive,
    such as aclImdb.cache.npz, makes the next load quick; it is remade when a name, a size or a time has changed.

    Raises ValueError if a group of reviews is missing, a review is not UTF-8, or the archive is damaged or refused.
    """
    path = Path(os.path.abspath(path))
    with readable(path):
        if path.is_dir():
            path = root_of(path)
            files = review_files(path)
            mark, read = folder_mark(files), lambda: read_files(files, progress)
        else:
            mark, read = stamp(path.stat()), lambda: read_archive(path, progress)
        groups, report = load_cache(path, mark, progress) or read_and_save(path, mark, read)
    parts = {"training": [], "test": []}
    for group, texts in groups.items():
        parts[GROUPS[group]] += [(text, group[-3:]) for text in texts]
    return parts, report


def count_reviews(path):
    """How many reviews are in a folder; None for an archive, as only reading it would tell."""
    with readable(path):
        return sum(map(len, review_files(root_of(Path(path))).values())) if os.path.isdir(path) else None


@contextmanager
def readable(path):
    """Tells in a sentence what may not be read."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"cannot read {str(error.filename or path)!r}: {error.strerror}; make it readable, or "
                         f"{REMEDY}") from error


def root_of(folder):
    """The folder with the parts train and test: the given one, or aclImdb in it."""
    return folder / "aclImdb" if not (folder / "train").is_dir() and (folder / "aclImdb").is_dir() else folder


def review_files(root):
    """{group: its reviews as os.DirEntry, in the order of their numbers}. Raises ValueError where there are none."""
    files = {}
    for group in GROUPS:
        entries = os.scandir(root / group) if (root / group).is_dir() else []
        files[group] = sorted((entry for entry in entries if REVIEW.fullmatch(entry.name) and entry.is_file()),
                              key=lambda entry: in_order(entry.name))
    check_groups(root, files)
    return files


def in_order(name):
    return int(name.split("_")[0]), name


def check_groups(path, groups):
    if lost := [group for group in GROUPS if not groups.get(group)]:
        raise ValueError(f"{str(path)!r} has no reviews such as {lost[0]}/0_9.txt, so it is half unpacked or something "
                         f"else ({len(lost)} of {len(GROUPS)} folders are missing or empty); get {URL} (MD5 {MD5}) and "
                         "unpack it again, or name it as it is")


def stamp(status):
    return f"{status.st_size} {status.st_mtime_ns}"


def folder_mark(files):
    """A fingerprint of the names, sizes and times of all files."""
    lines = [f"{group}/{entry.name} {stamp(entry.stat())}\n" for group in files for entry in files[group]]
    return hashlib.blake2b("".join(lines).encode(), digest_size=16).hexdigest()


def read_files(files, progress=None):
    groups = {group: [] for group in files}
    for group, entries in files.items():
        for entry in entries:
            with open(entry.path, "rb") as file:
                groups[group].append(cleaned(file.read(), entry.path))
            if progress:
                progress()
    return groups, []


def read_archive(path, progress=None):
    report = other_digest(path)
    groups = {group: {} for group in GROUPS}    # a name that comes twice counts once, as if it were unpacked
    for name, data in members(path, MEMBER, REMEDY):
        group, file = MEMBER.fullmatch(name).groups()
        groups[group][file] = cleaned(data, f"{path}/{name}")
        if progress:
            progress()
    return {group: [found[file] for file in sorted(found, key=in_order)] for group, found in groups.items()}, report


def other_digest(path):
    """A sentence if the archive is not the published one."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    found = digest.hexdigest()
    return [f"{path.name!r} has the MD5 {found}, the published archive {MD5}"] if found != MD5 else []


def read_and_save(path, mark, read):
    groups, report = read()
    for group, texts in groups.items():
        if len(texts) != PUBLISHED:
            report.append(f"{group} has {len(texts):,} reviews, the published data {PUBLISHED:,}")
        groups[group] = [text for text in texts if text.strip()]
        if len(groups[group]) < len(texts):
            report.append(f"dropped {len(texts) - len(groups[group]):,} of {len(texts):,} reviews in {group}: empty")
    check_groups(path, groups)
    return groups, report + save_cache(path, mark, groups, report)


def cleaned(data, name):
    try:
        return data.decode().replace("<br />", " ")
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(name)!r} is not UTF-8 (byte {data[error.start]:#04x} at offset {error.start:,}), but "
                         f"the published reviews are; {REMEDY}") from error
