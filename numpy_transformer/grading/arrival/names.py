"""Which exercise a file belongs to: by its name, by the functions it defines, or by the folder it lies in.

Names: "ex01_2_softmax_backward.py", "exercise_05_2.py", "05.2.py", "5-2.py", "Kim_ex01_2.py" or the function's name. The
number of a lesson with several exercises is settled by what the file defines. A stage is recognized by its name alone
("stage05_attention", "Kim_stage5"), because stages define what exercises define, too.

Several files for one exercise: the order of `CopyMarks` decides which one is the newest. First come files called old,
backup or alt, then copies ("Copy of x", "x - Copy"), which people make before they go on working, then plain names,
then numbered ones ("x (1)", "x-1", "x_v2") by their number, then those called new, fixed, corrected or final.
"""

import functools
import re
from dataclasses import dataclass

from ...course.exercises import exercises
from .. import gradable
from .statements import without_strings

PYTHON = re.compile(r"(.*?)((?:\.pyw?|\.py3)?\.txt|\.pyw?|\.py3|\.ipynb(?:\.txt|\.json)?)", re.I | re.S)
COPY = r"(?:copy|kopie|copie|copia|kopia|c[oó]pia|kopi|副本|コピー|복사본)"
COPY_OF = re.compile(rf"{COPY}(?:[ _]?\((\d+)\))?[ _](?:of|von|de|di|av|van)[ _]+", re.I)
ENDINGS = ((re.compile(rf"[ _-]+{COPY}(?:[ _]?\(?(\d{{1,3}})\)?)?$", re.I), "copy"),
           (re.compile(r"[ _]?[(（](\d{1,3})[)）]$"), "number"),
           (re.compile(r"[ _-]+v(?:ersion)?[ _]?(\d{1,3})$", re.I), "number"),
           (re.compile(r"(?<=[a-z0-9])-(\d{1,2})$", re.I), "dash"),
           (re.compile(r"[ _-]+(?:old|alt|backup|bak|orig|original|vieux)(\d{0,3})$", re.I), "old"),
           (re.compile(r"[ _-]+(?:new|neu|fixed|corrected|korrigiert|final|finale|last|updated?)[ _-]?(\d{0,3})$", re.I),
            "new"))
RANKS = {"old": 0, "copy": 1, "": 2, "number": 3, "dash": 3, "new": 4}
WITH_PLACE = re.compile(r"(?<![a-z])ex(?:ercise)?s?[ _.-]*(\d{1,2})[ _.-](\d)(?![0-9a-z])", re.I)
WITHOUT_PLACE = re.compile(r"(?<![a-z])ex(?:ercise)?s?[ _.-]*(\d{1,2})(?!\d)", re.I)
BARE = re.compile(r"(?<![0-9.])(\d{1,2})[._-](\d)(?![0-9a-z])", re.I)
LESSON = re.compile(r"(?<!\d)(\d{1,2})(?!\d)")

TESTS = re.compile(r"^(?:unit)?tests?(?:[_-]|$)|[_-](?:unit)?tests?$", re.I)       # a file of the student's own tests


@dataclass(frozen=True, order=True)
class CopyMarks:
    """What a name says about which of several files is the newest; the greater one is newer."""

    rank: int = RANKS[""]
    number: int = 0


def stem_of(name):
    """Returns a Python file's or notebook's name without its extension, or None for a name of anything else."""
    match = PYTHON.fullmatch(name)
    return match[1] if match else None


def split_marks(stem):
    """Returns the stem without the marks of a copy or a version, and its CopyMarks."""
    rank, number = "", 0
    match = COPY_OF.match(stem)
    if match:
        rank, number, stem = "copy", int(match[1] or 0), stem[match.end():]
    shortened = True
    while shortened:
        shortened = False
        for pattern, kind in ENDINGS:
            match = pattern.search(stem)
            if match and match.start() and not (kind == "dash" and BARE.search(stem[max(0, match.start() - 2):])
                                                and not is_complete_name(stem[:match.start()])):
                rank = kind if RANKS[kind] > RANKS[rank] or not rank else rank
                number = max(number, int(match[1] or 0))
                stem, shortened = stem[:match.start()], True
    return stem, CopyMarks(RANKS[rank], number)


def is_complete_name(stem):
    """Returns True if a stem is complete without a trailing number: "ex05_2" or "softmax_backward", but not "05"."""
    return bool(WITH_PLACE.search(stem) or stage_in(stem) or function_in(stem)
                or re.search(r"ex(?:ercise)?[ _.]*\d\d$", stem, re.I))


def numbers_in(stem):
    """Returns the numbers of exercises in a name."""
    pairs = [*WITH_PLACE.findall(stem), *BARE.findall(stem)]
    numbers = [f"{lesson.zfill(2)}.{place}" for lesson, place in pairs]
    return [number for number in numbers if number in exercises()]


def stage_in(stem):
    """Returns the number of the stage in a name, such as "stage05", or "" without one."""
    return "" if WITH_PLACE.search(stem) else gradable.stage_in(stem)


def lessons_in(stem):
    """Returns the numbers in a name that may be lessons, such as {"05"} for "sheet5"."""
    return {number.zfill(2) for number in LESSON.findall(stem)}


def unknown_number(stem):
    """Returns a number such as "97.1" in a name that is no exercise's, else ""."""
    for lesson, place in WITH_PLACE.findall(stem):
        number = f"{lesson.zfill(2)}.{place}"
        return number if number not in exercises() else ""
    return ""


