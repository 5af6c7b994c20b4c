"""Reads a class as it was delivered. Runs nothing, follows no link, and writes nothing.

records.py      what comes out: students with attempts, other files, problems and remarks
delivery.py     who handed in what; formats.py, gradescope.py and github.py know how each system names things
not_submissions.py  what lies among the students' work: the command's own outputs, downloads of whole classes
search.py       what one student handed in, in folders, archives (items.py, archives.py) and notebooks (notebooks.py)
text.py         text of students and file systems as one printable line
names.py        which exercise a file belongs to, by its name and by what it defines (statements.py)
reading.py      bytes to source: encodings, line ends, and what word processors put into code
students.py     attempts in order, and the names under which files import each other
"""

import contextlib
from pathlib import Path

from . import archives
from .delivery import Delivery, holds_students, notes_on_names
from .formats import distinct_names
from .items import OnDisk, Unreadable
from .names import lessons_in, numbers_in, stem_of
from .records import File, Problem, Student
from .students import build_student
from .text import first_names, one_line, printable, unusual

__all__ = ["File", "Problem", "Student", "one_line", "printable", "read_class", "unusual"]


def read_class(place, only=None):
    """Returns the students sorted by name, and sentences about what belongs to no student.

    Parameters:
        place : path of a folder, or of a zip of the whole class
        only : numbers of the exercises that are graded, such as ["05.2"]; None: all. If it is one exercise, a file
            named after the student, or a student's only file, is taken for it whatever it defines.
    Raises: ValueError with one sentence if the class cannot be read or contains no student.
    """
    place = Path(place)
    try:
        place.stat()
    except PermissionError as error:
        raise ValueError(f"cannot read {str(place)!r}: {error.strerror}; change its permissions") from error
    except OSError:                             # said below
        pass
    is_archive = place.is_file() and archives.is_archive(place.name)
    if place.is_file() and not is_archive:
        raise ValueError(f"{str(place)!r} is a file, but neither a folder nor a zip of the whole class; name what you "
                         "downloaded of the students' files")
    if not place.is_dir() and not is_archive:
        raise ValueError(f"there is no folder {str(place)!r}; name the one with a folder or files of each student, or a "
                         "zip of the whole class")
    item = OnDisk(place.name, "", is_folder=not is_archive, path=str(place.resolve()))
    with contextlib.ExitStack() as stack:
        delivery = Delivery(list(only or []), stack)
        try:
            top = stack.enter_context(archives.opened(item, whole_class=True)) if is_archive else item
            delivery.assign_items(unwrapped(top, is_archive))
        except Unreadable as error:
            raise ValueError(f"{str(place)!r} {error}") from error
    delivery.check_downloads(place)
    if not delivery.handed_in:
        raise ValueError(no_students(place, delivery.bare))
    delivery.forget_starter_files()
    owners = {key: entries[0][0] for key, entries in delivery.handed_in.items()}
    notes = [*delivery.notes, *notes_on_names(delivery, owners)]
    if delivery.bare:
        notes.append(f"{first_names(delivery.bare)} lies beside the students' folders and belongs to no student")
    class_ = []
    for key, name in distinct_names(owners).items():
        student, sentences = build_student(name, delivery.handed_in[key], delivery.only)
        class_.append(student)
        notes += sentences
    return sorted(class_, key=lambda student: student.name), notes


def unwrapped(top, is_archive):
    """Returns the folder that holds the students: inside `top` if there is only one folder, which is no student's."""
    items = top.children()
    if len(items) != 1 or not items[0].is_folder or items[0].problem:
        return top
    inside = items[0].children()
    if holds_students(items[0]):
        return items[0]
    folders = [item for item in inside if item.is_folder or archives.is_archive(item.name)]
    is_class = len(folders) > 1 and not any(stem_of(item.name) and not item.is_folder for item in inside)
    of_exercises = any(numbers_in(item.name) or lessons_in(item.name) for item in folders)
    return items[0] if is_archive and is_class and not of_exercises else top


def no_students(place, bare):
    if bare:
        return (f"{str(place)!r} contains {one_line(bare[0])}, so it is a single folder of exercises; name the folder "
                "above it, with a folder for each student, or with files such as Kim_ex01_2.py")
    return f"{str(place)!r} contains no student's folder and no files such as Kim_ex01_2.py"
