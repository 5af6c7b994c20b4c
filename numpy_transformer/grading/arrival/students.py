"""Puts together what one student handed in: attempts by exercise, files for imports, problems and remarks."""

import re
import sys
from dataclasses import replace
from datetime import timezone

from ...course.stages.table import LAW
from ...file_checks import one_line
from ..gradable import MODULES_OF_STAGES, gradable, is_stage
from . import names
from .records import File, Problem, Student
from .search import HAND_IN
from .statements import modules
from .text import first_names, unusual

OTHER_IMPORTS = re.compile(r"^[ \t]*(?:from[ \t]+(?!(?:numpy|math|typing|__future__)\b)|"
                           r"import[ \t]+(?!(?:numpy|math|typing)\b[^,\n]*$))", re.M)
REASONS = ("because it was filled in", "because it defines the function", "by its name", "by the order of uploads",
           "by the time of the file", "by its name", "by its name")
MOST_PROBLEMS = 20                              # of one student that are listed
NOT_SHADOWED = frozenset(sys.stdlib_module_names) | {"numpy", "numpy_transformer"}


def build_student(name, owners_and_searches, only=None):
    """Returns the Student, and sentences for the teacher about what is not graded.

    Parameters:
        owners_and_searches : [(Owner, Search), ...] of everything that the student handed in
        only : numbers of the exercises that are graded; None: all
    """
    student = Student(name)
    owned_files = [(owner, one) for owner, search in owners_and_searches for one in search.found]
    set_aside_helpers([one for _, one in owned_files])
    claims = files_by_exercise(owned_files, only)
    for number in sorted(claims):
        add_attempts(student, number, claims[number])
    imported = add_files(student, owned_files)
    used = {id(one) for claim in claims.values() for _, one in claim}
    left_over = [(owner, one) for owner, one in owned_files
                 if id(one) not in used and not one.is_beside_stages and not (student.attempts and is_helper(one, imported))]
    modules_of_own = {name.partition("/")[0].removesuffix(".py") for name in student.files}
    for file in (file for files in student.attempts.values() for file in files):
        file.unusual = unusual(file.content.decode(), modules_of_own, ".ipynb" in file.where.lower(), needed_in(file.number))
    notes = add_problems(student, owners_and_searches, claims, left_over)
    student.problems = first_problems(student.problems)
    return student, notes


def set_aside_helpers(files):
    """Makes helpers of the files that lie beside stages and count for exercises only by what they define.

    That is so if a file is imported, or if there is a module.py, which makes the folder one of `build start`.
    """
    folders = {one.path[:-1] for one in files if any(map(is_stage, one.answers))}
    whole = {one.path[:-1] for one in files if one.name == f"{LAW}.py"}
    imported = imported_by(files)
    for one in files:
        stem = names.split_marks(names.stem_of(one.name) or one.name)[0]
        if one.path[:-1] not in folders or names.stage_in(stem) or names.is_exercise_name(stem):
            continue
        if not one.answers or one.path[:-1] in whole or is_helper(one, imported):
            one.answers, one.spare, one.is_beside_stages = (), (), True


def needed_in(number):
    """Returns the modules that a stage needs, which are those of the reference and other stages, and what reads files."""
    if not is_stage(number):
        return frozenset()
    needed = MODULES_OF_STAGES | modules(gradable()[number].stage.solution)
    return needed | {"open", "compile"} if "pathlib" in needed else needed


def files_by_exercise(owned_files, only):
    """Returns {number: [(Owner, FoundFile), ...]}."""
    claims = {}
    for owner, one in owned_files:
        for number in one.answers:
            claims.setdefault(number, []).append((owner, one))
    for owner, one in owned_files:
        for number in one.spare:
            others = [other for _, other in claims.get(number, ())]
            if all(number in other.spare or is_skeleton(other, number) for other in others):
                claims.setdefault(number, []).append((owner, one))
    unclaimed = [(owner, one) for owner, one in owned_files
                 if not one.answers and not one.spare and not one.is_beside_stages]
    if only and len(only) == 1 and only[0] not in claims and len(unclaimed) == 1:
        claims[only[0]] = unclaimed             # one exercise is graded and there is one file: it must be this one
    return claims


