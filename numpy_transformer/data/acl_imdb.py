"""The Large Movie Review Dataset (Maas et al. 2011): 50,000 reviews, read from the folder or from the archive."""

import hashlib
import os
import re
from contextlib import contextmanager
from pathlib import Path

from .plurals import counted
from .review_archive import members
from .review_cache import load_cache, save_cache

URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
MD5 = "7c2ac02c03563afcf9b574c7e56c153a"
GROUPS = {"train/neg": "training", "train/pos": "training", "test/neg": "test", "test/pos": "test"}
PUBLISHED = 12_500                              # reviews in each group
REVIEW = re.compile(r"[0-9]{1,9}_[0-9]{1,9}\.txt")
MEMBER = re.compile(rf"(?:\./)?(?:[^/]+/)?({'|'.join(GROUPS)})/({REVIEW.pattern})")
REMEDY = f"download it again from {URL} (MD5 {MD5})"


def read_reviews(path, progress=None):
    """Reads ({"training": [(text, "neg" or "pos")], "test": ...}, report) from the folder aclImdb or its .tar.gz.

    The reviews are in the order of their numbers, and line breaks <br /> become spaces. Files that are not labeled
    reviews are ignored. The result is cached next to the folder or archive, as in aclImdb.cache.npz, so that the next
    call is fast. The cache is rebuilt when the name, size or time of a file changes.

    Parameters:
        path : str or Path of aclImdb, of the folder that contains it, or of the archive
        progress : function without arguments, called after each review

    Raises:
        ValueError if a group of reviews is missing, a review is not UTF-8, or the archive is damaged or refused.
    """
    path = Path(os.path.abspath(path))
    with explain_os_errors(path):
        if path.is_dir():
            path = find_root(path)
            files = review_files(path)
            fingerprint = folder_fingerprint(files)
            groups, report = load_cache(path, fingerprint, progress) or read_and_save(
                path, fingerprint, lambda: read_files(files, progress))
        else:
            fingerprint = size_and_time(path.stat())
            groups, report = load_cache(path, fingerprint, progress) or read_and_save(
                path, fingerprint, lambda: read_archive(path, progress))
    parts = {"training": [], "test": []}
    for group, texts in groups.items():
        parts[GROUPS[group]] += [(text, group[-3:]) for text in texts]
    return parts, report


def count_reviews(path):
    """Returns the number of reviews in a folder; None for an archive, which would have to be read for this."""
    if not os.path.isdir(path):
        return None
    with explain_os_errors(path):
        return sum(map(len, review_files(find_root(Path(path))).values()))


@contextmanager
def explain_os_errors(path):
    """Turns an OSError into a ValueError that names the file and what to do."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"cannot read {str(error.filename or path)!r}: {error.strerror}; make it readable, or "
                         f"{REMEDY}") from error


def find_root(folder):
    """Returns the folder that contains train and test: the given one, or aclImdb inside it."""
    if not (folder / "train").is_dir() and (folder / "aclImdb").is_dir():
        return folder / "aclImdb"
    return folder


def review_files(root):
    """Returns {group: os.DirEntry of each review, by number}. Raises ValueError if a group has none."""
    files = {}
    for group in GROUPS:
        entries = os.scandir(root / group) if (root / group).is_dir() else []
        files[group] = sorted((entry for entry in entries if REVIEW.fullmatch(entry.name) and entry.is_file()),
                              key=lambda entry: review_number(entry.name))
    check_groups(root, files)
    return files


def review_number(name):
    """Sort key of a file name such as 10_3.txt."""
    return int(name.split("_")[0]), name


def check_groups(path, groups):
    missing = [group for group in GROUPS if not groups.get(group)]
    if missing:
        raise ValueError(f"{str(path)!r} has no reviews such as {missing[0]}/0_9.txt, so it is only partly unpacked "
                         f"or is other data ({len(missing)} of {len(GROUPS)} folders are missing or empty); download "
                         f"{URL} (MD5 {MD5}) and give the archive, or the folder that it unpacks to")


def size_and_time(status):
    return f"{status.st_size} {status.st_mtime_ns}"


def folder_fingerprint(files):
    """Returns a hash of the names, sizes and times of all files."""
    lines = [f"{group}/{entry.name} {size_and_time(entry.stat())}\n" for group in files for entry in files[group]]
    return hashlib.blake2b("".join(lines).encode(), digest_size=16).hexdigest()


def read_files(files, progress=None):
    groups = {group: [] for group in files}
    for group, entries in files.items():
        for entry in entries:
            with open(entry.path, "rb") as file:
                groups[group].append(decode_review(file.read(), entry.path))
            if progress:
                progress()
    return groups, []


def read_archive(path, progress=None):
    report = check_digest(path)
    groups = {group: {} for group in GROUPS}    # a repeated name replaces the earlier one, as when unpacking
    for name, data in members(path, MEMBER, REMEDY):
        group, file = MEMBER.fullmatch(name).groups()
        groups[group][file] = decode_review(data, f"{path}/{name}")
        if progress:
            progress()
    ordered = {group: [texts[file] for file in sorted(texts, key=review_number)] for group, texts in groups.items()}
    return ordered, report


def check_digest(path):
    """Returns a list with a sentence if the archive differs from the published one, else an empty list."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    checksum = digest.hexdigest()
    return [f"{path.name!r} has the MD5 {checksum}, but the published archive has {MD5}"] if checksum != MD5 else []


def read_and_save(path, fingerprint, read):
    """Reads the groups, drops empty reviews and writes the cache; returns (groups, report)."""
    groups, report = read()
    for group, texts in groups.items():
        if len(texts) != PUBLISHED:
            report.append(f"{group} has {counted(len(texts), 'review')}, but the published data has {PUBLISHED:,}")
        groups[group] = [text for text in texts if text.strip()]
        if len(groups[group]) < len(texts):
            report.append(f"dropped {len(texts) - len(groups[group]):,} of {len(texts):,} reviews in {group}: empty")
    check_groups(path, groups)
    return groups, report + save_cache(path, fingerprint, groups, report)


def decode_review(data, name):
    try:
        return data.decode().replace("<br />", " ")
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(name)!r} is not UTF-8 (byte {data[error.start]:#04x} at offset {error.start:,}), but "
                         f"the published reviews are; {REMEDY}") from error
