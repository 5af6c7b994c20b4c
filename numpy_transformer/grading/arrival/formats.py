"""How Canvas, Moodle and Blackboard name what students hand in: each name at the top of a delivery gives its owner.

Read in the systems' published code (facts, no code):
Canvas      instructure/canvas-lms, lib/content_zipper.rb at 05e9653. A file is NAME_USERID_FILEID_FILE, where NAME is
            "Last, First" in lower case with nothing but letters and digits; NAME_LATE_USERID_... if late;
            anon_ID_FILEID_FILE or LATE_anon_ID_... in anonymous assignments; NAME_USERID_text.html for a text entry and
            ..._link.html for a link. A group has its own name as NAME. If a student hands in a file of the same name
            again, Canvas puts -1, -2, ... before the extension.
Moodle      moodle/moodle, mod/assign/classes/downloader.php. A folder is NAME_ID_assignsubmission_file (before
            Moodle 4 with _ at the end), or without folders a file is NAME_ID_assignsubmission_file_FILE. NAME is the
            full name without _, the word for "Participant" in blind marking, or the name of a group; ID is the number
            in "Participant ID" of the grading worksheet.
Blackboard  ASSIGNMENT_LOGIN_attempt_2026-11-20-23-59-01_FILE, and a text file without FILE for each attempt.
Gradescope and GitHub have files of their own: gradescope.py, github.py.

The entries of Canvas's and Moodle's archives carry the time of the download, so these systems tell no time. Neither do
plain folders: the time of a file is often that of copying. It serves only to put several files for one exercise in order.
"""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from ...file_checks import one_line
from .text import folded, plausible

LONGEST = 200                                   # characters of a name or an id

CANVAS = re.compile(r"(?P<name>[^\W_]\S*?)_(?:(?P<late>LATE)_)?(?P<id>\d+)_(?:(?P<file>\d{3,})_(?P<rest>.+)|"
                    r"(?P<kind>text|link)(?:-\d+)?\.html)", re.S)
ANONYMOUS = re.compile(r"(?:(?P<late>LATE)_)?anon_(?P<id>[0-9A-Za-z]+)_(?:(?P<file>\d+)_(?P<rest>.+)|"
                       r"(?P<kind>text|link)(?:-\d+)?\.html)", re.S)
MOODLE = re.compile(r"(?P<name>.+?)(?:_(?P<id>\d+))?_assignsubmission_(?P<kind>[a-z]+?)(?:_(?P<rest>.*))?", re.S)
BLACKBOARD = re.compile(r"(?P<name>.+?)_(?P<id>[^_]+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<rest>.+)|\.txt)", re.S)
PLAIN = re.compile(r"(?P<name>.+?)[ _-]+(?P<rest>(?:(?:ex(?:ercise)?|stage)[ _.-]?\d{1,2}(?!\d)|\d{1,2}[._-]\d(?![0-9a-z])).*)",
                   re.I | re.S)


@dataclass(frozen=True)
class Owner:
    """Who handed something in. All its texts are single lines of printable characters.

    Parameters:
        key : (system, id), the same for everything of one student
        rest : the name that the student gave to a file, without what the system put before it; "" for a folder
        order : number that grows from upload to upload, 0 if the system gives none
        time_from : what tells `submitted`, or says that it tells nothing
        kind : "text" or "link" for what was typed in instead of handed in as a file
        lost : kinds of ids that were left out, because they are no single line of printable characters
    """

    key: tuple
    name: str
    ids: dict = field(default_factory=dict)
    rest: str = ""
    late: bool = False
    order: int = 0
    submitted: datetime | None = None
    time_from: str = "a folder does not tell"
    kind: str = ""
    lost: tuple = ()

    def __post_init__(self):
        ids = {kind: value.strip() for kind, value in self.ids.items() if value.strip()}
        lost = tuple(kind for kind, value in ids.items() if one_line(value, LONGEST) != value)
        object.__setattr__(self, "name", one_line(self.name, LONGEST) or "?")
        object.__setattr__(self, "ids", {kind: value for kind, value in ids.items() if kind not in lost})
        object.__setattr__(self, "lost", lost or tuple(self.lost))

    def as_data(self):
        """Returns the owner as values for JSON."""
        return {**vars(self), "submitted": self.submitted and self.submitted.isoformat()}

    @classmethod
    def from_data(cls, values):
        """Returns the Owner with these values, as `as_data` gives them."""
        submitted = values["submitted"] and datetime.fromisoformat(values["submitted"])
        return cls(**{**values, "key": tuple(values["key"]), "submitted": submitted})


