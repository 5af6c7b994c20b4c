"""The course: functions for the scripts of the lessons, which open the lesson runner on first use.

lessons/      runs a lesson step by step
exercises/    what students write, how it is drawn, and the known mistakes
sandbox/      runs students' files apart from everything
checker/      compares an answer with the solution, and says what is wrong and where
stages/       build your own Transformer: the files, their checks inside the whole model, and a student's folder
helpers.py    what sheets import, because other exercises ask for it
workbook.py   a student's folder with exercise files; own_files.py writes what is kept in it
exercise.py   `nt.exercise` for notebooks
"""

from typing import TYPE_CHECKING

from ..first_use import opens_on_first_use

if TYPE_CHECKING:
    from .lessons import lesson
    from .lessons.helpers import claim, drawing, figure, predict, show, slopes
    from .lessons.sources import show_source

__all__ = ["claim", "drawing", "figure", "lesson", "predict", "show", "show_source", "slopes"]

__getattr__ = opens_on_first_use(__name__, {"lesson": "lessons.lesson", "show_source": "lessons.sources", **dict.fromkeys(
    ["claim", "drawing", "figure", "predict", "show", "slopes"], "lessons.helpers")})


def __dir__() -> list[str]:
    return __all__
