"""One-edit mutants of the solutions: which of them pass, although they differ from the solution in one place.

`python -m helpers.mutants 05.2` (in tests/) lists those that neither a case kills nor the list of equivalents explains,
and the entries of the list that no longer pass. Without a number it goes through all exercises.
"""

import ast
import contextlib
import re
import signal
import sys
import warnings
from pathlib import Path

from numpy_transformer.course.checker.comparison import is_close
from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose_several, exercises
from numpy_transformer.course.exercises.observation import observe
from numpy_transformer.course.sandbox.inside.edits import edits

from .students import play_target

SEEDS = (1, 2)                                  # a mutant survives if it passes the cases of all of them
SECONDS = 2                                     # for one mutant; some never end
LISTS = Path(__file__).parents[1] / "course" / "equivalent_mutants"


def mutated(exercise):
    """Returns the exercises that have mutants: all but the probes, where any input that shows the bug is right."""
    return exercise.judge is None


def mutants(exercise):
    """Yields (key, target) for each mutant of the solution.

    The key describes the mutant by its text, not by its line: "before -> after | statement".
    """
    tree = ast.parse(exercise.code)
    for edit in edits(tree, exercise.name, methods=exercise.write):
        names = {**exercise.header_names}
        try:
            exec(compile(tree, exercise.file, "exec"), names)
        except (SyntaxError, ValueError):       # an edit need not give a program
            continue
        yield f"{edit.before} -> {edit.after} | {edit.statement}", names[exercise.name]


def passes(answer_key, target):
    """Returns True if the checker passes this function or class. Stops at the first case with wrong values."""
    exercise = answer_key.exercise
    for case, expected in zip(answer_key.main_cases, answer_key.expected):
        seen = observe(exercise, target, case)
        if seen.error or len(seen.outputs) != len(expected.outputs):
            return False
        for yours, right in zip(seen.outputs, expected.outputs):
            if yours.dtype.kind not in "fiub" or not is_close(yours, right, expected.outputs):
                return False
    return judge(answer_key, play_target(exercise, target, answer_key.cases)).status == "pass"


def out_of_time(number, frame):
    raise TimeoutError


@contextlib.contextmanager
def time_limit():
    """Raises TimeoutError in what takes longer than SECONDS (the main thread, where there are such signals)."""
    former = signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def survivors(exercise):
    """Returns {normalized key: key} of the mutants that pass the cases of all seeds."""
    answer_keys, found = [AnswerKey(exercise, seed) for seed in SEEDS], {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")         # of what a mutant computes
        for key, target in mutants(exercise):
            with contextlib.suppress(TimeoutError), time_limit():
                if all(passes(answer_key, target) for answer_key in answer_keys):
                    found[normalized(key)] = key
    return found


def normalized(key):
    """Returns a key without what Python versions write differently: parentheses and spaces in the statement."""
    change, _, statement = key.partition(" | ")
    return f"{change} | {re.sub(r'[() ]', '', statement)}"


def equivalents(folder=LISTS):
    """Returns {number: {normalized key: reason}} of the mutants that are as right as the solution.

    The lists are text files. A paragraph of lines that begin with "# " gives the reason for the entries that follow.
    """
    found, reason = {}, []
    for path in sorted(folder.glob("*.txt")):
        reading_reason = False
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                reason = [*reason, line[2:]] if reading_reason else [line[2:]]
            elif line.strip():
                number, _, key = line.partition(" ")
                found.setdefault(number, {})[normalized(key)] = " ".join(reason)
            reading_reason = line.startswith("# ")
    return found


def main(arguments):
    chosen = choose_several(arguments) if arguments else exercises().values()
    known, count = equivalents(), 0
    for exercise in filter(mutated, chosen):
        found, listed = survivors(exercise), known.get(exercise.number, {})
        for key in found.keys() - listed.keys():
            print(f"{exercise.number} {found[key]}", flush=True)
        for key in listed.keys() - found.keys():
            print(f"no longer passes, remove it from the list: {exercise.number} {key}", flush=True)
        count += len(found.keys() - listed.keys())
    print(f"{count} survivors that are not in the list of equivalents")


if __name__ == "__main__":
    main(sys.argv[1:])
