"""numpy-transformer grade: turns students' files into a table, feedback and a picture of the class's mistakes."""

import contextlib
import os
import platform
import secrets
import signal
import sys
import threading
from pathlib import Path

import numpy as np

from .. import __version__
from ..course.sandbox import NO_LAYER, best_layer, layers, sweep
from ..grading import policy, shards
from ..grading.arrival import read_class, ready_to_read
from ..grading.gradable import choose_gradable, gradable
from ..grading.gradebooks.filling import counted, counted_work
from ..grading.gradebooks.times import tell_times
from ..grading.grader import Grader
from ..grading.journal import Journal
from ..grading.rows import problems_of
from ..training.progress import Progress
from . import grade_options, grade_outputs, grade_places, gradebook_options, policy_options
from .parser import add_command
from .terminal import wrap

REMEDIES = ("Install one with python -m pip install 'numpy-transformer[sandbox]' on Linux; or grade in a container, with "
            "the docker or podman line in lessons/GRADING.md; or, if you trust all files of the class, use "
            "--trust-students.")


def add_to_parser(commands):
    parser = add_command(
        commands, "grade", run, help="grade the exercises or stages of a whole class", usage=grade_options.USAGE,
        description="Run every student's files in a sandbox of the operating system, compare the results with the "
                    "correct ones, and name the mistakes. `grade merge` joins the tables of parts that were graded "
                    "separately. `grade --doctor` says what this machine offers for a sandbox.")
    for options in (grade_options, policy_options, gradebook_options):
        options.add_options(parser)


def run(arguments):
    if arguments.doctor:
        return doctor()
    if not arguments.folder:
        raise ValueError("name the FOLDER of the class, or use --doctor")
    if arguments.folder[0] == "merge":
        return merge(arguments)
    if len(arguments.folder) > 1:
        raise ValueError(f"one FOLDER at a time, not {len(arguments.folder)}; to join tables, use grade merge TABLE...")
    with interruptible():
        return grade(arguments)


