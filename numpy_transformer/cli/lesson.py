"""numpy-transformer lesson: list the lessons, or run one."""

import re
import signal
import subprocess
import sys
from pathlib import Path

from .parser import add_command


def add(commands):
    parser = add_command(commands, "lesson", run, help="list the lessons, run one, or step through it",
                         description="Run a lesson: it prints shapes, draws figures and checks its own claims.")
    parser.add_argument("number", nargs="?", metavar="NN", default="list",
                        help="the lesson's number, such as 05; or list")
    parser.add_argument("--step", action="store_true",
                        help="pause at each cell, where there is a terminal: show its text, run it, answer keys")


def run(arguments):
    if arguments.number == "list":
        for path in find_lessons().values():
            print(path.name[:2], headline(path))
        return 0
    return run_script(choose_lessons([arguments.number])[0], ["--step"] * arguments.step)


def find_lessons():
    """{number: path}, from lessons/ in the current folder, else beside the package."""
    here = Path() if Path.cwd().name == "lessons" else Path("lessons")
    for folder in (here, Path(__file__).resolve().parents[2] / "lessons"):
        lessons = {path.name[:2]: path for path in sorted(folder.glob("[0-9][0-9]_*.py")) if path.is_file()}
        if lessons:
            return lessons
    raise ValueError("there are no lessons in lessons/ here, nor beside the installed package; "
                     "run the command in a checkout of the project")


def choose_lessons(numbers):
    """The paths of the lessons with these numbers; all of them if there are none. An unknown one shows the list."""
    lessons = find_lessons()
    for number in numbers:
        if number.zfill(2) not in lessons or not number:
            for path in lessons.values():
                print(path.name[:2], headline(path))
            raise ValueError(f"there is no lesson {number!r}; choose one of {', '.join(lessons)}")
    return [lessons[number.zfill(2)] for number in dict.fromkeys(numbers)] or list(lessons.values())


def headline(path):
    """Title and minutes, from the lesson's own first cell."""
    text = path.read_text(encoding="utf-8", errors="replace").split("\n# %% ")[0]
    title, minutes = re.search(r"^# # \d\d (.*)", text, re.M), re.search(r"\d+ minutes", text)
    return f"{title[1] if title else path.stem:46} {minutes[0] if minutes else ''}".rstrip()


def run_script(path, arguments):
    """Run a lesson as a script of its own; its exit code. While it runs, Ctrl-C is for the lesson alone."""
    child = subprocess.Popen([sys.executable, str(path), *arguments])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = child.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return 130 if code == -signal.SIGINT else code
