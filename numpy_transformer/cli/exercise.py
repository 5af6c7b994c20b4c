"""numpy-transformer exercise: files to fill in, a checker that explains mistakes, hints and solutions."""

import re
import secrets
import textwrap
import time
from pathlib import Path

from ..course.checker.feedback import WIDTH, differences, feedback, needs_gradients
from ..course.exercises import choose_one, choose_several, exercises
from ..course.workbook import Workbook, start_workbook
from ..texts import width as text_width
from .parser import CommandParser, Formatter, finite_number, whole_number
from .terminal import output_columns, wrap

FIXED_COLUMNS = 42                              # of the list, besides the title
NUMBER = re.compile(r"(?:ex)?[0-9]{1,2}(?:[._][0-9])?")


def add_to_parser(commands):
    parser = commands.add_parser("exercise", formatter_class=Formatter, help="exercises that are checked as you go",
                                 description="Create files to fill in, check them, and read what is wrong.")
    parser.add_argument("--traceback", action="store_true", help="show the Python traceback of an error")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=CommandParser)

    add_action(actions, "list", show_list, "list all exercises and your progress")

    action = add_action(actions, "start", start_folder, "create the files to fill in, in a folder of your own", False)
    action.add_argument("folder", metavar="FOLDER", help="new or existing folder; existing files are not changed")
    add_numbers(action, "without numbers: all exercises")

    action = add_action(actions, "check", check_command, "check exercises")
    add_numbers(action, "all: every file in the folder; without numbers: the first exercise that is not passed")
    add_limits(action)

    action = add_action(actions, "watch", watch, "check a file each time you save it")
    add_limits(action)
    action.add_argument("--every", type=finite_number(0.05), default=0.5, metavar="SECONDS",
                        help="time between two checks for saved files")

    action = add_action(actions, "hint", hint, "show the next of an exercise's three hints")
    add_number(action)
    action.add_argument("--all", action="store_true", help="show all three hints")

    action = add_action(actions, "reset", reset, "replace a file by a new one; your version is kept as .bak")
    add_number(action)

    action = add_action(actions, "solution", solution, "show the solution of an exercise that you have passed")
    add_number(action)
    action.add_argument("--give-up", action="store_true", help="show it before the exercise is passed")

    action = add_action(actions, "gradescope-zip", gradescope_zip, "make the autograder of an assignment on Gradescope",
                        False)
    action.add_argument("file", metavar="FILE", type=Path, help="the zip to write")
    add_numbers(action, "stage5, or stages, for stages of `build`; without numbers: all exercises")
    action.add_argument("--seed", type=whole_number(0), metavar="N",
                        help="seed of the cases (default: a secret one, kept in the zip)")
    action.add_argument("--timeout", type=finite_number(0.5, 3600), default=10.0, metavar="SECONDS",
                        help="time limit per exercise")
    action.add_argument("--late", metavar="RATE", help="deduction after Gradescope's due date, such as 10%%/day "
                                                       "(default: none)")
    action.add_argument("--trust-students", action="store_true",
                        help="grade without a sandbox if Gradescope's container allows none: a program can then read the "
                             "solutions and write its own score")


def add_action(actions, name, run, text, folder_option=True):
    action = actions.add_parser(name, formatter_class=Formatter, help=text, description=f"{text[0].upper()}{text[1:]}.")
    action.set_defaults(run=run)
    if folder_option:
        action.add_argument("--folder", help="folder with your files (default: the current folder, or my-exercises or "
                                             "exercises inside it)")
    return action


def add_number(action):
    action.add_argument("number", metavar="NN.N", help="number of an exercise, such as 05.2")


def add_numbers(action, otherwise):
    action.add_argument("numbers", metavar="NN.N", nargs="*",
                        help=f"numbers of exercises, such as 05.1 05.2, or of lessons, such as 05, or test1 to test5, "
                             f"the tests at the end of the parts; {otherwise}")


def add_limits(action):
    action.add_argument("--seed", type=whole_number(0), default=0, metavar="N", help="seed of the arrays in the cases")
    action.add_argument("--timeout", type=finite_number(0.1), default=10.0, metavar="SECONDS",
                        help="time limit per exercise")


def chosen(arguments, book=None):
    """Returns the exercises that the arguments name; for the word all, those of the workbook, or every one."""
    if arguments.numbers == ["all"]:
        return book.present() if book else list(exercises().values())
    return choose_several(arguments.numbers)


def chosen_one(arguments):
    """Returns the exercise that the argument names."""
    return choose_one(arguments.number)


def find_workbook(arguments):
    """Returns the student's folder, or None if there is none and --folder was not given."""
    try:
        return Workbook(arguments.folder)
    except ValueError:
        if arguments.folder is not None:
            raise
        return None


def show_list(arguments):
    book = find_workbook(arguments)
    progress = book.progress() if book else {}
    for exercise in exercises().values():
        print(list_row(exercise, str(progress.get(exercise.number, {}).get("status", ""))))
    return 0


def list_row(exercise, state):
    """Returns one line of the list, or several if the title does not fit next to the other columns."""
    title_width = min(52, output_columns() - FIXED_COLUMNS)
    title, *rest = text_width.wrap(exercise.title, title_width)
    title += " " * (title_width - text_width.columns(title))
    points = f"{exercise.points} point{'' if exercise.points == 1 else 's'}"
    row = f"{exercise.number} {title} {exercise.kind:<12} {exercise.minutes:>2} min {points:<8} {state}"
    return "\n".join([row.rstrip(), *(f"     {line}" for line in rest)])


