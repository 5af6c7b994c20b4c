"""A class of students: right files, known mistakes, skeletons and nothing at all, drawn with a seed."""

import random
import textwrap

import numpy as np

from numpy_transformer.course.checker.in_process import run_in_this_process
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.sandbox import ProgramRun


def play(key, source, change=lambda y: y):
    """Returns the ProgramRun that a worker process would give for this source; `change` is applied to the outputs."""
    try:
        target = key.exercise.target(source)
    except NotImplementedError as error:
        return ProgramRun("", 0, 0.1, "", {"stage": "import", "error": f"{type(error).__name__}: {error}"})
    return play_target(key.exercise, target, key.cases, change)


def judged(key, body):
    """Returns the Verdict on a function with this body: an answer in a student's own words."""
    exercise = key.exercise
    code = textwrap.indent(textwrap.dedent(body), "    ")
    return judge(key, play(key, f"{exercise.header}def {exercise.name}({', '.join(exercise.parameters)}):\n{code}\n"))


def play_target(exercise, target, cases, change=lambda y: y):
    """Returns the ProgramRun of a function or class on these cases; `change` is applied to the outputs."""
    with np.errstate(all="ignore"):
        run = run_in_this_process(target, exercise, cases, None)
    run.report.pop("takes", None)               # a mistake in the order of parameters is named by its results
    for result in run.results:
        result.outputs = [None if y is None else change(y) for y in result.outputs]
    return run


def write_class(folder, count, exercises, seed=0):
    """Write `count` students' folders; {(student, number): kind}, kind being the names of the mistakes or a word."""
    rng, made = random.Random(seed), {}
    for i in range(count):
        student = f"student{i + 1:02d}"
        (folder / student).mkdir(parents=True)
        for exercise in exercises:
            kind, source = draw(rng, exercise)
            made[student, exercise.number] = kind
            if source is not None:
                (folder / student / exercise.file).write_text(source, encoding="utf-8")
    return made


def draw(rng, exercise):
    """("right", source), ("todo", ...), ("missing", None), or one or two mistakes by name."""
    kind = rng.choices(["right", "mistake", "two", "todo", "missing", "syntax"], [12, 5, 2, 1, 1, 1])[0]
    count = {"mistake": 1, "two": 2}.get(kind, 0)
    mistakes = rng.sample(exercise.mistakes, min(count, len(exercise.mistakes)))
    source = exercise.edited(*(mistake.edits for mistake in mistakes))
    if mistakes and source is not None:
        return " and ".join(sorted(mistake.name for mistake in mistakes)), source
    if kind in ("todo", "missing", "syntax"):
        return kind, {"todo": exercise.skeleton(), "missing": None, "syntax": "def f(:\n"}[kind]
    return "right", exercise.edited()
