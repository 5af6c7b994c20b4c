"""numpy-transformer exercise: files to fill in, a checker that names mistakes, hints, solutions."""

import textwrap
import time
from pathlib import Path

from ..classroom.exercises import choose_several, exercises
from ..classroom.feedback import differences, feedback
from ..classroom.workbook import Workbook, start
from .parser import Formatter, Parser, number, whole_number


def add(commands):
    parser = commands.add_parser("exercise", formatter_class=Formatter, help="exercises, checked as you go",
                                 description="Fill in the files, check them, read which mistake it is.")
    parser.add_argument("--traceback", action="store_true", help="show the Python traceback of an error")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    for name, run, text, several in (
            ("list", show_list, "all exercises, and what is done", None),
            ("start", start_folder, "copy the files to fill in into a folder of your own", "*"),
            ("check", check, "check one, several or all; without a number the first that is not passed", "*"),
            ("watch", watch, "check a file as often as it is saved", None),
            ("hint", hint, "the next hint of an exercise, of three", 1),
            ("reset", reset, "begin an exercise anew; what was there is kept as .bak", 1),
            ("solution", solution, "the solution of an exercise, once it is passed", 1)):
        action = actions.add_parser(name, formatter_class=Formatter, help=text,
                                    description=text[0].upper() + text[1:] + ".")
        action.set_defaults(run=run)
        if name == "start":
            action.add_argument("folder", metavar="FOLDER", help="new or not; files that are there stay as they are")
        else:
            action.add_argument("--folder", help="where the files are; else the current folder, my-exercises or "
                                                 "exercises")
        if several == 1:
            action.add_argument("number", metavar="NN", help="number of an exercise, such as 05.2")
        elif several:
            action.add_argument("numbers", metavar="NN", nargs=several, default=[], help="numbers of exercises, such as 05.1 05.2, or of lessons, such as 05; "
                                + ("all: every file in the folder" if name == "check" else "without any: all"))
        if name in ("check", "watch"):
            action.add_argument("--seed", type=whole_number(0), default=0, metavar="N",
                                help="another one draws other arrays")
            action.add_argument("--timeout", type=number(0.1), default=10.0, metavar="SECONDS", help="for one exercise")
        if name == "watch":
            action.add_argument("--every", type=number(0.05), default=0.5, metavar="SECONDS", help="between two looks")
        if name == "hint":
            action.add_argument("--all", action="store_true", help="tell all three")
        if name == "solution":
            action.add_argument("--give-up", action="store_true", help="show it before the exercise is passed")


def chosen(arguments, every=()):
    """The exercises that the numbers name, or `every`."""
    if arguments.numbers == ["all"]:
        return every
    texts = filter(None, ",".join(arguments.numbers).split(","))
    return list(dict.fromkeys(exercise for text in texts for exercise in choose_several(text)))


def choose_one(text):
    found = choose_several(text)
    if len(found) > 1:
        numbers = [exercise.number for exercise in found]
        raise ValueError(f"lesson {found[0].lesson} has the exercises {', '.join(numbers)}; name one of them")
    return found[0]


def found(arguments):
    """The student's folder; None if there is none, and none is named."""
    try:
        return Workbook(arguments.folder)
    except ValueError:
        if arguments.folder is not None:
            raise


def show_list(arguments):
    book = found(arguments)
    progress = book.progress() if book else {}
    for exercise in exercises().values():
        state = progress.get(exercise.number, {}).get("status", "")
        print(f"{exercise.number} {exercise.title:<52} {exercise.kind:<13} "
              f"{exercise.minutes:>2} minutes  {exercise.points} points  {state}".rstrip())
    return 0


