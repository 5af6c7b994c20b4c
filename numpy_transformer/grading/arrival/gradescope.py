"""Reads submission_metadata.yml of Gradescope's "Export Submissions": who handed in which folder, and when.

The file is YAML written by Ruby; the few fields that are needed have fixed forms, so no YAML library is needed:

    submission_409194023:
      :submitters:
      - :name: Anna Kim
        :sid: '123456789'
        :email: anna@example.edu
      :created_at: 2026-04-26 17:34:00.861687000 Z

Groups have several submitters. Results and earlier submissions below them are skipped, whatever they contain.
"""

import json
import re
from datetime import datetime

from .formats import Owner
from .text import plausible

METADATA = "submission_metadata.yml"
KEY = re.compile(r"(['\"]?)([\w.-]+)\1:\s*")
FIELD = re.compile(r"  (:\w+):(?: (.*))?")
SUBMITTER = re.compile(r"(?:  )?(?:  |- ):(name|sid|email): ?(.*)")
TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.\d+)? ?(Z|UTC|[+-]\d\d:?\d\d)")
LARGEST = 1 << 28                               # bytes; the results of all tests of a course are in it


def submissions(text):
    """Returns {folder: ([{"name": ..., "sid": ..., "email": ...}, ...], time or None)}."""
    folders, people, section = {}, [], ""
    # splitlines() would also split at characters that a student's name may contain.
    for line in text.replace("\r\n", "\n").split("\n"):
        key = KEY.fullmatch(line)
        if key:
            people, section = [], ""
            folders[key[2]] = (people, None)
        elif folders and line.startswith("  :") and FIELD.fullmatch(line):
            section, value = FIELD.fullmatch(line).groups()
            if section == ":created_at":
                set_time(folders, value or "")
        elif section == ":submitters":
            match = SUBMITTER.fullmatch(line)
            if match and line.lstrip().startswith("-"):
                people.append({})
            if match and people:
                people[-1][match[1]] = scalar(match[2])
        elif section == ":created_at" and line.startswith("    "):      # a time that Ruby wrote as an object
            set_time(folders, line)
    return folders


def read_metadata(items):
    """Returns {folder: what `submissions` gives} from the metadata among some items, {} without them."""
    for item in items:
        if item.name == METADATA and not item.is_folder:
            return submissions(item.read(LARGEST).decode("utf-8", "replace"))
    return {}


def owners_of(item, metadata):
    """Returns the Owners of an item beside the metadata: the submitters of a folder; [] for a file, which is no student's."""
    if not item.is_folder:
        return []
    return owners_of_submission(item.name, *metadata[item.name]) if item.name in metadata else None


def owners_of_submission(folder, people, submitted):
    """Returns the Owners of a submission: its submitters, or the submission itself if it has none.

    Parameters:
        folder : its name, such as "submission_409194023"
        people, submitted : as `submissions` gives them
    """
    told = {"submitted": submitted, "time_from": "Gradescope" if submitted else "Gradescope tells no possible time"}
    owners = []
    for person in people:
        kind, number = next(((kind, person[kind]) for kind in ("sid", "email", "name") if person.get(kind)), ("", folder))
        ids = {"gradescope": person.get("sid", ""), "email": person.get("email", "")}
        owners.append(Owner(("gradescope", kind, number), person.get("name") or number, ids, **told))
    return owners or [Owner(("gradescope", "", folder), folder, {"gradescope": folder}, **told)]


def set_time(folders, text):
    folder = next(reversed(folders))
    people, known = folders[folder]
    folders[folder] = (people, known or time_of(text))


def time_of(text):
    """Returns the time in a text such as "2026-04-26 17:34:00.861687000 Z", or None."""
    match = TIME.search(text)
    if not match:
        return None
    zone = match[7].replace("Z", "+0000").replace("UTC", "+0000").replace(":", "")
    return plausible(datetime.strptime, f"{'-'.join(match.groups()[:6])} {zone}", "%Y-%m-%d-%H-%M-%S %z")


def scalar(text):
    """Returns the text of a YAML scalar on one line."""
    text = text.strip()
    if text[:1] == "'" and text[-1:] == "'" and len(text) > 1:
        return text[1:-1].replace("''", "'")
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        try:
            return json.loads(re.sub(r"\\x([0-9A-Fa-f]{2})", r"\\u00\1", text))
        except ValueError:
            return text[1:-1]
    return "" if text in ("~", "null") else text
