"""numpy-transformer grade: students' files become a table, feedback, and a picture of what to teach again."""

import contextlib
import platform
import secrets
import signal
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

from .. import __version__
from ..classroom import report, rights
from ..classroom.exercises import choose_several, exercises
from ..classroom.grader import Grader
from ..classroom.journal import Journal
from ..classroom.submissions import students
from ..training.progress import Progress
from .parser import add_command, number, whole_number


def add(commands):
    parser = add_command(
        commands, "grade", run, help="grade the exercises of a whole class",
        description="Run every student's file in a process of its own, compare what it returns, and name the mistakes. "
                    "It stops accidents and forged scores, not a program that means harm: for a class that you do not "
                    "trust, run it in a container or under an account of its own.")
    parser.add_argument("folder", metavar="FOLDER", help="a folder for each student, or files such as Kim_ex01_2.py")
    parser.add_argument("--out", metavar="FILE", type=Path, default=Path("scores.csv"),
                        help="the table; one that is there becomes FILE.bak")
    parser.add_argument("--json", metavar="FILE", type=Path, help="the same with all details")
    parser.add_argument("--feedback", metavar="DIR", type=Path, help="a text file for each student")
    parser.add_argument("--picture", metavar="FILE", type=Path,
                        help="of the class (default: beside the table and named like it, .png)")
    parser.add_argument("--only", metavar="NN", action="append", help="these exercises, such as 05.2 or 05.1,05.2, or those of a lesson, such as 05; "
                        "else those for which anybody handed in a file")
    parser.add_argument("--timeout", type=number(0.5, 3600), default=10.0, help="seconds for each file")
    parser.add_argument("--memory", type=whole_number(256, 1 << 20), default=1024, help="megabytes for each file")
    parser.add_argument("--jobs", type=whole_number(1, 64), default=2, help="files that run at the same time")
    parser.add_argument("--seed", type=whole_number(0), help="of the cases (default: a secret one, which is told)")
    parser.add_argument("--allow-root", action="store_true", help="grade as root; the students' files run as nobody if "
                        "Python can be read by that user")


def run(arguments):
    if rights.is_root() and not arguments.allow_root:
        raise ValueError("you are root, and this runs students' programs: use an ordinary account, or --allow-root")
    if hasattr(signal, "SIGTERM") and threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGTERM, interrupted)
    else:
        before = None
    try:
        return grade(arguments)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def interrupted(*_):
    raise KeyboardInterrupt


def grade(arguments):
    check_places(arguments)
    texts = filter(None, map(str.strip, ",".join(arguments.only or []).split(",")))
    wanted = list(dict.fromkeys(exercise for text in texts for exercise in choose_several(text)))
    class_, strange = students(arguments.folder, wanted[0].number if len(wanted) == 1 else None)
    known = exercises()
    handed_in = {number for student in class_ for number in student.files}
    chosen = wanted or [known[number] for number in sorted(handed_in & set(known))]
    if not chosen:
        raise ValueError(f"no file in {str(arguments.folder)!r} has the name of an exercise, such as "
                         f"{next(iter(known.values())).file}; rename them, or name the exercise with --only")
    strange += [f"ex{number.replace('.', '_')}" for number in sorted(handed_in - set(known))]
    if strange:
        print(f"left out, as they are for no exercise: {', '.join(strange[:10])}", file=sys.stderr)
    settings = make_settings(arguments)
    rows = graded(arguments, settings, class_, chosen)
    publish(arguments, settings, rows, chosen)
    return 0


def check_places(arguments):
    """Before the work: everything can be written where it is to go."""
    from .. import views                        # matplotlib is slow to import
    places = [arguments.out, arguments.json, arguments.feedback,
              arguments.picture or arguments.out.with_suffix(".png")]
    if len({path.resolve() for path in places if path}) < len([path for path in places if path]):
        raise ValueError("table, JSON, feedback and picture go to different places; two of them have the same name")
    arguments.picture = views.check_file(places[3])
    for path in filter(None, (arguments.out, arguments.json)):
        try:
            if path.is_dir():
                raise IsADirectoryError(21, "it is a folder")
            tempfile.TemporaryFile(dir=path.parent).close()
        except OSError as error:
            raise ValueError(f"cannot write {str(path)!r}: {error.strerror}; name a file in a folder that is there"
                             ) from error
    if arguments.feedback:
        if arguments.feedback.is_file():
            raise ValueError(f"--feedback {arguments.feedback} is a file; name a folder, new or not")
        if arguments.feedback.resolve().parent == Path(arguments.folder).resolve():
            raise ValueError(f"--feedback {arguments.feedback} would count as a student there; name a folder outside "
                             f"of {arguments.folder}")
        views.check_folder(arguments.feedback)


def make_settings(arguments):
    seed = Journal.seed(journal_of(arguments)) if arguments.seed is None else arguments.seed
    versions = {"numpy_transformer": __version__, "numpy": np.__version__, "python": platform.python_version()}
    return {"seed": secrets.randbelow(1 << 31) if seed is None else seed, "timeout": arguments.timeout,
            "memory": arguments.memory, "folder": str(Path(arguments.folder).resolve()), "versions": versions}


def journal_of(arguments):
    return arguments.out.with_name(arguments.out.name + ".part")


def graded(arguments, settings, class_, chosen):
    """The rows of the class, sorted. Raises KeyboardInterrupt that says what is kept."""
    journal, rows, total = Journal(journal_of(arguments), settings), [], len(class_) * len(chosen)
    print(f"{len(class_)} students, {len(chosen)} exercises, seed {settings['seed']}", file=sys.stderr)
    users = rights.users(arguments.jobs)
    for sentence in rights.warnings(users):
        print(sentence, file=sys.stderr)
    if journal.rows:
        print(f"{len(journal.rows)} rows are there from an interrupted run", file=sys.stderr)
    grader = Grader(settings["seed"], arguments.timeout, arguments.memory, users, journal.rows)
    try:
        with rights.private(), Progress(total, "grade", "file") as progress, \
                contextlib.closing(grader.grade(class_, chosen)) as results:
            for row in results:
                journal.add(row)
                rows.append(row)
                progress.advance(f"{row.student} {row.exercise}")
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"{len(rows)} of {total} rows kept in {journal.path}; run the same command again to "
                                "go on") from stop
    finally:
        journal.file.close()
    return sorted(rows, key=lambda row: (row.student, row.number))


def publish(arguments, settings, rows, chosen):
    """Write everything, and say what the class is like. The journal goes last."""
    from .. import views
    summary = report.summary(rows, chosen)
    report.write_csv(rows, arguments.out)
    written = [str(arguments.out)]
    if arguments.json:
        told = {name: value for name, value in settings.items() if name != "folder"}
        report.write_json(report.document(rows, told, summary), arguments.json)
        written.append(str(arguments.json))
    if arguments.feedback:
        count = report.write_feedback(rows, chosen, arguments.feedback)
        written.append(f"{arguments.feedback} ({count} files)")
    written.append(str(views.write(views.class_mistakes(summary["exercises"], summary["mistakes"]), arguments.picture)))
    journal_of(arguments).unlink()
    for line in report.in_words(summary):
        print(line)
    passed = sum(row.status == "pass" for row in rows)
    print(f"\n{passed} of {len(rows)} passed; written: {', '.join(written)}; "
          f"--seed {settings['seed']} gives the same cases")
