"""numpy-transformer grade: turns students' files into a table, feedback and a picture of the class's mistakes."""

import contextlib
import errno
import platform
import secrets
import signal
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

from .. import __version__
from ..classroom.exercises import choose_several, exercises
from ..classroom.sandbox import rights
from ..grading import report
from ..grading.grader import Grader
from ..grading.journal import Journal
from ..grading.submissions import students
from ..training.progress import Progress
from .parser import add_command, number, whole_number
from .terminal import columns, wrap


def add(commands):
    parser = add_command(
        commands, "grade", run, help="grade the exercises of a whole class",
        description="Run every student's file in a separate process, compare the results with the correct ones, and "
                    "name the mistakes. This protects against accidents and forged scores, but not against malicious "
                    "programs: if you do not trust the class, grade in a container or with a separate account.")
    parser.add_argument("folder", metavar="FOLDER", help="a folder for each student, or files such as Kim_ex01_2.py")
    parser.add_argument("--out", metavar="FILE", type=Path, default=Path("scores.csv"),
                        help="the table; an existing file is renamed to FILE.bak")
    parser.add_argument("--json", metavar="FILE", type=Path, help="the same results with all details")
    parser.add_argument("--feedback", metavar="DIR", type=Path, help="a text file for each student")
    parser.add_argument("--picture", metavar="FILE", type=Path,
                        help="picture of the class's results (default: the table's name with .png)")
    parser.add_argument("--only", metavar="NN.N", action="append",
                        help="grade only these exercises, such as 05.2 or 05.1,05.2, or a lesson's, such as 05 "
                             "(default: all for which at least one student submitted a file)")
    parser.add_argument("--timeout", type=number(0.5, 3600), default=10.0, help="time limit for each file, in seconds")
    parser.add_argument("--memory", type=whole_number(256, 1 << 20), default=1024,
                        help="memory limit for each file, in megabytes")
    parser.add_argument("--jobs", type=whole_number(1, 64), default=2, help="number of files that run at the same time")
    parser.add_argument("--seed", type=whole_number(0),
                        help="seed of the cases (default: a secret one, which is printed)")
    parser.add_argument("--allow-root", action="store_true", help="grade as root; students' files then run as the user "
                        "nobody, if that user can read the Python installation")


def run(arguments):
    if rights.is_root() and not arguments.allow_root:
        raise ValueError("refusing to run students' programs as root; use an ordinary account, or --allow-root")
    if hasattr(signal, "SIGTERM") and threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGTERM, raise_interrupt)
    else:
        before = None
    try:
        return grade(arguments)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def raise_interrupt(*_):
    raise KeyboardInterrupt


def grade(arguments):
    check_places(arguments)
    wanted = choose_several(arguments.only or [])
    class_, unknown = students(arguments.folder, wanted[0].number if len(wanted) == 1 else None)
    known = exercises()
    submitted = {number for student in class_ for number in student.files}
    chosen = wanted or [known[number] for number in sorted(submitted & set(known))]
    if not chosen:
        raise ValueError(f"no file in {str(arguments.folder)!r} is named after an exercise, such as "
                         f"{next(iter(known.values())).file}; rename the files, or name the exercise with --only")
    unknown += [f"ex{number.replace('.', '_')}" for number in sorted(submitted - set(known))]
    if unknown:
        print(f"not graded, because they belong to no exercise: {', '.join(unknown[:10])}", file=sys.stderr)
    settings = make_settings(arguments)
    rows = graded(arguments, settings, class_, chosen)
    publish(arguments, settings, rows, chosen)
    return 0


def check_places(arguments):
    """Checks before the work that every output can be written. Raises ValueError."""
    from .. import views                        # matplotlib is slow to import
    places = [arguments.out, arguments.json, arguments.feedback,
              arguments.picture or arguments.out.with_suffix(".png")]
    given = [path for path in places if path]
    if len({path.resolve() for path in given}) < len(given):
        raise ValueError("table, JSON, feedback and picture need different names; two of them have the same name")
    arguments.picture = views.check_file(places[3])
    for path in filter(None, (arguments.out, arguments.json)):
        try:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            tempfile.TemporaryFile(dir=path.parent).close()
        except OSError as error:
            raise ValueError(f"cannot write {str(path)!r}: {error.strerror}; name a file in an existing folder"
                             ) from error
    if arguments.feedback:
        if arguments.feedback.is_file():
            raise ValueError(f"--feedback {arguments.feedback} is a file; name a folder, new or existing")
        if arguments.feedback.resolve().parent == Path(arguments.folder).resolve():
            raise ValueError(f"--feedback {arguments.feedback} would be taken for a student's folder; name a folder "
                             f"outside {arguments.folder}")
        views.check_folder(arguments.feedback)


def make_settings(arguments):
    seed = Journal.seed(journal_of(arguments)) if arguments.seed is None else arguments.seed
    versions = {"numpy_transformer": __version__, "numpy": np.__version__, "python": platform.python_version()}
    return {"seed": secrets.randbelow(1 << 31) if seed is None else seed, "timeout": arguments.timeout,
            "memory": arguments.memory, "folder": str(Path(arguments.folder).resolve()), "versions": versions}


def journal_of(arguments):
    return arguments.out.with_name(arguments.out.name + ".part")


def graded(arguments, settings, class_, chosen):
    """Returns the rows of the class, sorted. After Ctrl-C raises KeyboardInterrupt with a message on how to resume."""
    journal, rows, total = Journal(journal_of(arguments), settings), [], len(class_) * len(chosen)
    print(f"{len(class_)} students, {len(chosen)} exercises, seed {settings['seed']}", file=sys.stderr)
    users = rights.users(arguments.jobs)
    for sentence in rights.warnings(users):
        print(sentence, file=sys.stderr)
    if journal.rows:
        print(f"resuming an interrupted run: {len(journal.rows)} of {total} rows are done", file=sys.stderr)
    grader = Grader(settings["seed"], arguments.timeout, arguments.memory, users, journal.rows)
    try:
        with rights.private(), Progress(total, "grade", "file") as progress, \
                contextlib.closing(grader.grade(class_, chosen)) as results:
            for row in results:
                journal.add(row)
                rows.append(row)
                progress.advance(f"{row.student} {row.exercise}")
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"{len(rows)} of {total} rows are saved in {journal.path}; run the same command again "
                                "to resume") from stop
    finally:
        journal.file.close()
    return sorted(rows, key=lambda row: (row.student, row.number))


def publish(arguments, settings, rows, chosen):
    """Writes all outputs and prints the summary. Deletes the journal last."""
    from .. import views
    summary = report.summary(rows, chosen)
    report.write_csv(rows, arguments.out)
    written = [str(arguments.out)]
    if arguments.json:
        public = {name: value for name, value in settings.items() if name != "folder"}
        report.write_json(report.document(rows, public, summary), arguments.json)
        written.append(str(arguments.json))
    if arguments.feedback:
        count = report.write_feedback(rows, chosen, arguments.feedback)
        written.append(f"{arguments.feedback} ({count} files)")
    written.append(str(views.write(views.class_report(summary["exercises"], summary["mistakes"]), arguments.picture)))
    journal_of(arguments).unlink()
    for line in report.summary_lines(summary, columns()):
        print(line)
    passed = sum(row.status == "pass" for row in rows)
    print("\n" + wrap(f"{passed} of {len(rows)} passed. Written: {', '.join(written)}. To grade again with the same "
                      f"cases, use --seed {settings['seed']}."))