@contextlib.contextmanager
def interruptible():
    """Ends the grading in an orderly way, as Ctrl-C does, on SIGTERM and when its terminal is closed."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
        before = {number: signal.signal(number, raise_interrupt) for number in numbers
                  if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_interrupt(*_):
    raise KeyboardInterrupt


def doctor():
    """Prints what this machine offers for a sandbox. Returns 0 if there is one."""
    for layer in layers():
        print(wrap(f"{layer.name}: {layer.sentence}"))
    best = best_layer()
    if best:
        print(f"numpy-transformer grade uses {best.name}.")
        return 0
    print(wrap(f"numpy-transformer grade refuses to run. {REMEDIES}"))
    return 2


def choose_layer(arguments):
    """Returns the strongest layer that works. Raises ValueError if there is none and the class is not trusted."""
    if not arguments.trust_students:
        layer = best_layer()
        if layer is None:
            raise ValueError(f"there is no sandbox: {layers()[0].sentence}. {REMEDIES}")
        return layer
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if is_root and not arguments.allow_root:
        raise ValueError("refusing to run students' programs as root without a sandbox; use an ordinary account, or "
                         "--allow-root")
    return NO_LAYER


def grade(arguments):
    with ready_to_read():                       # starts while the places are checked
        grade_places.check_places(arguments)
        sweep()
        layer = choose_layer(arguments)
        wanted = choose_gradable(arguments.only or [])
        if arguments.only and not wanted:
            raise ValueError(f"--only {arguments.only[0]!r} names no exercise and no stage; name one, such as 05.2 or stage5")
        record = shards.read_record(arguments.json)
        taken_over = policy_options.take_over(arguments, record.settings.get("policy") or {}) if record else []
        policy_options.policy(arguments)        # before the work, for its errors
        gradebook_options.check_downloads(arguments)
        whole = read_class(arguments.folder[0], [exercise.number for exercise in wanted] or None, arguments.layout)
    class_, notes = whole.students, whole.notes
    chosen = wanted or submitted_exercises(class_, arguments.folder[0])
    if arguments.moodle and arguments.due:
        notes = [*tell_times(class_, arguments.moodle, arguments.timezone), *notes]
    more = [f"and {len(notes) - 10} more like these"] if len(notes) > 10 else []
    for note in (*notes[:10], *more, *taken_over):
        print(wrap(note), file=sys.stderr)
    grade_places.check_same_class(class_, chosen, record, arguments)
    whole_class, class_ = class_, shards.choose_students(class_, arguments.students, arguments.shard)
    goes_on = record is not None and bool(arguments.only or arguments.students)
    if goes_on and arguments.only and arguments.free_late_days:
        print(wrap("free late days are counted over the exercises of this run alone; to count them over all, grade with "
                   "--students instead of --only"), file=sys.stderr)
    grade_outputs.check_gradebooks(arguments, class_, chosen, record.rows if goes_on else [])
    with contextlib.closing(Journal(journal_of(arguments))) as journal:
        settings = make_settings(arguments, journal, record)
        journal.start({name: value for name, value in settings.items() if name != "policy"})    # rows are not settled yet
        print(wrap(f"{arguments.folder[0]}: {whole.form}"), file=sys.stderr)
        rows = graded(arguments, settings, layer, journal, class_, chosen)
        unused = {key[:2] for key in journal.rows} - {(row.student, row.number) for row in rows}
        problems, new = problems_of(class_), rows if arguments.students else None
        if goes_on:
            settings, rows, problems = merged_with_table(record, settings, rows, problems, whole_class)
        settings = shards.with_left_out(settings, {student.name: student.ids for student in whole_class}, rows)
        with saying_what_is_missing(journal.path):
            grade_outputs.publish(arguments, settings, rows, problems, new)
        keep = unused and bool(arguments.only or arguments.students)
        if keep:
            print(wrap(f"{len(unused)} rows of an interrupted run stay in {journal.path}; grade the whole class to use "
                       "them"), file=sys.stderr)
        journal.close(remove=not keep)
    return 0


@contextlib.contextmanager
def saying_what_is_missing(journal):
    """Says, if an output cannot be written, which one is missing, and that the same command writes it."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"{error.filename} is missing ({error.strerror or error}), but nothing is lost: all rows are in "
                         f"{journal}; make room, and run the same command again") from error


def submitted_exercises(class_, folder):
    """Returns the exercises and stages for which at least one student submitted a file."""
    numbers = {number for student in class_ for number in student.attempts}
    numbers |= {problem.number for student in class_ for problem in student.problems}
    chosen = [gradable()[number] for number in gradable() if number in numbers]
    if not chosen:
        example, stage = gradable()[next(iter(gradable()))].file, gradable()["stage01"].file
        raise ValueError(f"no file in {str(folder)!r} is named after an exercise, such as {example}, or a stage, such as "
                         f"{stage}; rename the files, or name the exercise or stage with --only")
    return chosen


def make_settings(arguments, journal, record):
    """Returns what all rows of a run have in common. The seed is that of an interrupted run, or of the existing table."""
    seed, kept = arguments.seed, record.settings["seed"] if record else None
    if seed is None:
        seed = journal.settings["seed"] if journal.settings else kept
    if seed is None:
        seed = secrets.randbelow(1 << 31)
    if kept is not None and seed != kept and (arguments.only or arguments.students):
        raise ValueError(f"{arguments.json} was graded with seed {kept}, not {seed}; use the same, or another --out")
    versions = {"numpy_transformer": __version__, "numpy": np.__version__, "python": platform.python_version()}
    settings = {"seed": seed, "timeout": arguments.timeout, "memory": arguments.memory, "versions": versions,
                "policy": policy_options.texts(arguments)}
    if arguments.shard:
        settings["shard"] = "{}/{}".format(*arguments.shard)
    return settings


