"""numpy-transformer lesson: list the lessons, run one, copy them, or write one as a notebook."""

import re
import signal
import subprocess
import sys
from pathlib import Path

from ..course.lessons.cells import cells, reading_minutes
from ..course.lessons.files import copy_lessons, find_lessons, full_number, part_of
from ..course.lessons.translation import Translation, write_translation
from ..course.lessons.words import lesson_words
from ..texts import VARIABLE
from ..texts.width import columns
from .parser import add_command
from .terminal import wrap

ACTIONS = ("list", "start", "notebook")
# Runs a script. Ctrl-C ends it at once, without a traceback, until `lesson.start` gives Python's own handler back.
RUN = """import os, runpy, signal, sys
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
del sys.argv[0]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")"""


def add_to_parser(commands):
    parser = add_command(commands, "lesson", run, help="list the lessons, run one, or step through it",
                         description="Run a lesson. It prints shapes, draws figures and checks its own claims. The lessons are "
                                     "those in the current folder or in a folder inside it, and otherwise those that came "
                                     "with the package. Figures go to my-figures/: next to the folder if it is called "
                                     "lessons, inside a folder of copies, and otherwise in the current folder.")
    parser.add_argument("number", nargs="?", metavar="NN", default="list",
                        help="number of the lesson, such as 05; or list; or start FOLDER, which copies the lessons to a "
                             "folder of your own; or notebook NN, which writes a lesson as a Jupyter notebook")
    parser.add_argument("target", nargs="?", metavar="FOLDER or NN", help="folder for start, or number for notebook")
    parser.add_argument("--step", action="store_true",
                        help="pause at each cell: read it, inspect variables, answer its questions (needs a terminal)")
    parser.add_argument("--translation", metavar="FILE.md",
                        help="write the lesson's texts to a file for a translator, or bring such a file up to date")
    parser.add_argument("--out", metavar="FILE.ipynb", help="file for notebook (default: the lesson's name, in the current "
                                                            "folder)")


def run(arguments):
    check_options(arguments)
    if arguments.number == "list":
        print_list(find_lessons())
        return 0
    if arguments.number == "start":
        return start_lessons(arguments.target)
    if arguments.number == "notebook":
        return save_notebook(arguments.target, arguments.out)
    lesson, = choose_lessons([arguments.number])
    if arguments.translation is not None:
        return write_for_translator(lesson, Path(arguments.translation))
    return run_script(lesson, ["--step"] if arguments.step else [])


def check_options(arguments):
    """Raises ValueError for what this call would not use, and for what it lacks."""
    action = arguments.number
    if action not in ("start", "notebook") and arguments.target is not None:
        raise ValueError(lesson_words("command.no_effect", target=arguments.target, action=action))
    if action in ACTIONS and arguments.step:
        raise ValueError(lesson_words("command.step_runs", action=action))
    if arguments.translation is not None and (action in ACTIONS or arguments.step):
        raise ValueError(lesson_words("command.translation_of_lesson"))
    if action != "notebook" and arguments.out is not None:
        raise ValueError(lesson_words("command.out_of_notebook"))
    if action == "start" and not arguments.target:
        raise ValueError(lesson_words("command.no_folder"))
    if action == "notebook" and arguments.target is None:
        raise ValueError(lesson_words("command.no_lesson"))


def start_lessons(folder):
    """Copies the lessons to a folder and says how to go on."""
    if full_number(folder) and not Path(folder).is_dir():
        raise ValueError(lesson_words("command.looks_like_number", folder=folder))
    written, existing = copy_lessons(folder)
    kept = lesson_words("command.existing", n=existing) if existing else ""
    print(wrap(lesson_words("command.started", n=len(written), folder=folder) + kept))
    begin = "begin" if Path(folder).resolve().parent == Path.cwd() else "begin_there"
    print(wrap(lesson_words("command.links")))
    print(wrap(lesson_words(f"command.{begin}", folder=folder, command="numpy-transformer lesson 00 --step")))
    return 0


def write_for_translator(lesson, file):
    """Writes a lesson's texts to a file for a translator."""
    counts = write_translation(lesson, file)
    print(wrap(lesson_words("translation.written", file=file, number=full_number(lesson.name.partition("_")[0]),
                            variable=VARIABLE,
                            **counts)))
    return 0


def save_notebook(number, out):
    """Writes a lesson as a notebook."""
    from ..course.lessons.notebook import write_notebook  # not needed by the other actions

    lesson, = choose_lessons([number])
    path = write_notebook(lesson, out or f"{lesson.stem}.ipynb")
    print(wrap(lesson_words("command.notebook", path=path)))
    return 0


def print_list(lessons):
    """Prints number, title and minutes of each lesson in at most 60 columns, by part, and where to begin."""
    part = 0
    for number, path in lessons.items():
        if part_of(number) != part:
            part = part_of(number)
            print(f"\n{lesson_words(f'parts.{part}')}")
        title, minutes = headline(path)
        print(f"{number:<3} {title}{' ' * (43 - columns(title))} {minutes}".rstrip())
    print("\n" + wrap(lesson_words("command.begin", command=f"numpy-transformer lesson {min(lessons)} --step")))


def choose_lessons(numbers):
    """Returns the paths of the lessons with these numbers, or of all lessons if there are no numbers.

    Raises: ValueError for an unknown number.
    """
    lessons = find_lessons()
    for number in numbers:
        if full_number(number) not in lessons:
            raise ValueError(lesson_words("command.unknown", number=number, numbers=", ".join(lessons)))
    return [lessons[number] for number in dict.fromkeys(map(full_number, numbers))] or list(lessons.values())


def headline(path):
    """Returns the title of a lesson, from its first cell, and how many minutes it takes to read it."""
    every = cells(path.read_text(encoding="utf-8", errors="replace"))
    english = every[0].prose or "" if every else ""
    title = re.search(r"^# \d\d[a-z]? (.*)", Translation(path).of(english), re.M)
    return title[1] if title else path.stem, lesson_words("command.minutes", minutes=reading_minutes(every))


def run_script(path, arguments):
    """Runs a lesson as a separate script and returns its exit code. Ctrl-C interrupts only the lesson."""
    child = subprocess.Popen([sys.executable, "-c", RUN, str(path), *arguments])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = child.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    if code != -signal.SIGINT:
        return code
    print()                                     # behind the ^C that a terminal shows
    return 130
