"""A class of students: right files, known mistakes, skeletons and nothing at all, drawn with a seed."""

import random


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
