"""Parts of a class that are graded separately, and tables that are joined or continued."""

import difflib
import hashlib
import json
import os
import unicodedata
from dataclasses import dataclass

from ..course.checker.feedback import heading
from ..course.checker.verdict import STATUS
from ..file_checks import MALFORMED, check_form, reason_of
from ..texts import from_data, render
from .files import open_regular
from .gradable import gradable
from .gradebooks.people import name_keys, name_without_id, name_words
from .rows import Row

LARGEST = 1 << 30                               # bytes of a record
NONE = type(None)
TEST = {"name": str, "number": str, "status": str, "points": float, "max": int, "seconds": float, "note": str, "stage": str,
        "lines": [{"kind": str, "values": {str: object}}], "misconceptions": [[str]], "unusual": bool, "remarks": [str],
        "output": str, "answer": str, "digest": str, "submitted": str, "late": int, "deducted": float}
FORM = {"seed": int, "timeout?": float, "memory?": float, "versions": {"numpy_transformer": str},
        "shard?": (str, NONE), "left_out?": {str: {str: str}},
        "policy?": ({"due?": ([str], NONE), "timezone?": (str, NONE), "late?": (str, NONE), "grace?": (str, NONE),
                     "free_late_days?": (int, str, NONE), "attempts?": (str, NONE)}, NONE),
        "students": [{"student": str, "ids": {str: str}, "problems": [str], "tests": [TEST]}]}
AGREE = ("seed", "timeout", "memory")           # settings that all parts have in common, beside versions and policy


@dataclass
class Record:
    """What the JSON beside a table holds: the settings, the rows, and problems that belong to no exercise."""

    settings: dict
    rows: list
    problems: dict


def in_shard(student, shard):
    """Returns True if a student belongs to shard (k, n): a digest of the name decides, on every machine alike."""
    number, count = shard
    name = unicodedata.normalize("NFC", student).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big") % count == number - 1


def choose_students(class_, texts, shard):
    """Returns the students of a class that --students and --shard choose.

    Parameters:
        texts : a name or an id each, or several with commas between them; None: all students
        shard : (k, n) or None
    Raises: ValueError if there is no such student.
    """
    class_ = [student for student in class_ if not shard or in_shard(student.name, shard)]
    if not texts:
        return class_
    names = [name for text in texts for name in names_in(class_, text)]
    chosen = {find_student(class_, name).name for name in names}
    return [student for student in class_ if student.name in chosen]


def names_in(class_, text):
    """Returns the names or ids in a text: "Lee, Kim" is one if there is such a student, else two."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    known = {name for student in class_ for name in (student.name, *student.ids.values())}
    whole = text in known or not known.issuperset(parts) and candidates(class_, text)
    return [text.strip()] if whole else parts


def candidates(class_, text):
    """Returns the students with this name or id, else those with the same words in their names, in any order."""
    exact = [student for student in class_ if text.strip() in (student.name, *student.ids.values())]
    return exact or [student for student in class_ if name_keys(text) & name_keys(name_without_id(student))]


def find_student(class_, text):
    """Returns the student with this name or id. Raises ValueError with similar names if there is not exactly one."""
    matches = candidates(class_, text)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ValueError(f"{text!r} may be {' or '.join(map(labeled, matches[:5]))}; use the name in the table, or the id")
    owners = {key: student for student in class_ for key in name_keys(name_without_id(student))}
    own = "".join(name_words(text))
    near = {owners[key].name: owners[key]
            for key in [*(key for key in owners if own and own in key), *difflib.get_close_matches(own, owners, 5, 0.7)]}
    hint = f"; did you mean {' or '.join(map(labeled, [*near.values()][:5]))}?" if near else ""
    raise ValueError(f"there is no student {text!r} in this class{hint or example_of_name(class_)}")


def example_of_name(class_):
    example = f", such as {class_[0].name!r}" if class_ else ""
    return f"; a student is named as in the table{example}, or by an id"


def labeled(student):
    """Returns a student's name and ids."""
    ids = ", ".join(f"{kind} {value}" for kind, value in student.ids.items())
    return f"{student.name!r} ({ids})" if ids else repr(student.name)


def parse_shard(text):
    """Returns (k, n) for a text such as "3/16". Raises ValueError."""
    number, _, count = text.partition("/")
    good = all(part.isascii() and part.isdigit() for part in (number, count))
    if not good or not 1 <= int(number) <= int(count) <= 100_000:
        raise ValueError(f"{text!r} is no part of a class; write 3/16 for the third of sixteen parts")
    return int(number), int(count)


def record_of(table):
    """Returns the path of the JSON that is kept beside a table unless --json says otherwise."""
    return table.with_suffix(".json")


def read_record(path):
    """Returns the Record in a JSON file, or None if there is no file. Raises ValueError if it is anything else."""
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                raise ValueError(f"it is larger than {LARGEST >> 20} MB")
            content = json.loads(file.read())
        return record_from(content)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except (ValueError, *MALFORMED) as error:
        raise ValueError(f"{str(path)!r} does not hold the results of a grading by this version ({reason_of(error)}); "
                         "move it away, or choose another --out") from error