def moodle_owner(name):
    """Returns the Owner of something that Moodle named, else None."""
    match = MOODLE.fullmatch(name)
    if not match:
        return None
    number, person = match["id"], one_line(match["name"], LONGEST)
    return Owner(("moodle", number or folded(person)), person, {"moodle": number} if number else {}, match["rest"] or "",
                 time_from="Moodle does not tell", kind="text" if match["kind"] == "onlinetext" else "")


def canvas_owner(name):
    """Returns the Owner of something that Canvas named, else None."""
    match = ANONYMOUS.fullmatch(name)
    if match:
        return canvas(match, "anonymous", f"anon_{match['id']}", match["id"])
    match = CANVAS.fullmatch(name)
    return canvas(match, "canvas", match["name"], match["id"]) if match and is_canvas_name(match["name"]) else None


def blackboard_owner(name):
    """Returns the Owner of something that Blackboard named, else None."""
    match = BLACKBOARD.fullmatch(name)
    if not match:
        return None
    submitted = plausible(lambda: datetime.strptime(match["time"], "%Y-%m-%d-%H-%M-%S").astimezone())
    return Owner(("login", match["id"]), match["id"], {"login": match["id"]}, match["rest"] or "", submitted=submitted,
                 time_from="Blackboard" if submitted else "Blackboard's name has no possible time",
                 kind="" if match["rest"] else "receipt")


NAMED_BY = {"Canvas": canvas_owner, "Moodle": moodle_owner, "Blackboard": blackboard_owner}


def naming_system(names):
    """Returns the system that gave most of these names, "" if none did."""
    counts = {system: sum(owner(name) is not None for name in names) for system, owner in NAMED_BY.items()}
    most = max(counts, key=counts.get)
    return most if 2 * counts[most] > len(names) else ""


def is_canvas_name(name):
    """Returns True for lower case letters, marks and digits, which is what Canvas leaves of "Last, First"."""
    return name == name.lower() and all(c == "_" or unicodedata.category(c)[0] in "LMN" for c in name)


def canvas(match, system, name, number):
    return Owner((system, number), name, {system: number}, match["rest"] or "", bool(match["late"]),
                 int(match["file"] or 0), time_from="Canvas does not tell", kind=match["kind"] or "")


def plain_owner(name, rest="", key=None):
    """Returns the Owner of a folder or file that is named after the student.

    Parameters:
        key : the name as the disk or the archive has it, if it is that of a folder
    """
    shown = one_line(name, LONGEST).strip(" _-") or "?"
    return Owner(("name", shown if key is None else key), shown, rest=rest)


def split_plain(name):
    """Returns the student's name and the file's in a name such as Kim_ex01_2.py, or None."""
    match = PLAIN.fullmatch(name)
    return (match["name"], match["rest"]) if match else None


def distinct_names(owners):
    """Returns {key: name} with different names. A student keeps the name, whatever others are called.

    Students of one name whom a system tells apart get its id in brackets. Of several folders, the one that is called
    exactly so keeps the name; the others get theirs in brackets, as it is on the disk.

    Parameters:
        owners : {key: Owner}
    """
    names, taken = {}, set()
    told_apart = Counter(owner.name for key, owner in owners.items() if key[0] != "name")
    for key in sorted(owners, key=lambda key: (key[0] == "name", key[1] != owners[key].name, key)):
        name = owners[key].name
        if key[0] != "name" and told_apart[name] > 1:
            name = f"{name} ({one_line(owners[key].ids.get(key[0], key[-1]), LONGEST)})"
        elif name in taken:
            name = f"{name} ({ascii(key[-1])[1:-1]})"
        while name in taken:
            name += "'"
        names[key] = name
        taken.add(name)
    return names
