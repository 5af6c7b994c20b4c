"""Whose a clone of a GitHub Classroom assignment is. Its own settings and commits have no say in it.

`gh classroom clone student-repos` (github/gh-classroom, cmd/gh-classroom/clone/student-repos) makes a folder
ASSIGNMENT-submissions with clones named ASSIGNMENT-LOGIN; the GitHub Classroom Assistant names each clone LOGIN.
"""

import csv
import io
import os
import re

from ...file_checks import one_line
from .formats import Owner

ROSTER = re.compile(r".*roster.*\.csv", re.I)
ENDING = "-submissions"


def read_rosters(items):
    """Returns what the rosters among the files beside the clones say together."""
    return {login: entry for item in items if not item.problem
            for login, entry in read_roster(item.read().decode("utf-8", "replace")).items()}


def read_roster(text):
    """Returns {login in lower case: {"name": ..., "identifier": ...}} from GitHub Classroom's classroom_roster.csv.

    Raises: ValueError if it is no CSV file.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(text.lstrip("\ufeff"))))
    except csv.Error as error:
        raise ValueError(f"the roster is damaged ({error}); download it again") from error
    return {row["github_username"].casefold(): {
        "name": one_line(row.get("name") or ""),
        "identifier": one_line(row.get("identifier") or row.get("roster_identifier") or "")}
        for row in rows if row.get("github_username")}


def logins(names, above, roster, repositories):
    """Returns {name of a clone: login}; "" for the starter code, which has the name of the assignment alone.

    Parameters:
        names : of the clones' folders
        above : name of the folder in which they lie
        roster : as `read_roster` gives it
        repositories : function that returns {name of a clone: name of its repository}, as far as the clones tell. Only
            what most of them say together counts: whether the folders are named by login or by repository.
    """
    if above.endswith(ENDING):
        prefix = f"{above.removesuffix(ENDING)}-"
    elif any(name.casefold() in roster for name in names):
        prefix = ""
    else:
        prefix = common_prefix(names)
        by_login = prefix and sum(repository != name and repository.endswith(f"-{name}")
                                  for name, repository in repositories().items())
        prefix = "" if 2 * by_login > len(names) else prefix
    return {name: name.removeprefix(prefix) if name != prefix.rstrip("-") else "" for name in names}


def common_prefix(names):
    """Returns what all names start with, up to its last hyphen; "" for fewer than two names."""
    return re.sub(r"[^-]*$", "", os.path.commonprefix(names)) if len(names) > 1 else ""


def owners_of(item, logins, roster):
    """Returns the Owner of a clone in a list; [] for the starter code and for files, which are no student's; else None."""
    if item.name not in logins:
        return None if item.is_folder else []
    login = logins[item.name]
    entry = roster.get(login.casefold(), {})
    identifier = entry.get("identifier", "")
    ids = {"github": login, "email" if "@" in identifier else "login": identifier}
    owner = Owner(("github", login.casefold()), entry.get("name") or login, ids, time_from="git does not tell")
    return [owner] if login else []
