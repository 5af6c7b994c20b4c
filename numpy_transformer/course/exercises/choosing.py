"""All exercises by number, and the one that a text such as "05.2", "ex05_2" or the name of a file stands for."""

import functools
import importlib
import re
from collections.abc import Mapping

from ...texts import ENGLISH

HEADING = re.compile(r"^\[(\d\d\.\d)\]$", re.M)        # of an exercise in texts/en/exercises
TESTS = {                                               # the test at the end of each part of the course
    "test1": ("02.4", "02.5"), "test2": ("10.8", "10.9"), "test3": ("15.3", "15.4"), "test4": ("21.2", "21.3"),
    "test5": ("28.3", "28.4")}
WRITTEN = re.compile(r"(?:.*[/\\])?(?:ex)?([0-9]{1,2})[._]([0-9])(?:_\w+)?(?:\.py)?")


class Exercises(Mapping):
    """All exercises by number, in order. A topic is imported when one of its exercises is asked for."""

    def __init__(self):
        topics = {number: path.stem for path in (ENGLISH / "exercises").glob("*.ini")
                  for number in HEADING.findall(path.read_text(encoding="utf-8"))}
        self.topics = dict(sorted(topics.items()))           # {number: name of the topic's file}

    def __getitem__(self, number):
        return of_topic(self.topics[number])[number]

    def __iter__(self):
        return iter(self.topics)

    def __len__(self):
        return len(self.topics)


@functools.cache
def exercises():
    """All exercises by number. 05.2 is the second exercise of lesson 05."""
    return Exercises()


@functools.cache
def of_topic(name):
    """Returns {number: Exercise} of one file, such as "softmax"."""
    return {exercise.number: exercise for exercise in importlib.import_module(f"{__package__}.{name}").EXERCISES}


def number_of(text):
    """Returns the number that "05.2", "5_2", "ex05_2" or the name of an exercise's file stands for, or None."""
    match = WRITTEN.fullmatch(text)
    return f"{match[1].zfill(2)}.{match[2]}" if match else None


def choose(text):
    """Returns the exercise that a number such as "05.2", "5_2" or "ex05_2", or the name of its file, stands for.

    Raises: ValueError if there is no such exercise.
    """
    known = exercises()
    number = number_of(text)
    if number not in known:
        raise ValueError(f"there is no exercise {text!r}; numpy-transformer exercise list shows all of them, "
                         f"{min(known)} to {max(known)}, and {min(TESTS)} to {max(TESTS)} are the tests of the parts")
    return known[number]


def choose_several(texts):
    """Returns the exercises that several texts stand for, each exercise once.

    Parameters:
        texts : strings such as "05.2", "05.1,05.2", "05", the number of a lesson, or "test1", the test of part 1
    Raises: ValueError if there is no such exercise, or a lesson has none.
    """
    parts = [part.strip() for part in ",".join(texts).split(",") if part.strip()]
    return list(dict.fromkeys(exercise for part in parts for exercise in lesson_or_one(part)))


def lesson_or_one(text):
    """Returns all exercises of a lesson for its number, such as "05", or of a test; else the one that `choose` finds."""
    if text.lower() in TESTS:
        return [exercises()[number] for number in TESTS[text.lower()]]
    if not is_lesson(text):
        return [choose(text)]
    lesson_exercises = [exercises()[number] for number in exercises() if lesson(number) == int(text)]
    if not lesson_exercises:
        raise ValueError(f"lesson {text.zfill(2)} has no exercises for the checker; numpy-transformer exercise list "
                         "shows which lessons have some")
    return lesson_exercises


def is_lesson(text):
    """Returns True for the number of a lesson up to the last one with exercises."""
    return text.isascii() and text.isdigit() and int(text) <= max(map(lesson, exercises()))


def lesson(number):
    return int(number.split(".")[0])


def choose_one(text):
    """Returns the only exercise that `lesson_or_one` finds. Raises: ValueError if there are several or none."""
    candidates = lesson_or_one(text)
    if len(candidates) > 1:
        numbers = [exercise.number for exercise in candidates]
        where = text if text.lower() in TESTS else f"lesson {candidates[0].lesson}"
        raise ValueError(f"{where} has the exercises {', '.join(numbers)}; name one of them")
    return candidates[0]


def choose_for(text, name):
    """Returns the exercise that a text stands for; where it stands for several, the one with this function or class.

    Raises: ValueError if there are several or none.
    """
    by_name = {exercise.name: exercise for exercise in lesson_or_one(text)}
    return by_name[name] if name in by_name else choose_one(text)
