"""Which results belong in which column of a gradebook, by the column's name or by the teacher's word."""

import re
from dataclasses import dataclass

from ..gradable import choose_gradable, gradable, stage_in
from .people import name_words

NUMBER = re.compile(r"(?:^|[^0-9.])(?:ex)?([0-9]{1,2})[._]([0-9])(?![0-9])", re.I)
LESSON = re.compile(r"\blesson[ #:_-]*([0-9]{1,2})\b(?![._][0-9])", re.I)     # a sheet 5 may be about lesson 04
ID = re.compile(r"(.*?)\s*\(([0-9]+)\)\s*", re.S)         # Canvas writes "name (id)"


@dataclass
class Target:
    """A column that is filled, and the exercises whose points are added there."""

    column: int
    header: str
    numbers: list
    what: str                                   # "05.2", "lesson 05" or "total"
    possible: float | None = None               # what the column's points are scaled to

    def __str__(self):
        several = f" ({', '.join(self.numbers)})" if len(self.numbers) > 1 else ""
        return f"{self.what}{several}"


def targets(headers, chosen, wanted, gradebook):
    """Returns the Targets among a gradebook's assignment columns.

    Parameters:
        headers : {index of a column: its name}
        chosen : the exercises that were graded
        wanted : texts of --column, such as "Sheet 5 (123)", "123", "05=Sheet 5", "05.2=123" or "stage5=123"; without any,
            columns are found by their names, if these name an exercise, a stage or a lesson
        gradebook : what errors call the file
    Raises: ValueError if no column fits, or several fit the same results.
    """
    numbers = [exercise.number for exercise in chosen]
    if wanted:
        return [target_of_option(text, headers, numbers, gradebook) for text in wanted]
    candidates = {}
    for column, header in headers.items():
        for what, own in meaning(header, numbers):
            candidates.setdefault(what, []).append(Target(column, header, own, what))
    for what, columns in candidates.items():
        if len(columns) > 1:
            raise ValueError(f"{gradebook} has several columns for {what}: {quoted_headers(columns)}; choose one with "
                             f"--column {key_of(what)}=NAME")
    if not candidates:
        names = ", ".join(repr(header) for header in list(headers.values())[:12]) or "none"
        raise ValueError(f"no column of {gradebook} is named after what is graded ({', '.join(numbers[:6])}); its "
                         f"assignments are: {names}; name the one for the total with --column NAME, or several with "
                         f"--column {numbers[0]}=NAME")
    return [columns[0] for columns in candidates.values()]


def meaning(header, numbers):
    """Returns what a column's name says: a list of at most one (what, numbers of exercises)."""
    title = without_id(header)
    if stage_in(title):
        return [(stage_in(title), [stage_in(title)])] if stage_in(title) in numbers else []
    match = NUMBER.search(title)
    if match:
        number = f"{int(match[1]):02}.{match[2]}"
        return [(number, [number])] if number in numbers else []
    named = [number for number in numbers if name_words(title) in spelled(gradable()[number])]
    if len(named) == 1:
        return [(named[0], named)]
    match = LESSON.search(title)
    lesson = f"{int(match[1]):02}" if match else ""
    own = [number for number in numbers if number.startswith(lesson + ".")]
    return [(f"lesson {lesson}", own)] if own else []


def spelled(exercise):
    """Returns the names of an exercise, as lists of words: of its function, and its title."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", exercise.name).replace("_", " ")
    return [name_words(name), name_words(exercise.name), name_words(exercise.title)]


def target_of_option(text, headers, numbers, gradebook):
    """Returns the Target that one --column option describes."""
    key, _, name = text.partition("=")
    try:
        own = numbers if key.strip().casefold() == "total" else [one.number for one in choose_gradable([key])]
    except ValueError:                          # no number: all of it is the column's name, with a "=" in it
        own, name, key = numbers, text, "total"
    if not name:
        own, name, key = numbers, key, "total"
    fitting = {column: header for column, header in headers.items() if has_name(header, name)}
    if not fitting:
        fitting = {column: header for column, header in headers.items() if begins_with(header, name)}
    if len(fitting) != 1:
        how_many = "no assignment column" if not fitting else "several columns"
        some = ", ".join(repr(header) for header in list(fitting.values() or headers.values())[:12])
        raise ValueError(f"{gradebook} has {how_many} named {name!r}; use one of these names, with its number in "
                         f"parentheses: {some}")
    graded = [number for number in own if number in numbers]
    if not graded:
        raise ValueError(f"--column {text}: {key} is not graded in this run; leave this option out or grade {key} too")
    column, header = next(iter(fitting.items()))
    what = f"lesson {key.zfill(2)}" if len(own) > 1 and key.isdigit() else key
    return Target(column, header, graded, what)


def has_name(header, name):
    """Returns True if a column has this name, with or without the id, or this id."""
    match = ID.fullmatch(header)
    names = [header, *(match.groups() if match else ())]
    return name.strip().casefold() in [known.strip().casefold() for known in names]


def begins_with(header, name):
    """Returns True if a column's name begins with these words."""
    own, start = name_words(without_id(header)), name_words(name)
    return bool(start) and own[:len(start)] == start


def without_id(header):
    match = ID.fullmatch(header)
    return match[1] if match else header


def key_of(what):
    return what.removeprefix("lesson ")


def quoted_headers(columns):
    return ", ".join(repr(target.header) for target in columns)