def add_attempts(student, number, claim):
    exercise = gradable()[number]
    if len(claim) > 1:
        claim = without_equals(number, sorted(claim, key=lambda pair: newest_last(exercise, *pair)))
    for owner, one in claim:
        student.attempts.setdefault(number, []).append(File(
            exercise.file, one_line(one.where), one.source(number).encode("utf-8", "replace"), number, owner.submitted,
            owner.time_from, owner.late))
    one = claim[-1][1]
    remarks = list(one.remarks)
    if len(claim) > 1:
        older = first_names([other.name for _, other in claim[:-1]])
        remarks.insert(0, f"{len(claim)} files; the newest counts: {one_line(one.name)} (not {older}), "
                          f"{why_newest(exercise, *claim[-2:])}")
    if one.mislabeled or number not in one.answers:
        remarks.append(f"the function was found in {one_line(one.name)}")
    if remarks:
        student.remarks[number] = remarks


def newest_last(exercise, owner, one):
    """Returns the sort key of an attempt. What an unchanged skeleton, or a file without the function, is worth comes
    first; then the marks in its name, the order of uploads, its time in minutes, and the name of the skeleton."""
    minutes = 0
    if one.modified and owner.key[0] != "github":           # git gives all files the time of the clone
        minutes = int(one.modified.astimezone(timezone.utc).timestamp()) // 60
    has_own_name = one.name == exercise.file
    return (not is_skeleton(one, exercise.number), exercise.number in one.defined, one.marks, owner.order, minutes,
            has_own_name, one.where)


def why_newest(exercise, before, newest):
    """Returns why an attempt counts and not the one before it: the first part of their sort keys that differs."""
    keys = zip(newest_last(exercise, *before), newest_last(exercise, *newest), REASONS)
    return next((reason for old, new, reason in keys if old != new), REASONS[-1])


def is_skeleton(one, number):
    """Returns True for a file that is still as students got it."""
    text = one.source(number)
    return "raise NotImplementedError" in text and names.normal(text) == names.normal(gradable()[number].skeleton())


def without_equals(number, claim):
    """Returns attempts, oldest first, without those that have the same content as a newer one."""
    kept = {one.source(number).strip(): (owner, one) for owner, one in claim}
    return [pair for pair in claim if any(pair[1] is one for _, one in kept.values())]


def add_files(student, owned_files):
    """Adds all Python files under the names by which they import each other. Returns the modules that they import."""
    imported = imported_by([one for _, one in owned_files])
    packages = files_by_ending(owned_files)
    for _, one in sorted(owned_files, key=lambda pair: (pair[1].marks, pair[0].order, pair[1].where)):
        stem = module_name(one)
        content = one.sources[""].encode("utf-8", "replace")
        is_helper = not one.answers and one.name.lower().endswith(".py")
        if stem.isidentifier() and stem not in NOT_SHADOWED and (is_helper or stem in imported):
            student.files[f"{stem}.py"] = content
    for path in sorted({path for module in imported for path in paths(module)} & packages.keys()):
        student.files["/".join(path)] = packages[path].sources[""].encode("utf-8", "replace")
    for number, attempts in student.attempts.items():
        content = attempts[-1].content
        student.files[attempts[-1].name] = content
        for alias in aliases(number) & imported - NOT_SHADOWED:
            student.files[f"{alias}.py"] = content
    return imported


def imported_by(files):
    """Returns the modules that these FoundFiles import."""
    return {module for one in files for text in one.sources.values() if OTHER_IMPORTS.search(text) for module in modules(text)}


