"""Clones of a GitHub Classroom assignment: whose they are, and when the last commit was made.

`gh classroom clone student-repos` (github/gh-classroom, cmd/gh-classroom/clone/student-repos) makes a folder
ASSIGNMENT-submissions with clones named ASSIGNMENT-LOGIN; the GitHub Classroom Assistant names each clone LOGIN.

A repository can name programs that git would run. So its settings are never used: git works in an empty repository of
our own, which only borrows the objects of the clones, and prints the commits whose names were read from their files.
"""

import csv
import io
import os
import re
import shutil
import subprocess
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

from .items import OnDisk, Unreadable
from .text import one_line

URL = re.compile(r"^[ \t]*url[ \t]*=[ \t]*\S*?([\w.-]+?)(?:\.git)?/?[ \t]*$", re.M)
REFERENCE = re.compile(r"ref: (refs/[\w/.+@-]+)\s*")
HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
COMMITTER = re.compile(rb"^committer .*> (\d{1,11}) ([+-])(\d\d)(\d\d)$", re.M)
SECONDS = 60                                    # for git to print the last commit of every clone


def dot_git(item):
    """Returns the folder .git of a folder on the disk as a Path if it is a clone, else None."""
    path = Path(getattr(item, "path", "") or "/nowhere", ".git")
    return path if item.is_folder and path.is_dir() and not path.is_symlink() else None


def read_text(path, most=1 << 20):
    """Returns the text of an ordinary file below a clone, or "" if it has none."""
    try:
        return OnDisk("", "", path=os.fspath(path)).read(most).decode("utf-8", "replace")
    except (Unreadable, ValueError):
        return ""


def logins(folders, above):
    """Returns {folder name: login} for the clones among some folders.

    Parameters:
        folders : {folder name: path of its .git}
        above : name of the folder in which they lie
    """
    known_logins, whole = {}, []
    for name, path in folders.items():
        match = URL.search(read_text(path / "config"))
        repository = match[1] if match else ""
        if repository != name and repository.endswith(f"-{name}"):
            known_logins[name] = name                  # the Assistant's layout
        else:
            whole.append(name)
    prefix = f"{above.removesuffix('-submissions')}-" if above.endswith("-submissions") else common_prefix(whole)
    return known_logins | {name: name.removeprefix(prefix) or name for name in whole}


def common_prefix(names):
    """Returns what all names start with, up to its last hyphen; "" for fewer than two names."""
    return re.sub(r"[^-]*$", "", os.path.commonprefix(names)) if len(names) > 1 else ""


def head(path):
    """Returns the name of the commit that is checked out in a clone, or "" if it has none."""
    text = read_text(path / "HEAD")
    match = REFERENCE.fullmatch(text)
    if match and ".." not in match[1]:
        text = read_text(path / match[1])
        packed = read_text(path / "packed-refs")
        text = text or next((line.split()[0] for line in packed.splitlines() if line.endswith(f" {match[1]}")), "")
    return text.strip() if HASH.fullmatch(text.strip()) else ""


def commit_times(folders):
    """Returns {folder name: time of the last commit}; {} without git.

    Parameters:
        folders : {folder name: path of its .git}
    """
    heads = {name: head(path) for name, path in folders.items()}
    heads = {name: commit for name, commit in heads.items() if commit}
    git = shutil.which("git")
    if not git or not heads:
        return {}
    objects = [str((folders[name] / "objects").resolve()) for name in heads]
    with tempfile.TemporaryDirectory() as own:
        for folder in ("objects/info", "refs"):
            Path(own, folder).mkdir(parents=True)
        Path(own, "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        Path(own, "objects/info/alternates").write_bytes(
            b"".join(os.fsencode(path) + b"\n" for path in objects if "\n" not in path))
        environment = {"PATH": os.defpath, "GIT_DIR": own, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
                       "HOME": own, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            done = subprocess.run([git, "cat-file", "--batch"], input="\n".join(heads.values()).encode(), cwd=own,
                                  env=environment, capture_output=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.SubprocessError):
            return {}
    times = commits(done.stdout)
    return {name: times[commit] for name, commit in heads.items() if commit in times}


def commits(output):
    """Returns {commit: time of its committer} from what git cat-file --batch printed."""
    times, position = {}, 0
    while position < len(output):
        end = output.find(b"\n", position)
        fields = output[position:end if end >= 0 else None].split()
        if len(fields) != 3 or not fields[2].isdigit():         # "missing"
            if end < 0:
                break
            position = end + 1
            continue
        body = output[end + 1:end + 1 + int(fields[2])]
        match = COMMITTER.search(body.split(b"\n\n")[0])
        if match and fields[1] == b"commit":
            times[fields[0].decode()] = time_of(*match.groups())
        position = end + 2 + int(fields[2])
    return times


def time_of(seconds, sign, hours, minutes):
    offset = timedelta(hours=min(int(hours), 23), minutes=min(int(minutes), 59))
    return datetime.fromtimestamp(int(seconds), timezone(-offset if sign == b"-" else offset))


def roster(text):
    """Returns {login in lower case: {"name": ..., "identifier": ...}} from GitHub Classroom's classroom_roster.csv."""
    rows = csv.DictReader(io.StringIO(text.lstrip("\ufeff")))
    if not rows.fieldnames or "github_username" not in rows.fieldnames:
        return {}
    return {row["github_username"].casefold(): {
        "name": one_line(row.get("name") or ""),
        "identifier": one_line(row.get("identifier") or row.get("roster_identifier") or "")}
        for row in rows if row.get("github_username")}