def start_folder(arguments):
    if Path(arguments.folder).is_file():
        raise ValueError(f"{arguments.folder} is a file; name a folder, new or not")
    wanted = chosen(arguments) or list(exercises().values())
    written = start(arguments.folder, wanted)
    print(f"{len(written)} file{'s' * (len(written) != 1)} written to {arguments.folder}"
          + f"; there already, and left as they are: {len(wanted) - len(written)}" * (len(written) < len(wanted)))
    first = wanted[0]
    print(f"Begin with {Path(arguments.folder) / first.file}, then: "
          f"numpy-transformer exercise check {first.number}{option(arguments)}")
    return 0


def option(arguments):
    """--folder for a command that is told to the student, if it is needed."""
    folder = arguments.folder
    return "" if folder is None else f' --folder "{folder}"' if " " in folder else f" --folder {folder}"


def check(arguments):
    book = Workbook(arguments.folder)
    present = [exercise for exercise in exercises().values() if book.path(exercise).is_file()]
    wanted = chosen(arguments, present) or list(filter(None, [book.next()]))
    if not wanted:
        print(f"All {len(present)} exercises in {book.folder} are passed.")
        return 0
    results = [check_one(book, exercise, arguments) for exercise in wanted]
    if len(results) > 1:
        print(f"{sum(results)} of {len(results)} passed")
    return 0 if all(results) else 1


def check_one(book, exercise, arguments):
    """Check, print the feedback; whether it is passed."""
    verdict, came, library = book.check(exercise, arguments.seed, arguments.timeout)
    for line in feedback(exercise, verdict, came.printed):
        print(line)
    if verdict.stage in ("values", "shape") and exercise.is_class and not verdict.explained:
        print(textwrap.indent(differences(book.path(exercise), exercise, library.main[0]), "  "))
    if verdict.status == "pass" and not book.passed(exercise):
        print(f"  {book.folder} cannot be written to: progress is not kept, and the solution needs --give-up")
    elif verdict.status == "pass":
        following = book.next()
        print(f"  the solution: numpy-transformer exercise solution {exercise.number}{option(arguments)}"
              + (f"; next: {following.file}" if following else ""))
    return verdict.status == "pass"


def watch(arguments):
    book = Workbook(arguments.folder)
    print(f"Watching {book.folder}; save a file and it is checked. Ctrl-C ends.", flush=True)
    seen = saved(book)
    try:
        while True:
            time.sleep(arguments.every)
            now = saved(book)
            for exercise in [exercise for exercise, when in now.items() if seen.get(exercise) != when]:
                try:
                    check_one(book, exercise, arguments)
                except (ValueError, OSError) as error:      # gone again, or closed to us; it may come back
                    print(error)
                print(flush=True)
            seen = now
    except KeyboardInterrupt:
        print()
        return 0


def saved(book):
    """When each file was written, and how long it is."""
    found = {}
    for exercise in exercises().values():
        try:
            status = book.path(exercise).stat()
        except OSError:
            continue
        found[exercise] = status.st_mtime_ns, status.st_size
    return found


def hint(arguments):
    exercise, count = choose_one(arguments.number), 1
    book = found(arguments)
    if book is not None:
        count = min(3, book.hints(exercise) + 1)
        book.note(exercise, hints=count)
    count = 3 if arguments.all else count
    for i, text in enumerate(exercise.hints[:count], 1):
        print(textwrap.fill(f"{i}. {text}", 110, subsequent_indent="   "))
    if count < 3:
        print("(the same command again, in a folder with the exercises, tells the next one; --all tells all three)")
    return 0


def reset(arguments):
    book, exercise = Workbook(arguments.folder), choose_one(arguments.number)
    kept = book.reset(exercise)
    print(f"{book.path(exercise)} is as it was at the start" + f"; what was there is in {kept}" * (kept is not None))
    return 0


def solution(arguments):
    exercise = choose_one(arguments.number)
    if not arguments.give_up and not Workbook(arguments.folder).passed(exercise):
        raise ValueError(f"exercise {exercise.number} is not passed yet; try hint {exercise.number}, or see it all the "
                         "same with --give-up")
    print(exercise.text.rstrip())
    return 0
