"""Reads a class: recognizes the form of its delivery at the top, and asks for one student after the other."""

import itertools
import stat
from dataclasses import dataclass
from pathlib import Path

from ...file_checks import one_line
from ...training.progress import Progress
from . import archives
from .class_place import ClassPlace
from .delivery import Delivery, is_named
from .formats import distinct_names
from .items import Unreadable
from .names import lessons_in, numbers_in, stem_of
from .reading_process import NoAnswer, reading_process
from .records import Problem, Student, from_data
from .text import first_names

CLASS_IDS = itertools.count()
PARTS = {"": "folders or files of {}", "Canvas": "a Canvas download of {}", "Moodle": "a Moodle download of {}",
         "Blackboard": "a Blackboard download of {}", "Gradescope": "a Gradescope export of {}",
         "GitHub": "GitHub clones of {}"}
LAYOUTS = ("auto", "students")
LARGE = 100                                     # students, whose reading shows a progress bar


@dataclass
class WholeClass:
    """A class that was read.

    Parameters:
        form : what it was recognized as, such as "a Canvas download of 31 students"
        students : list of Student, sorted by name
        notes : sentences about what belongs to no student
    """

    form: str
    students: list
    notes: list


def read_class(path, only=None, layout="auto"):
    """Returns the WholeClass at this path.

    Parameters:
        path : of a folder, or of an archive of the whole class
        only : numbers of the exercises that are graded, such as ["05.2"]; None: all. If it is one exercise, a file
            named after the student, or a student's only file, is taken for it whatever it defines.
        layout : "auto", or "students" if each name at the top is a student's, whatever system it looks like
    Raises: ValueError with one sentence if the class cannot be read or contains no student.
    """
    path = Path(path)
    check_path(path)
    with ClassPlace(next(CLASS_IDS), path) as place:
        try:
            delivery = read_delivery(place, layout)
        except Unreadable as error:
            raise ValueError(f"{str(path)!r} {error}") from error
        if not delivery.handed_in:
            raise ValueError(no_students(path, delivery.bare))
        notes = [*delivery.notes, *delivery.notes_on_spelling(), *notes_on_systems(path, delivery)]
        if delivery.bare:
            notes.append(f"{first_names(delivery.bare)} lies beside the students' folders and belongs to no student")
        students, downloads, about = [], [], []
        names = distinct_names({key: entries[0].owner for key, entries in delivery.handed_in.items()})
        with Progress(len(names), "read", "student", silent=len(names) < LARGE) as progress:
            for key, name in sorted(names.items(), key=lambda entry: entry[1]):
                student, sentences, download = read_student(place, name, delivery.handed_in[key], only)
                students += filter(None, [student])
                downloads += filter(None, [download])
                about.append(sentences)
                progress.advance(name)
    if not students:
        raise ValueError(no_students(path, delivery.bare))
    notes += notes_on_downloads(path, downloads, len(students))
    in_turn = filter(None, itertools.chain(*itertools.zip_longest(*about)))        # the teacher is shown the first ten notes
    return WholeClass(describe(delivery.systems, len(students)), students, [*notes, *in_turn])


def check_path(path):
    """Raises ValueError if there is no folder and no archive at a path."""
    try:
        mode = path.stat().st_mode
    except PermissionError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error.strerror}; change its permissions") from error
    except OSError as error:
        raise ValueError(no_folder(path)) from error
    if stat.S_ISREG(mode) and not archives.is_archive(path.name):
        raise ValueError(f"{str(path)!r} is a file, but neither a folder nor a zip of the whole class; name what you "
                         "downloaded of the students' files")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ValueError(no_folder(path))


def no_folder(path):
    return (f"there is no folder {str(path)!r}; name the one with a folder or files of each student, or a zip of the whole "
            "class")


def read_delivery(place, layout):
    """Returns the Delivery: of a folder or an archive, or of several downloads that lie in it. Raises Unreadable."""
    delivery = Delivery()
    top, keys = unwrapped(place.inside(place.named, ()), ()) if place.is_archive else (place.named, ())
    if layout == "students":
        for item in top.children():
            delivery.add_plain(item, (*keys, item.key))
        delivery.systems.append("")
        return delivery
    items = [item for item in top.children() if item.is_folder or archives.is_archive(item.name)]
    if not is_named(top) and are_downloads(place, [(*keys, item.key) for item in items]):
        for item in items:
            delivery.add_part(*innermost(place.inside(item, (*keys, item.key)), (*keys, item.key)),
                              lambda clones: repositories(place, clones))
    else:
        delivery.add_part(top, keys, lambda clones: repositories(place, clones))
    return delivery


