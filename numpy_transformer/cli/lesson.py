"""numpy-transformer lesson: list the lessons, or run one."""

import re
import signal
import subprocess
import sys
from pathlib import Path

from ..classroom.lesson_files import full_number, lessons_in
from .parser import add_command


def add(commands):
    parser = add_command(commands, "lesson", run, help="list the lessons, run one, or step through it",
                         description="Run a lesson. It prints shapes, draws figures and checks its own claims.")
    parser.add_argument("number", nargs="?", metavar="NN", default="list",
                        help="number of the lesson, such as 05, or list")
    parser.add_argument("--step", action="store_true",
                        help="pause at each cell: read it, inspect variables, answer its questions (needs a terminal)")


def run(arguments):
    if arguments.number == "list":
        print_list(find_lessons())
        return 0
    return run_script(choose_lessons([arguments.number])[0], ["--step"] if arguments.step else [])


def print_list(lessons):
    """Prints number, title and minutes of each lesson in at most 60 columns."""
    for number, path in lessons.items():
        title, minutes = headline(path)
        print(f"{number:<3} {title:<43} {minutes}".rstrip())


def find_lessons():
    """Returns {number: path} of the lessons in lessons/ here, or else in the checkout that contains this package."""
    here = Path() if Path.cwd().name == "lessons" else Path("lessons")
    for folder in (here, Path(__file__).resolve().parents[2] / "lessons"):
        lessons = lessons_in(folder)
        if lessons:
            return lessons
    raise ValueError("there are no lessons in lessons/ here, and the installed package does not contain them; "
                     "run the command in a checkout of the project")


def choose_lessons(numbers):
    """Returns the paths of the lessons with these numbers, or of all lessons if there are no numbers.

    Raises: ValueError for an unknown number, after printing the list.
    """
    lessons = find_lessons()
    for number in numbers:
        if full_number(number) not in lessons:
            print_list(lessons)
            raise ValueError(f"there is no lesson {number!r}; choose one of {', '.join(lessons)}")
    return [lessons[number] for number in dict.fromkeys(map(full_number, numbers))] or list(lessons.values())


def headline(path):
    """Returns the title of a lesson and its minutes of reading, from its first cell."""
    text = path.read_text(encoding="utf-8", errors="replace").split("\n# %% ")[0]
    title, minutes = re.search(r"^# # \d\d[a-z]? (.*)", text, re.M), re.search(r"\d+ minutes", text)
    return title[1] if title else path.stem, minutes[0] if minutes else ""


def run_script(path, arguments):
    """Runs a lesson as a separate script and returns its exit code. Ctrl-C interrupts only the lesson."""
    child = subprocess.Popen([sys.executable, str(path), *arguments])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = child.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return 130 if code == -signal.SIGINT else code
