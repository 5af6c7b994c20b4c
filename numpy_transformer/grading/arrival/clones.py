"""Clones of a student's repository: where it came from, and when the last commit was made.

A repository can name programs that git would run. So its settings are never used: git works in an empty repository of
our own, which only borrows the objects of the clones, and prints the commits whose names were read from their files.
"""

import contextlib
import os
import re
import shutil
import stat
import subprocess
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from ...course.sandbox.scratch import scratch
from .items import Unreadable
from .text import plausible

REFERENCE = re.compile(r"ref: (refs/[\w/.+@-]+)\s*")
HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
COMMITTER = re.compile(rb"^committer .*> (\d{1,11}) ([+-])(\d\d)(\d\d)$", re.M)
SECONDS = 10                                    # for git to print the last commit of a clone
BY_COMMIT = "the last commit, by the clock of the student's computer"


def is_clone(item):
    """Returns True if a folder on the disk has a folder .git."""
    with contextlib.suppress(OSError, AttributeError, Unreadable):          # an archive has no path
        return item.is_folder and not item.problem and stat.S_ISDIR(os.lstat(os.path.join(item.path, ".git")).st_mode)
    return False


def read_text(item, *names, most=1 << 20):
    """Returns the text of an ordinary file below a folder, or "" if there is none."""
    try:
        for name in names:
            item = item.child(name)
        return item.read(most).decode("utf-8", "replace")
    except (Unreadable, AttributeError):
        return ""


def repository(item):
    """Returns the name of the repository that a clone came from, or "" if its settings do not tell."""
    for line in read_text(item, ".git", "config", most=1 << 16).split("\n"):
        key, _, address = line.partition("=")
        if key.strip() == "url":
            return address.strip().rstrip("/").removesuffix(".git").rpartition("/")[2]
    return ""


def head(item):
    """Returns the name of the commit that is checked out in a clone, or "" if it has none."""
    text = read_text(item, ".git", "HEAD")
    match = REFERENCE.fullmatch(text)
    if match and ".." not in match[1]:
        text = read_text(item, ".git", *match[1].split("/"))
        packed = read_text(item, ".git", "packed-refs")
        text = text or next((line.split()[0] for line in packed.splitlines() if line.endswith(f" {match[1]}")), "")
    return text.strip() if HASH.fullmatch(text.strip()) else ""


def with_commit_time(owner, item):
    """Returns the Owner of a clone with the time of its last commit, if git can read it."""
    submitted = commit_time(item) if is_clone(item) else None
    return replace(owner, submitted=submitted, time_from=BY_COMMIT if submitted else "git does not tell")


def commit_time(item):
    """Returns the time of the last commit of a clone, or None."""
    git, commit = shutil.which("git"), head(item)
    if not git or not commit:
        return None
    objects = os.path.join(item.path, ".git", "objects")
    with scratch() as own:
        for folder in ("objects/info", "refs"):
            Path(own, folder).mkdir(parents=True)
        Path(own, "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        Path(own, "objects/info/alternates").write_bytes(b"" if "\n" in objects else os.fsencode(objects) + b"\n")
        environment = {"PATH": os.defpath, "GIT_DIR": str(own), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
                       "HOME": str(own), "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            done = subprocess.run([git, "cat-file", "--batch"], input=commit.encode(), cwd=own, env=environment,
                                  capture_output=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.SubprocessError):
            return None
    return committed(done.stdout)


def committed(output):
    """Returns the time of the committer in what git cat-file --batch printed of one commit, or None."""
    header, _, body = output.partition(b"\n")
    match = COMMITTER.search(body.split(b"\n\n")[0]) if header.split()[1:2] == [b"commit"] else None
    return time_of(*match.groups()) if match else None


def time_of(seconds, sign, hours, minutes):
    offset = timedelta(hours=min(int(hours), 23), minutes=min(int(minutes), 59))
    return plausible(datetime.fromtimestamp, int(seconds), timezone(-offset if sign == b"-" else offset))
