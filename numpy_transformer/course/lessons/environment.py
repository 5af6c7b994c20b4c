"""Where a lesson runs: as a script, in an editor or in a notebook; which lesson it is, and where its figures go."""

import builtins
import os
import sys
from pathlib import Path

from .files import installed_lessons, lesson_number

FIGURES = "my-figures"                          # not figures/, which contains the committed pictures of a checkout
given_number = None                             # the number that a notebook passes to lesson.start


def in_notebook():
    """Returns True in a notebook and in an editor that runs cells in IPython."""
    return hasattr(builtins, "get_ipython")


def script():
    """Returns the path of the lesson that runs as a script, or None in a notebook."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    return Path(path) if lesson_number(path) else None


def running_lesson():
    """Returns the number of the lesson that runs, or None if nothing tells it.

    A notebook knows it from `lesson.start`, or from its own name, which VS Code and Jupyter's server give to the kernel.
    """
    names = (script(), getattr(sys.modules["__main__"], "__vsc_ipynb_file__", None), os.environ.get("JPY_SESSION_NAME"))
    return given_number or next(filter(None, map(lesson_number, names)), None)


def figure_folder():
    """Returns the folder for the figures: my-figures/ next to a folder lessons/, and otherwise inside the lesson's own folder.

    The figures of lessons that were installed with the package go to my-figures/ in the current folder.
    """
    path = script()
    folder = Path() if path is None else path.resolve().parent
    if path is not None and folder == installed_lessons():
        folder = Path()
    elif folder.absolute().name == "lessons":
        folder = folder / ".." if path is None else folder.parent
    return folder / FIGURES
