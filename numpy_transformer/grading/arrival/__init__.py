"""Reads a class as it was delivered. Runs nothing, follows no link, and writes nothing.

records.py      what comes out: students with attempts, other files, problems and remarks
whole_class.py  reads a class: recognizes its form, and asks for one student after the other

In the teacher's process, by the names at the top alone:
class_place.py  what the teacher named, with downloads of whole classes in it
delivery.py     who handed in what; formats.py, gradescope.py and github.py know how each system names things
items.py, archives.py   files and folders on the disk and in archives
text.py         names as people read them, times that can be, and what is unusual in a file

In a process with limits, for one student at a time:
reading_process.py, student_reading.py  the process, as the teacher's sees it, and what runs in it
search.py       what one student handed in, in folders, archives and notebooks (notebooks.py)
downloads.py, clones.py  the download of a whole class in a student's place, and clones of repositories
names.py        which exercise a file belongs to, by its name and by what it defines (statements.py)
reading.py      bytes to source: encodings, line ends, and what word processors put into code
students.py     attempts in order, and the names under which files import each other
"""

from .reading_process import ready_to_read
from .records import File, Problem, Student
from .whole_class import LAYOUTS, read_class

__all__ = ["LAYOUTS", "File", "Problem", "Student", "read_class", "ready_to_read"]