def are_downloads(place, keys):
    """Returns True if all these folders and archives are downloads of a class, and none is the work of one student."""
    counts = []
    for own in keys:
        try:
            counts.append(ask(place, kind="download", keys=own)["people"])
        except NoAnswer:
            return False
        if not counts[-1]:
            return False
    return max(counts, default=0) > 1


def repositories(place, clones):
    """Returns {key of a clone: name of its repository}, as far as the clones tell it."""
    names = {}
    for keys in clones:
        try:
            names[keys[-1]] = ask(place, kind="repository", keys=keys)["repository"]
        except NoAnswer:
            continue
    return names


def unwrapped(top, keys):
    """Returns the folder of the students in an archive, and what leads to it: the top, or the only folder there."""
    items = top.children()
    if len(items) != 1 or not items[0].is_folder or items[0].problem:
        return top, keys
    inside = items[0].children()
    folders = [item for item in inside if item.is_folder or archives.is_archive(item.name)]
    is_class = len(folders) > 1 and not any(stem_of(item.name) and not item.is_folder for item in inside)
    of_exercises = any(numbers_in(item.name) or lessons_in(item.name) for item in folders)
    return (items[0], (*keys, items[0].key)) if is_named(items[0]) or is_class and not of_exercises else (top, keys)


def innermost(top, keys):
    """Returns the folder in which a download lies, and what leads to it: the top, or the only folder there."""
    items = top.children()
    is_wrapped = len(items) == 1 and items[0].is_folder and not items[0].problem and not is_named(top)
    return (items[0], (*keys, items[0].key)) if is_wrapped else (top, keys)


def read_student(place, name, entries, only):
    """Returns the Student, or None for files that turn out to be no student's; notes; and a download in it, or "".

    Parameters:
        entries : list of HandedIn
        only : as in `read_class`
    """
    ids = {kind: value for entry in entries for kind, value in entry.owner.ids.items()}
    lost = [f"{name}: the id of {kind} contains characters that cannot be printed, and was left out; enter the grade by hand"
            for kind in sorted({kind for entry in entries for kind in entry.owner.lost})]
    handed_in = [{"owner": entry.owner.as_data(), "keys": entry.keys} for entry in entries if entry.keys is not None]
    try:
        answer = ask(place, kind="student", name=name, handed_in=handed_in, only=only,
                     is_guess=all(entry.is_guess for entry in entries))
        student = answer["student"] and from_data(name, ids, answer["student"])
        return student, [*lost, *map(one_line, answer["notes"])], answer["download"]
    except NoAnswer as failure:
        last = entries[-1]
        where = last.item.where if len(entries) == 1 and last.item else ""
        sentence = f"This {failure}; hand in only the files with your code."
        problem = Problem(one_line(where), "", sentence, last.owner.submitted, last.owner.time_from, last.owner.late)
        return Student(name, ids, problems=[problem]), [*lost, f"{name}: {sentence}"], ""


def ask(place, **question):
    return reading_process().ask(class_id=place.class_id, place=str(place.path), **question)


def describe(systems, count):
    """Returns what a delivery is, such as "a Canvas download of 31 students"."""
    students = f"{count} student{'' if count == 1 else 's'}"
    if len(systems) == 1:
        return PARTS[systems[0]].format(students)
    named = " and ".join(sorted({system or "folders" for system in systems}))
    return f"{len(systems)} downloads ({named}) of {students}"


def notes_on_systems(path, delivery):
    named = sorted({system or "folders" for system in delivery.systems})
    return [f"{str(path)!r} holds downloads from {' and '.join(named)}; a student of several of them is several students "
            "here, so grade them one at a time"] if len(named) > 1 else []


def notes_on_downloads(path, downloads, count):
    """Returns notes on downloads of a whole class in a student's place. Raises ValueError if every student holds one."""
    paths = list(map(one_line, downloads))
    if len(paths) == count:
        raise ValueError(f"the folders in {str(path)!r} are not students': they hold what was downloaded for a whole class "
                         f"({first_names(paths)}); grade one download at a time, such as {path / paths[0]}")
    return [f"{where} looks like the download of a whole class, and was taken for the work of one student; move it elsewhere "
            "if it is not" for where in paths]


def no_students(path, bare):
    if bare:
        return (f"{str(path)!r} contains {one_line(bare[0])}, so it is a single folder of exercises; name the folder "
                "above it, with a folder for each student, or with files such as Kim_ex01_2.py")
    return f"{str(path)!r} contains no student's folder and no files such as Kim_ex01_2.py"
