"""Finds out who handed in what: goes through the top of a delivery, and through deliveries inside it."""

import contextlib
import re
from collections import Counter
from dataclasses import dataclass, field

from . import archives, formats, github, gradescope, names, not_submissions
from .items import Unreadable
from .search import KINDS, Search
from .text import first_names, folded, one_line

ROSTER = re.compile(r".*roster.*\.csv", re.I)
SYSTEMS = {"canvas": "Canvas", "moodle": "Moodle", "gradescope": "Gradescope", "github": "GitHub"}
DEEPEST = 3                                     # deliveries in folders in the folder of the class


@dataclass
class Delivery:
    """What was handed in, by owner.

    Parameters:
        only : numbers of the exercises that are graded
        stack : keeps archives open until everything is read
        handed_in : {key of a student: [(Owner, Search), ...]}
        notes : sentences about what belongs to no student
        bare : names of exercise files that lie beside the students' folders
        folders : {student: paths of the folders with this name}
        downloads : {path of such a folder: path of a download of a whole class in it}
    """

    only: list
    stack: contextlib.ExitStack
    handed_in: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    bare: list = field(default_factory=list)
    folders: dict = field(default_factory=dict)
    downloads: dict = field(default_factory=dict)

    def assign_items(self, top, depth=0):
        """Assigns every item in a folder to its owner."""
        items = top.children()
        metadata = self.metadata(items)
        roster = self.roster(items)
        clones = {item.name: path for item in items if (path := github.dot_git(item))}
        clones = clones if len(clones) > 1 or roster or top.name.endswith("-submissions") else {}
        logins, times = github.logins(clones, top.name), github.commit_times(clones)
        for item in items:
            if item.name in metadata:
                self.add_submission(item.name, metadata.pop(item.name), search_item(item))
            elif item.name in clones and logins[item.name]:
                self.add(github_owner(logins[item.name], roster, times.get(item.name)), item)
            elif item.name in clones:
                self.notes.append(f"{one_line(item.name)} was taken for the starter code and is not graded")
            elif not_submissions.is_feedback(item):
                self.notes.append(f"{one_line(item.where)} holds feedback that this command wrote, and was left out")
            elif not (item.name == gradescope.METADATA or ROSTER.fullmatch(item.name)
                      or not_submissions.is_picture_of_a_table(item, items)):
                self.add_item(item, depth)
        for name, entry in metadata.items():    # Gradescope gives no folder to a submission without files
            self.add_submission(name, entry, Search())

    def check_downloads(self, place):
        """Raises ValueError if half of the folders are no students', but hold downloads; adds notes about fewer."""
        paths = [one_line(path) for path in self.downloads.values()]
        if 2 * len(paths) >= sum(map(len, self.folders.values())) > 0:
            raise ValueError(f"the folders in {str(place)!r} are not students': they hold what was downloaded for a "
                             f"whole class ({first_names(paths)}); grade one download at a time, such as {place / paths[0]}")
        self.notes += [f"{path} looks like the download of a whole class, and was taken for the work of one student; "
                       "move it elsewhere if it is not" for path in paths]
        systems = sorted({SYSTEMS[key[0]] for key in self.handed_in if key[0] in SYSTEMS})
        if len(systems) > 1:
            self.notes.append(f"{str(place)!r} holds downloads from {' and '.join(systems)}; a student of several of them "
                              "is several students here, so grade them one at a time")

    def forget_starter_files(self):
        """Drops what is in most clones and belongs to no exercise: it came with the assignment."""
        clones = [search for key, entries in self.handed_in.items() if key[0] == "github" for _, search in entries]
        counts = Counter(name for search in clones for name in search.unassigned())
        for search in clones:
            search.forget({name for name in counts if counts[name] > max(1, len(clones) / 2)})

    def metadata(self, items):
        """Returns what Gradescope's submission_metadata.yml says, {} without one."""
        for item in items:
            if item.name == gradescope.METADATA and not item.is_folder:
                text = item.read(gradescope.LARGEST).decode("utf-8", "replace")
                return gradescope.submissions(text)
        return {}

    def roster(self, items):
        """Returns what the rosters of GitHub Classroom say, {} without one."""
        entries = {}
        for item in items:
            if ROSTER.fullmatch(item.name) and not item.is_folder and not item.problem:
                entries |= github.roster(item.read().decode("utf-8", "replace"))
        return entries

    def add_submission(self, name, entry, search):
        """Adds what is in a folder of Gradescope to each of its submitters."""
        people, submitted = entry
        if not people:
            owner = formats.Owner(("gradescope", name), name, {"gradescope": name})
            self.handed_in.setdefault(owner.key, []).append((owner, search))
        for person in people:
            number = person.get("sid") or person.get("email") or person.get("name") or name
            ids = {"gradescope": person.get("sid", ""), "email": person.get("email", "")}
            owner = formats.Owner(("gradescope", number), one_line(person.get("name", "")) or number,
                                  {key: value for key, value in ids.items() if value}, submitted=submitted,
                                  time_from="Gradescope")
            self.handed_in.setdefault(owner.key, []).append((owner, search))

    def add_item(self, item, depth):
        owner = formats.owner_by_system(item.name, item.is_folder)
        if owner:
            self.add(owner, item)
        elif depth < DEEPEST and self.is_delivery(item):
            with contextlib.suppress(Unreadable):
                self.assign_items(self.inside(item), depth + 1)
        elif item.is_folder:
            owner = formats.plain_owner(item.name)
            self.folders.setdefault(owner.name, []).append(item.where)
            download = not_submissions.find_class_download(item)
            if download:
                self.downloads[item.where] = download
            self.add(owner, item)
        else:
            self.add_plain_file(item)

    def inside(self, item):
        """Returns the folder that an item is, or the top of the archive that it is, open until everything is read."""
        return item if item.is_folder else innermost(self.stack.enter_context(archives.opened(item, whole_class=True)))

    def is_delivery(self, item):
        """Returns True for a folder or an archive that holds the work of several students as a system names it."""
        if item.problem or not (item.is_folder or archives.is_archive(item.name)):
            return False
        try:
            if item.is_folder:
                return holds_students(item)
            with archives.opened(item, whole_class=True) as top:
                return holds_students(innermost(top))
        except Unreadable:
            return False

    def add_plain_file(self, item):
        """Adds a loose file to the student in its name."""
        stem = names.stem_of(item.name)
        suffix = item.name[len(stem):] if stem is not None else ""
        split = formats.split_plain(item.name)
        is_archive = archives.is_archive(item.name)
        if split:
            self.add(formats.plain_owner(*split), item)
        elif names.is_exercise_name(re.sub(r"(\.\w+){1,2}$", "", item.name) if stem is None else stem):
            self.bare.append(item.name)
        elif is_archive:
            self.add(formats.plain_owner(archives.stem_of(item.name), item.name), item)
        elif stem is not None or item.problem:
            self.add_named_after_student(item, stem if stem is not None else item.name, suffix)
        elif "." + item.name.rpartition(".")[2].lower() in KINDS:
            self.notes.append(f"{one_line(item.name)} belongs to no student's folder and was not read")

    def add_named_after_student(self, item, stem, suffix):
        """Adds Kim.py, Kim.ipynb or Kim_softmax_backward.py."""
        person, own = names.split_function(names.split_marks(stem)[0])
        owner = formats.plain_owner(person, own + suffix if own else item.name)
        search = search_item(item, owner)
        is_work = any(one.answers for one in search.found) or search.problems
        if is_work or own or item.problem or self.only and len(self.only) == 1 and search.found:
            self.handed_in.setdefault(owner.key, []).append((owner, search))
        elif item.name.lower().endswith((".py", ".ipynb")):
            self.notes.append(f"{one_line(item.name)} belongs to no exercise and to no student")

    def add(self, owner, item):
        if owner.kind != "receipt":
            self.handed_in.setdefault(owner.key, []).append((owner, search_item(item, owner)))