def files_by_ending(owned_files):
    """Returns {the last names of a path: the FoundFile that lies there}; of several, the newest."""
    newest_last = sorted(owned_files, key=lambda pair: (pair[1].marks, pair[0].order, pair[1].where))
    return {one.path[i:]: one for _, one in newest_last for i in range(len(one.path))}


def module_name(one):
    """Returns the name under which others import a file: "helper" for "helper-1.py", which Canvas or a browser named."""
    stem = names.stem_of(one.name) or ""
    return stem if stem.isidentifier() else names.split_marks(stem)[0]


def paths(module):
    """Returns the paths of the files in packages that importing "utils.tools" may read."""
    parts = tuple(module.split("."))
    if parts[0] in NOT_SHADOWED:
        return []
    inside = [(*parts[:-1], f"{parts[-1]}.py")] if len(parts) > 1 else []
    return inside + [(*parts[:i], "__init__.py") for i in range(1, len(parts) + 1)]


def aliases(number):
    """Returns the module names under which other files may import an exercise or a stage."""
    exercise, place = gradable()[number], number.replace(".", "_")
    if is_stage(number):
        return {exercise.file.removesuffix(".py")}
    return {f"ex{place}", f"exercise{place}", f"exercise_{place}", exercise.name, exercise.file[:-len(".py")],
            exercise.file[len("ex00_0_"):-len(".py")]}


def add_problems(student, owners_and_searches, claims, left_over):
    """Adds what could not be read, and strays if there is nothing else. Returns notes for the teacher."""
    for owner, search in owners_and_searches:
        student.problems += [problem(owner, *entry) for entry in search.problems]
    folders = {folder_of(one.where) for claim in claims.values() for _, one in claim if any(map(is_stage, one.answers))}
    strays = [problem(owner, where, "", sentence) for owner, search in owners_and_searches
              for where, sentence in search.strays if not (where.endswith(".html") and folder_of(where) in folders)]
    strays += [problem(owner, one.where, "", why_unused(one)) for owner, one in left_over if not one.is_starter]
    skeletons = [number for number, claim in claims.items() if all(is_skeleton(one, number) for _, one in claim)]
    for number in skeletons if strays else ():
        student.remarks.setdefault(number, []).extend(f"{entry.where}: {entry.sentence.rstrip('.')}" for entry in strays)
    if student.attempts or student.problems:
        return [f"{student.name}: {stray.where}: {stray.sentence}" for stray in strays]
    others = [(owner, name) for owner, search in owners_and_searches for name in search.others]
    if not strays and others:
        where = first_names([name for _, name in others])
        strays = [problem(others[-1][0], where, "", f"is no exercise's file; {HAND_IN} of the exercise")]
    student.problems += strays
    return [] if student.problems else [f"{student.name} handed in nothing: there is no file"]


def folder_of(where):
    """Returns the folder of a file; `build report` writes a page beside the stages, which is nothing to be graded."""
    return where.rpartition("/")[0]


def first_problems(problems):
    """Returns the first problems, those of an exercise before others, and how many more there are."""
    ordered = sorted(problems, key=lambda problem: not problem.number)
    more = len(ordered) - MOST_PROBLEMS
    if more <= 1:
        return problems
    rest = replace(ordered[-1], where=f"{more} more files", number="", sentence="These are not graded either.")
    return [*ordered[:MOST_PROBLEMS], rest]


def problem(owner, where, number, sentence):
    return Problem(one_line(where), number, f"This {sentence}.", owner.submitted, owner.time_from, owner.late)


def is_helper(one, imported):
    """Returns True for a file that other files of the student import."""
    return any(module.split(".")[-1] == module_name(one) for module in imported)


def why_unused(one):
    number = names.unknown_number(names.stem_of(one.name) or "")
    if number:
        return f"is named after exercise {number}, which does not exist; rename the file"
    return "belongs to no exercise: its name has no exercise's number, and it defines no exercise's function"
