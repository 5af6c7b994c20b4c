"""Writes a table with one row a student: ids, points of each lesson and in all, and how often each status occurs."""

from ...course.checker.verdict import STATUS
from ..gradable import sheet_of

IDS = ("canvas", "moodle", "gradescope", "github", "sis", "login", "email")


def summary_table(students):
    """Returns the header and the rows of the summary for a list of Person.

    The columns are: student; name, if a roster or gradebook tells it; canvas_id, moodle_id, ..., if the delivery, a
    roster or a gradebook gave such ids; points_05, ... for each lesson, and points_stages; points, max and percent; pass, fail, ... with
    the number of exercises of that status; late_days, the longest delay; and deducted, the points taken off for it.
    """
    kinds = [kind for kind in IDS if any(person.ids.get(kind) for person in students)]
    sheets = sorted({sheet_of(row.number) for person in students for row in person.rows})
    has_names = any(person.full_name for person in students)
    header = ["student", *(["name"] if has_names else []),
              *(kind if kind in ("login", "email") else f"{kind}_id" for kind in kinds),
              *(f"points_{sheet}" for sheet in sheets), "points", "max", "percent", *STATUS, "late_days", "deducted"]
    return header, [[person.name, *([person.full_name] if has_names else []),
                     *(str(person.ids.get(kind, "")) for kind in kinds), *results(person, sheets)]
                    for person in students]


def results(person, sheets):
    """Returns a student's points, counts and lateness, in the order of the header."""
    parts = [round(sum(row.points for row in person.rows if sheet_of(row.number) == sheet), 2) for sheet in sheets]
    percent = round(100 * person.points / person.max, 1) if person.max else 0
    late, deducted = max(row.late for row in person.rows), sum(row.deducted for row in person.rows)
    return [*parts, person.points, person.max, percent, *person.counts().values(), late, round(deducted, 2)]