@functools.cache
def functions():
    """Returns {name of a function or class: number of its exercise}."""
    return {exercise.name: number for number, exercise in exercises().items()}


@functools.cache
def exercise_names():
    """Returns {name in a file's name: number}, longest first: "softmax_backward", "self_attention"."""
    numbers = {exercise.file[len("ex00_0_"):-len(".py")]: number for number, exercise in exercises().items()
               if not exercise.is_class}
    numbers |= {exercise.file[len("ex00_0_"):-len(".py")]: number for number, exercise in exercises().items()
                if exercise.is_class and exercise.file[len("ex00_0_"):-len(".py")] not in numbers}
    return dict(sorted(numbers.items(), key=lambda entry: -len(entry[0])))


def function_in(stem):
    """Returns the number of the exercise whose function's name a file's name is or ends with, else ""."""
    for name in (stem, re.split(r"[ _-]", stem)[-1]):
        if name in functions():
            return functions()[name]
    plain = re.sub(r"[ .-]+", "_", stem).lower()
    return next((number for word, number in exercise_names().items() if plain == word or plain.endswith(f"_{word}")), "")


@functools.cache
def given_texts():
    """Returns {number: {name: text}} of the functions that an exercise's file contains ready to use."""
    return {number: {name: normal(text) for name, text in exercise.given_texts.items()}
            for number, exercise in exercises().items() if exercise.given_code}


def normal(text):
    """Returns code without comments, strings and spaces, for comparisons."""
    return "".join(without_strings(text).split())


def defined_in(statements):
    """Returns {number: source} of the exercises whose functions these Statements define, and all other definitions."""
    bound, others = {}, set()
    for statement in statements:
        if statement.kind not in ("import", "other"):
            answers = statement.binds & functions().keys()
            bound |= {functions()[name]: statement.text for name in answers}
            others |= set() if statement.kind == "assignment" else statement.binds - answers
    return bound, others


def is_given(number, text, by):
    """Returns True if this is, unchanged, what the file of another exercise contains ready to use."""
    given = given_texts().get(by, {}).get(exercises()[number].name)
    return number != by and given is not None and given == normal(text)


def exercises_answered(stem, folders, statements):
    """Returns what a file counts for. One that is named after a stage counts for nothing else.

    Functions that come with another exercise's file, such as the softmax in that of 05.1, do not count if they are
    unchanged and the file answers only that one exercise.

    Parameters:
        stem : its name without marks and extension
        folders : names of the folders it lies in, the nearest first
        statements : its Statements
    Returns:
        numbers of the exercises that it answers, by its name or by what it defines
        numbers of others whose functions it defines; it counts for them if no other file does
        numbers of all exercises whose functions it defines
        True if its name speaks of another exercise
    """
    if stage_in(stem) and not TESTS.search(stem):
        return (stage_in(stem),), (), frozenset(), False
    bound, others = defined_in(statements)
    core = {number for number, text in bound.items() if not any(is_given(number, text, other) for other in bound)}
    defined = core if len(core) == 1 else set(bound)
    exact = numbers_in(stem)
    if exact and exact[0] not in bound:
        own = {number for number in defined if not is_given(number, bound[number], exact[0])}
        defined = set() if others else own      # a function with a wrong name, and helpers
    if TESTS.search(stem):
        return (), tuple(sorted(core)), frozenset(bound), False
    numbers, mislabeled = numbers_of(stem, folders, defined)
    spare = [number for number in core if number not in numbers and not any(
        is_given(number, bound[number], other) for other in numbers)]
    return tuple(numbers), tuple(sorted(spare)), frozenset(bound), mislabeled


def numbers_of(stem, folders, defined):
    """Returns the numbers of the exercises that a file answers, and whether its name speaks of another one.

    Parameters:
        stem, folders : as in `answered`
        defined : numbers of the exercises whose functions it defines
    """
    exact = numbers_in(stem)
    agreeing = [number for number in exact if number in defined]
    lessons = {lesson.zfill(2) for lesson in WITHOUT_PLACE.findall(stem) if not exact}
    of_lesson = sorted(number for number in defined if number.split(".")[0] in lessons)
    agreeing = agreeing[:1] or of_lesson
    if agreeing:
        return agreeing, False
    if defined:
        return sorted(defined), bool(exact or lessons)
    for text in (stem, *folders):
        known = [number for number in (*numbers_in(text), function_in(text)) if number]
        if known:
            return known[:1], False
    return [], False


def tagged(tag):
    """Returns the numbers that a notebook cell's tag stands for: "01.2", "ex01_2" or "softmax_backward"."""
    return [number for number in (*numbers_in(tag), functions().get(tag)) if number][:1]


def is_exercise_name(stem):
    """Returns True if a name is that of an exercise and of no student: "ex01_2_softmax_backward", "05.2", "softmax".

    Or if it is that of a stage, "stage05_attention".
    """
    plain = split_marks(stem)[0]
    starts = re.match(r"(?:(?:ex(?:ercise)?s?|stage)[ _.-]*\d|\d{1,2}[._-]\d(?!\d))", plain, re.I)
    return bool(starts) or split_function(plain)[0] == ""


def split_function(stem):
    """Returns a name without the name of an exercise's function at its end, and that name, or "" without one."""
    plain = re.sub(r"[ .-]", "_", stem).lower()
    for word in exercise_names():
        if plain == word:
            return "", stem
        if plain.endswith(f"_{word}"):
            return stem[:-len(word) - 1], stem[-len(word):]
    return stem, ""