def journal_of(arguments):
    return arguments.out.with_name(arguments.out.name + ".part")


def graded(arguments, settings, layer, journal, class_, chosen):
    """Returns the rows of the class, sorted. After Ctrl-C raises KeyboardInterrupt with a message on how to resume."""
    rules, attempts, total = policy_options.policy(arguments), {}, len(class_) * len(chosen)
    if arguments.retry:
        journal.fatal.clear()
    print(f"{counted(len(class_), 'student')}, {counted_work([one.number for one in chosen])}, seed {settings['seed']}, "
          f"sandbox: {layer.name}", file=sys.stderr)
    for sentence in journal.sentences():
        print(wrap(sentence), file=sys.stderr)
    grader = Grader(chosen, settings["seed"], layer, journal,
                    lambda student, number: policy.choose_attempts(student, number, rules),
                    arguments.timeout, arguments.memory, arguments.jobs)
    try:
        with Progress(total, "grade", "file") as progress, contextlib.closing(grader.grade(class_)) as results:
            for student, file, row in results:
                attempts.setdefault((row.student, row.number), []).append((file, row))
                progress.advance(f"{row.student} {row.number}")
    except (KeyboardInterrupt, OSError) as stop:
        saved = f"{journal.saved} of {total} rows are saved in {journal.path}; run the same command again to resume"
        if isinstance(stop, KeyboardInterrupt):
            raise KeyboardInterrupt(saved) from stop
        raise ValueError(f"{stop.strerror or stop}: {saved}") from stop         # such as a full disk
    oldest_first = [pairs[::-1] for pairs in attempts.values()]
    for sentence in rules.sentences(oldest_first):
        print(wrap(sentence), file=sys.stderr)
    return policy.settle(oldest_first, rules, {(student.name, number): len(files) for student in class_
                                               for number, files in student.attempts.items()})


def merged_with_table(record, settings, rows, problems, class_):
    """Returns settings, rows and problems of an existing table, with those in place that are new."""
    old, new = record.settings["versions"]["numpy_transformer"], settings["versions"]["numpy_transformer"]
    if old != new:
        print(f"the other rows of the table were graded by version {old}, these by {new}", file=sys.stderr)
    if record.settings.get("policy") != settings["policy"]:
        print("the other rows keep the deductions of their own run, which had other options", file=sys.stderr)
    gone = {row.student for row in record.rows} - {student.name for student in class_}
    if gone:
        print(wrap(f"not in this folder, so that their rows stay as they are: {', '.join(sorted(gone)[:10])}"
                   f"{', ...' if len(gone) > 10 else ''}"), file=sys.stderr)
    graded_again = {row.student for row in rows}
    kept = {name: sentences for name, sentences in record.problems.items() if name not in graded_again}
    return {**record.settings, **settings}, shards.replace_rows(record.rows, rows), {**kept, **problems}


def merge(arguments):
    """Joins the tables of parts of a class, which have been graded separately."""
    tables = [Path(name) for name in arguments.folder[1:]]
    if not tables or not arguments.out:
        raise ValueError("name the tables to join and the new one: grade merge TABLE... --out FILE")
    policy_options.refuse(arguments)
    twice = [table for i, table in enumerate(tables) if table.resolve() in [other.resolve() for other in tables[:i]]]
    if twice:
        raise ValueError(f"{twice[0]} is given twice; name each table once")
    grade_places.check_places(arguments)
    records = {}
    for table in tables:
        path = shards.record_of(table)
        records[str(table)] = shards.read_record(path)
        if records[str(table)] is None:
            raise ValueError(f"there is no {path} beside {table}; keep it, because it holds the rows with all details")
    whole = shards.merge(records)
    grade_outputs.publish(arguments, whole.settings, whole.rows, whole.problems, [] if len(tables) == 1 else None)
    return 0
