"""Clones of a student's repository: where it came from, when the last commit was made, and what the first one brought.

A repository can name programs that git would run. So its settings are never used: git works in an empty repository of
our own, which only borrows the objects of the clone, and prints the commit whose name was read from the clone's files.
"""

import contextlib
import os
import re
import shutil
import stat
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

from ...course.sandbox.scratch import scratch
from .items import Unreadable
from .text import file_name, plausible

REFERENCE = re.compile(r"ref: (refs/[\w/.+@-]+)\s*")
HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
COMMITTER = re.compile(rb"^committer .*> (\d{1,11}) ([+-])(\d\d)(\d\d)$", re.M)
SECONDS = 10                                    # for each question to git
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


class CloneHistory:
    """What git tells of the commits of a clone.

    Attributes:
        submitted : the time of the last commit, or None
        starters : names of the files that the first commit brought, with which GitHub Classroom begins
    """

    def __init__(self, item):
        self.submitted, self.starters = None, set()
        git, commit = shutil.which("git"), head(item)
        objects = os.path.join(item.path, ".git", "objects") if is_clone(item) else ""
        if not git or not commit or not objects or "\n" in objects:
            return
        with scratch() as own:
            for folder in ("objects/info", "refs"):
                Path(own, folder).mkdir(parents=True)
            Path(own, "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
            Path(own, "objects/info/alternates").write_bytes(os.fsencode(objects) + b"\n")
            self.submitted = committed(run_git(git, own, "cat-file", "commit", commit))
            first = run_git(git, own, "rev-list", "--max-parents=0", commit).decode("ascii", "replace").split()[-1:]
            names = run_git(git, own, "ls-tree", "-r", "-z", "--name-only", *first) if first else b""
            self.starters = {file_name(os.fsdecode(path).rpartition("/")[2]) for path in names.split(b"\0")}


def run_git(git, own, *words):
    """Returns what git prints in our own repository, b"" if it fails."""
    environment = {"PATH": os.defpath, "GIT_DIR": str(own), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
                   "HOME": str(own), "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return subprocess.run([git, *words], stdin=subprocess.DEVNULL, cwd=own, env=environment, capture_output=True,
                              timeout=SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return b""


def committed(commit):
    """Returns the time of the committer in the text of a commit, or None."""
    match = COMMITTER.search(commit.split(b"\n\n")[0])
    return time_of(*match.groups()) if match else None


def time_of(seconds, sign, hours, minutes):
    offset = timedelta(hours=min(int(hours), 23), minutes=min(int(minutes), 59))
    return plausible(datetime.fromtimestamp, int(seconds), timezone(-offset if sign == b"-" else offset))
