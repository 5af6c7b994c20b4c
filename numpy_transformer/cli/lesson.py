"""numpy-transformer lesson: list the lessons, or run one."""

import subprocess
import sys
from pathlib import Path

from .parser import add_command


def add(commands):
    parser = add_command(commands, "lesson", run, help="list the lessons, or run one",
                         description="Run a lesson straight through: it prints shapes and checks its own claims.")
    parser.add_argument("number", nargs="?", metavar="NN", help="the lesson's number, such as 05; none lists them")


def run(arguments):
    lessons = {path.name[:2]: path for path in sorted(lessons_folder().glob("[0-9][0-9]_*.py"))}
    if arguments.number is None:
        for path in lessons.values():
            print(path.name)
        return 0
    path = lessons.get(arguments.number.zfill(2))
    if path is None:
        raise ValueError(f"there is no lesson {arguments.number!r}; choose one of {', '.join(lessons)}")
    return subprocess.run([sys.executable, str(path)]).returncode


def lessons_folder():
    """lessons/ in the current folder, else beside the package."""
    for folder in (Path("lessons"), Path(__file__).resolve().parents[2] / "lessons"):
        if any(folder.glob("[0-9][0-9]_*.py")):
            return folder
    raise ValueError("there are no lessons in lessons/ here, nor beside the installed package; "
                     "run the command in a checkout of the project")
