"""Measures the grader on a class with a realistic mix of answers: python tests/helpers/class_speed.py [STUDENTS].

Prints processor time a file, of the grader and of its sandboxes, and the time for 1,000 students with 20 exercises.
"""

import contextlib
import ctypes
import io
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from numpy_transformer.cli import main
from numpy_transformer.course.exercises import exercises

SPOILT = """

correct = {name}


def {name}(*arguments):
    result = correct(*arguments)
    first = result[0] if isinstance(result, tuple) else result
    return (1.37 * first, *result[1:]) if isinstance(result, tuple) else 1.37 * first
"""
MIX = ["right"] * 20 + ["mistake"] * 5 + ["unknown"] * 2 + ["skeleton"] * 2 + ["error"]        # two thirds are right


def answer(exercise, kind, rng):
    """The file of a student who answers like this."""
    if kind == "mistake" and exercise.mistakes:
        return exercise.edited(rng.choice(exercise.mistakes).edits)
    if kind == "unknown" and not exercise.is_class:
        return exercise.edited() + SPOILT.format(name=exercise.name)
    if kind == "skeleton":
        return exercise.skeleton()
    if kind == "error":
        return exercise.edited() + "\nnonsense(\n"
    return exercise.edited()


def write_class(folder, students, count=20, seed=0):
    """Each student hands in the same `count` exercises, spread over all lessons."""
    rng, every = random.Random(seed), list(exercises().values())
    chosen = [every[i * len(every) // count] for i in range(count)]
    for i in range(students):
        own = Path(folder, f"student {i:04}")
        own.mkdir(parents=True)
        for exercise in chosen:
            (own / exercise.file).write_text(answer(exercise, rng.choice(MIX), rng), encoding="utf-8")


def adopt():
    """Makes this process the parent of processes whose own parent is killed, so that their time is counted (Linux)."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)     # PR_SET_CHILD_SUBREAPER


def collect():
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def seconds_used(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def measure(students, options=()):
    with tempfile.TemporaryDirectory() as folder:
        write_class(Path(folder, "class"), students)
        adopt()
        os.environ["XDG_STATE_HOME"] = folder
        before = {who: seconds_used(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)}
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as error:
            code = main(["grade", f"{folder}/class", "--out", f"{folder}/scores.csv", "--seed", "1", *options])
        collect()
        if code:
            sys.exit(error.getvalue())
        wall, files = time.perf_counter() - start, 20 * students
        used = [seconds_used(who) - spent for who, spent in before.items()]
    print(f"{files} files in {wall:.1f} s; processor time a file: {sum(used) / files:.4f} s "
          f"(grader {used[0] / files:.4f} s, sandboxes {used[1] / files:.4f} s); "
          f"1,000 students: {wall / students * 1000 / 60:.1f} minutes")


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2:])
