"""Finds out who handed in what, by the names at the top of what the teacher named.

A delivery has one form: it comes from one system, or it has a folder, an archive or files for each student. The form is
recognized once, at the top. Everything below a name at the top belongs to the student whose name it is: nothing in there
can say who another student is, or is taken for another student's.
"""

import re
from dataclasses import dataclass, field

from ...file_checks import one_line
from . import archives, formats, github, gradescope, names
from .clones import is_clone
from .items import Item
from .search import KINDS
from .text import file_name, folded


@dataclass
class HandedIn:
    """Something that a student handed in.

    Parameters:
        keys : what leads to it from the place that the teacher named; None for a submission without files
        is_guess : True for a file that may be no student's, unless it answers an exercise
    """

    owner: formats.Owner
    keys: tuple | None
    item: Item | None = None
    is_guess: bool = False


@dataclass
class Delivery:
    """What was handed in, by owner.

    Parameters:
        systems : names of the systems that the parts come from, "" for a folder or files of each student
        handed_in : {key of a student: [HandedIn, ...]}
        notes : sentences about what belongs to no student
        bare : names of exercise files that lie beside the students' folders
    """

    systems: list = field(default_factory=list)
    handed_in: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    bare: list = field(default_factory=list)

    def add_part(self, top, keys, repositories):
        """Recognizes the form of a folder or of the top of an archive, and assigns every item in it to its owner.

        Parameters:
            keys : what leads to it
            repositories : function (keys of clones) that returns what `github.logins` asks for
        """
        items = top.children()
        system, owners_of, without_files = recognize(
            top, items, lambda names: repositories([(*keys, name) for name in names]))
        self.systems.append(system)
        for item in items:
            owners = owners_of(item)
            for owner in owners or ():
                self.add(owner, (*keys, item.key), item)
            if owners == [] and item.is_folder:
                self.notes.append(f"{one_line(item.name)} was taken for the starter code and is not graded")
            if owners is None:
                self.add_plain(item, (*keys, item.key), {other.name for other in items})
        for owner in without_files:
            self.add(owner, None, None)

    def add(self, owner, keys, item, is_guess=False):
        if owner.kind != "receipt":
            self.handed_in.setdefault(owner.key, []).append(HandedIn(owner, keys, item, is_guess))

    def add_plain(self, item, keys, beside=frozenset()):
        """Adds a folder that is named after a student, or a loose file with a student's name in its own.

        Parameters:
            beside : names of the files beside it
        """
        stem = names.stem_of(item.name)
        suffix = item.name[len(stem):] if stem is not None else ""
        split = formats.split_plain(item.name)
        if item.is_folder:
            self.add(formats.plain_owner(item.name, key=item.key), keys, item)
        elif split:
            self.add(formats.plain_owner(*split), keys, item)
        elif names.is_exercise_name(re.sub(r"(\.\w+){1,2}$", "", item.name) if stem is None else stem):
            self.bare.append(item.name)
        elif archives.is_archive(item.name):
            self.add(formats.plain_owner(archives.stem_of(item.name), item.name), keys, item)
        elif stem is not None or item.problem:
            person, function = names.split_function(names.split_marks(stem if stem is not None else item.name)[0])
            owner = formats.plain_owner(person, function + suffix if function else item.name)
            self.add(owner, keys, item, is_guess=not function and not item.problem)
        elif "." + item.name.rpartition(".")[2].lower() in KINDS and not is_picture_of_a_table(item.name, beside):
            self.notes.append(f"{one_line(item.name)} belongs to no student's folder and was not read")

    def notes_on_spelling(self):
        """Returns sentences about names that may belong to one student."""
        spellings = {}
        for kind, name, *_ in self.handed_in:
            if kind == "name":
                spellings.setdefault(" ".join(folded(name).split()), []).append(name)
        return [f"{' and '.join(map(escaped(group), sorted(group)))} differ only in spelling and were kept as {len(group)} "
                "students; rename one of them if they are the same" for group in spellings.values() if len(group) > 1]


def escaped(names):
    """Returns the function that quotes these names so that each looks different."""
    return repr if len({one_line(file_name(name)) for name in names}) == len(names) else ascii


def recognize(top, items, repositories):
    """Recognizes the form of a delivery, by the names of most items and by what the system adds.

    Returns:
        the name of the system, "" for none
        a function that returns the Owners of an item: [] if it is no student's; None if the system did not name it, so that
            it has a student's name
        Owners of submissions that have no files
    """
    folders = [item for item in items if item.is_folder]
    metadata = gradescope.read_metadata(items)
    if metadata and 2 * sum(item.name in metadata for item in folders) >= len(folders):
        empty = metadata.keys() - {item.name for item in folders}
        return "Gradescope", lambda item: gradescope.owners_of(item, metadata), [
            owner for name in metadata if name in empty for owner in gradescope.owners_of_submission(name, *metadata[name])]
    clones = [item for item in folders if is_clone(item)]
    rosters = [item for item in items if github.ROSTER.fullmatch(item.name) and not item.is_folder]
    if 2 * len(clones) > len(folders) and (len(clones) > 1 or rosters or top.name.endswith(github.ENDING)):
        roster = github.read_rosters(rosters)
        logins = github.logins([item.name for item in clones], top.name, roster, lambda: repositories(
            [item.key for item in clones]))
        return "GitHub", lambda item: github.owners_of(item, logins, roster), []
    system = formats.naming_system([item.name for item in items])
    owner_of = formats.NAMED_BY.get(system, lambda name: None)

    def owners_of(item):
        owner = owner_of(item.name)
        return [owner] if owner else None
    return system, owners_of, []


def is_named(folder):
    """Returns True if a system has named what is in a folder, or has added its own file. Raises Unreadable."""
    items = folder.children()
    clones = sum(map(is_clone, items)) if folder.name.endswith(github.ENDING) else 0
    return clones > 0 or any(item.name == gradescope.METADATA for item in items) or bool(
        formats.naming_system([item.name for item in items]))


def is_picture_of_a_table(name, beside):
    """Returns True for the picture that the command writes beside a table, its JSON or a page."""
    stem, _, suffix = name.rpartition(".")
    return suffix.lower() == "png" and not {f"{stem}.csv", f"{stem}.json", f"{stem}.html"}.isdisjoint(beside)
