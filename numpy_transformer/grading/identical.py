"""Finds students who handed in the same files byte for byte, however common their text is.

The comparison of similarity.py gives the exercise's solution and its known mistakes no weight, because many students
write them by themselves. To write them in several exercises with the same names, comments and spaces is another matter.
"""

import collections
import functools
import itertools
from dataclasses import dataclass

LEAST = 3                                       # files that must be identical
MOST_HOLDERS = 60                               # a file that more students have comes from a common source


@dataclass
class Identical:
    """Students with identical files.

    Parameters:
        students : their names, sorted
        numbers : the exercises in which their files are identical
        plain : those of `numbers` in which the file is a text of the catalog: a solution or a known mistake
        whole : True if these are all exercises that they handed in
    """

    students: list
    numbers: list
    plain: list
    whole: bool


def find_identical(students, chosen):
    """Returns a list of Identical, those with the most files first.

    At least three files are the same, and they are either all that the students handed in, or none of the three is a text
    of the catalog. Only exercises count in which a function or class is written, and only files that are finished.

    Parameters:
        students : list of arrival.Student
        chosen : list of Exercise
    """
    written = [exercise for exercise in chosen if exercise.kind == "write"]
    files = {student.name: dict(newest_files(student, written)) for student in students}
    plain = {exercise.number: catalog_texts(exercise) for exercise in written}
    whole, own, shared = (collections.defaultdict(set) for _ in range(3))
    for name, contents in files.items():
        whole[frozenset(contents.items())].add(name)
        for number, content in contents.items():
            if normalized(content) not in plain[number]:
                own[number, content].add(name)
    common = collections.defaultdict(set)
    for file, names in own.items():
        if 2 <= len(names) <= MOST_HOLDERS:
            for pair in itertools.combinations(sorted(names), 2):
                common[pair].add(file)
    for pair, same in common.items():
        if len(same) >= LEAST and files[pair[0]] != files[pair[1]]:
            both = files[pair[0]].items() & files[pair[1]].items()
            shared[frozenset(both)] |= {*pair}
    found = [(names, same, whole_) for sets, whole_ in ((whole, True), (shared, False)) for same, names in sets.items()
             if len(names) > 1 and len(same) >= LEAST]
    return sorted((Identical(sorted(names), sorted(number for number, _ in same),
                             sorted(number for number, content in same if normalized(content) in plain[number]), whole_)
                   for names, same, whole_ in found), key=lambda one: (-len(one.numbers), one.students))


def newest_files(student, exercises):
    """Yields (number, content) of each exercise that a student handed in and finished."""
    for exercise in exercises:
        attempts = student.attempts.get(exercise.number)
        if attempts and b"raise NotImplementedError" not in attempts[-1].content:
            yield exercise.number, attempts[-1].content


def normalized(content):
    return content.replace(b"\r\n", b"\n").strip()


@functools.lru_cache(maxsize=256)
def catalog_texts(exercise):
    """Returns the texts of an exercise's solution, its alternatives and its known mistakes."""
    edits = [{}, *exercise.alternatives.values(), *(mistake.edits for mistake in exercise.mistakes)]
    return frozenset(normalized(exercise.edited(edit).encode()) for edit in edits)