def start_folder(arguments):
    if NUMBER.fullmatch(arguments.folder) and not Path(arguments.folder).is_dir():
        numbers = " ".join([arguments.folder, *arguments.numbers])
        raise ValueError(f"{arguments.folder!r} looks like the number of an exercise; name a folder first, as in "
                         f"numpy-transformer exercise start my-exercises {numbers}")
    if Path(arguments.folder).is_file():
        raise ValueError(f"{arguments.folder} is a file; name a folder, new or existing")
    wanted = chosen(arguments) or list(exercises().values())
    written = start_workbook(arguments.folder, wanted)
    existing = len(wanted) - len(written)
    print(f"{len(written)} {'file' if len(written) == 1 else 'files'} written to {arguments.folder}"
          + (f"; {existing} existed already and did not change" if existing else ""))
    first = wanted[0]
    print(f"Start with {Path(arguments.folder) / first.file}, then run: "
          f"numpy-transformer exercise check {first.number}{folder_option(arguments)}")
    return 0


def folder_option(arguments):
    """Returns the --folder option for a command that is suggested to the student, or "" if it is not needed."""
    folder = arguments.folder
    if folder is None:
        return ""
    return f' --folder "{folder}"' if " " in folder else f" --folder {folder}"


def check_command(arguments):
    book = Workbook(arguments.folder)
    wanted = chosen(arguments, book) or list(filter(None, [book.next()]))
    if not wanted:
        print(f"All {len(book.present())} exercises in {book.folder} are passed.")
        return 0
    results = [check_one(book, exercise, arguments) for exercise in wanted]
    if len(results) > 1:
        print(f"{sum(results)} of {len(results)} passed")
    return 0 if all(results) else 1


def check_one(book, exercise, arguments):
    """Checks an exercise and prints the feedback. Returns True if it is passed."""
    verdict, result, answer_key = book.check(exercise, arguments.seed, arguments.timeout)
    width = min(output_columns(), WIDTH)
    for line in feedback(exercise, verdict, result.printed, width):
        print(line)
    if needs_gradients(exercise, verdict):
        table = differences(book.path(exercise), exercise, answer_key.main_cases[0], width - 2)
        print(textwrap.indent(table, "  "))
    if verdict.status == "pass" and not book.passed(exercise):
        print(f"  {book.folder} cannot be written to: your progress is not saved, and the solution needs --give-up")
    elif verdict.status == "pass":
        print(f"  solution: numpy-transformer exercise solution {exercise.number}{folder_option(arguments)}")
        following = book.next()
        if following:
            print(f"  next: {following.file}")
    return verdict.status == "pass"


def watch(arguments):
    book = Workbook(arguments.folder)
    print(f"Watching {book.folder}: each file is checked when you save it. Ctrl-C ends.", flush=True)
    seen = saved_files(book)
    try:
        while True:
            time.sleep(arguments.every)
            now = saved_files(book)
            for exercise in [exercise for exercise, state in now.items() if seen.get(exercise) != state]:
                try:
                    check_one(book, exercise, arguments)
                except (ValueError, OSError) as error:      # deleted or unreadable at the moment; it may come back
                    print(error)
                print(flush=True)
            seen = now
    except KeyboardInterrupt:
        print()
        return 0


def saved_files(book):
    """Returns {exercise: (time of the last change, size)} of the files in the folder."""
    states = {}
    for exercise in book.present():
        try:
            status = book.path(exercise).stat()
        except OSError:                         # deleted a moment ago
            continue
        states[exercise] = status.st_mtime_ns, status.st_size
    return states


def hint(arguments):
    exercise, count = chosen_one(arguments), 1
    book = find_workbook(arguments)
    if book is not None:
        count = min(3, book.hints(exercise) + 1)
        book.save_progress(exercise, hints=count)
    count = 3 if arguments.all else count
    for i, text in enumerate(exercise.hints[:count], 1):
        print(wrap(text, "   ", f"{i}. "))
    if count < 3:
        where = "" if book else " in a folder with the exercises"
        print(wrap(f"(For the next hint, run the same command again{where}; --all shows all three.)"))
    return 0


def reset(arguments):
    book, exercise = Workbook(arguments.folder), chosen_one(arguments)
    backup = book.reset(exercise)
    kept = f"; your version is now {backup.name}" if backup else ""
    print(f"{book.path(exercise)} is a new file{kept}")
    return 0


def solution(arguments):
    exercise = chosen_one(arguments)
    if not arguments.give_up and not Workbook(arguments.folder).passed(exercise):
        raise ValueError(f"exercise {exercise.number} is not passed yet; try hint {exercise.number}, or use --give-up "
                         "to see the solution anyway")
    print(exercise.text.rstrip())
    return 0


def gradescope_zip(arguments):
    from ..grading.gradable import choose_gradable  # students do not need the grader
    from ..grading.gradebooks.autograder import write_zip
    from ..grading.gradebooks.filling import counted_work
    from ..grading.lateness import Rate
    wanted = list(exercises().values()) if arguments.numbers in ([], ["all"]) else choose_gradable(arguments.numbers)
    seed = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    if arguments.late:
        Rate.parse(arguments.late)              # for its errors
    write_zip(arguments.file, wanted, seed, arguments.timeout, arguments.trust_students, arguments.late)
    points = sum(exercise.points for exercise in wanted)
    print(wrap(f"{arguments.file}: the autograder for {counted_work([one.number for one in wanted])} with {points} points. Upload it on "
               "Gradescope under Configure Autograder; README.md inside says what to know. It holds the solutions and the "
               "seed: do not give it to students."))
    return 0