def search_item(item, owner=None):
    """Returns the Search of an item."""
    search = Search()
    if owner and owner.kind == "link":
        search.problems.append((item.where, "", "holds only a link to something elsewhere; hand in the file itself"))
    elif item.is_folder and not item.problem:
        try:
            for child in item.children():
                search.visit(child)
        except Unreadable as error:
            search.problems.append((item.where, "", str(error)))
    else:
        search.visit(item, (owner.rest if owner else "") or item.name)
    return search


def github_owner(login, roster, submitted):
    entry = roster.get(login.casefold(), {})
    identifier = entry.get("identifier", "")
    ids = {"github": login}
    if identifier:
        ids["email" if "@" in identifier else "login"] = identifier
    return formats.Owner(("github", login.casefold()), entry.get("name") or login, ids, submitted=submitted,
                         time_from="the last commit, by the clock of the student's computer" if submitted else "git")


def innermost(top):
    """Returns the only folder in an archive if it holds students, as in Gradescope's, else the top."""
    items = top.children()
    return items[0] if len(items) == 1 and items[0].is_folder and holds_students(items[0]) else top


def holds_students(folder):
    """Returns True if most of what is in a folder has an owner in its name, or is a clone, or Gradescope tells owners."""
    items = folder.children()
    clones = sum(github.dot_git(item) is not None for item in items)
    owned = sum(formats.owner_by_system(item.name, item.is_folder) is not None for item in items)
    named = clones > 1 or bool(clones) and folder.name.endswith("-submissions")
    return 2 * owned > len(items) or named or any(item.name == gradescope.METADATA for item in items)


def notes_on_names(delivery, owners):
    """Returns sentences about names that may belong to one student."""
    notes = [f"{len(places)} folders are called {name!r} and were taken as one student's"
             for name, places in sorted(delivery.folders.items()) if len(places) > 1]
    spellings = {}
    for key in owners:
        if key[0] == "name":
            spellings.setdefault(folded(key[1]), []).append(key[1])
    return notes + [f"{' and '.join(map(repr, sorted(group)))} differ only in spelling and were kept as "
                    f"{len(group)} students; rename one of them if they are the same"
                    for group in spellings.values() if len(group) > 1]