def record_from(content):
    """Returns the Record in the JSON of a grading. Raises ValueError, or one of MALFORMED, if it is anything else."""
    check_form(content, FORM, "the file")
    problems = {student["student"]: student["problems"] for student in content["students"] if student["problems"]}
    rows = [row for student in content["students"] for row in rows_of(student)]
    for row in rows:
        if row.number not in gradable() or row.status not in STATUS:
            raise ValueError(f"there is no exercise {row.number!r}, or no status {row.status!r}")
        render([row.lines, heading("verdict.heading.result", gradable()[row.number], row.verdict)])       # all texts exist
    settings = {name: value for name, value in content.items() if name not in ("version", "students", "summary")}
    if settings.get("shard") is not None:
        parse_shard(settings["shard"])
    return Record(settings, rows, problems)


def rows_of(student):
    """Yields the Rows of a student in the JSON."""
    for test in student["tests"]:
        yield Row(student["student"], test["number"], test["name"], test["status"], test["points"], test["max"],
                  test["seconds"], test["note"], test["stage"], from_data(test["lines"]), test["misconceptions"],
                  test["unusual"], test["remarks"], test["output"], test["answer"], test["digest"],
                  student["ids"], test["submitted"], test["late"], test["deducted"])


def replace_rows(old, new):
    """Returns the old rows with the new ones in place of those of the same student and exercise, sorted."""
    rows = {(row.student, row.number): row for row in (*old, *new)}
    return [rows[key] for key in sorted(rows)]


def merge(records):
    """Returns the Record that one run over all students would have given.

    Parameters:
        records : {name of the table: Record}
    Raises: ValueError if settings or exercises differ, or a shard or a student is missing or occurs twice.
    """
    (first, start), *others = records.items()
    for name, record in others:
        ours, theirs = common(start.settings), common(record.settings)
        different = [setting for setting in {**ours, **theirs} if ours.get(setting) != theirs.get(setting)]
        if different:
            has = " and ".join(
                f"{table} has {', '.join(describe_option(setting, own.get(setting)) for setting in different)}"
                for table, own in ((first, ours), (name, theirs)))
            raise ValueError(f"{has}, so that they cannot be joined; grade one of them again with the same")
        if exercises_of(record) and exercises_of(start) and exercises_of(record) != exercises_of(start):
            different = sorted(exercises_of(record) ^ exercises_of(start))
            raise ValueError(f"{first} and {name} cannot be joined: only one of them has {', '.join(different[:5])}; "
                             "grade both with the same --only")
    check_shards({name: record.settings.get("shard") for name, record in records.items()})
    seen = {}
    for name, record in records.items():
        for student in dict.fromkeys(row.student for row in record.rows):
            if student in seen:
                raise ValueError(f"the student {student!r} is in {seen[student]} and in {name}; leave one of them out")
            seen[student] = name
    rows = sorted((row for record in records.values() for row in record.rows),
                  key=lambda row: (row.student, row.number))
    known = {name: ids for record in records.values() for name, ids in record.settings.get("left_out", {}).items()}
    settings = {name: value for name, value in start.settings.items() if name != "shard"}
    return Record(with_left_out(settings, known, rows), rows, {name: sentences for record in records.values()
                                   for name, sentences in record.problems.items()})


def with_left_out(settings, known, rows):
    """Returns settings that name the students of the class who are not in the table, if there are any.

    Parameters:
        known : {name: ids} of students of the class
        rows : list of Row, the table
    """
    graded = {row.student for row in rows}
    left_out = {name: dict(ids) for name, ids in known.items() if name not in graded}
    settings = {name: value for name, value in settings.items() if name != "left_out"}
    return {**settings, "left_out": left_out} if left_out else settings


def common(settings):
    """Returns {name: value} of what all parts have in common; a rule for late work is named as its option."""
    rules = settings.get("policy") or {}
    return {**{name: settings.get(name) for name in AGREE}, **settings.get("versions", {}),
            **{"--" + name.replace("_", "-"): value for name, value in rules.items()}}


def describe_option(name, value):
    values = value if isinstance(value, list) else [value]
    return " ".join(f"{name} {entry}" for entry in values) if value else f"no {name}"


def exercises_of(record):
    return {row.exercise for row in record.rows}


def check_shards(shards):
    """Raises ValueError unless the tables are all the parts of one class, or none of them is a part."""
    texts = [text for text in shards.values() if text]
    if not texts:
        return
    whole = [name for name, text in shards.items() if not text]
    counts = {parse_shard(text)[1] for text in texts}
    if whole or len(counts) > 1:
        raise ValueError(f"the tables are not parts of one class: {', '.join(sorted({*texts, *whole}))}; join all parts "
                         "of one --shard K/N")
    count, = counts
    wanted = [f"{k}/{count}" for k in range(1, count + 1)]
    twice = sorted({text for text in texts if texts.count(text) > 1})
    missing = [text for text in wanted if text not in texts]
    if twice or missing:
        raise ValueError("; ".join(f"{words} {', '.join(parts[:8])}{', ...' if len(parts) > 8 else ''}"
                                   for words, parts in (("missing parts:", missing), ("parts named twice:", twice))
                                   if parts))
