"""Writes a table with one row a student: ids, points of each lesson and in all, and how often each status occurs."""

from ...classroom.verdict import STATUS
from .people import people

IDS = ("canvas", "moodle", "gradescope", "github", "login", "email")


def summary_table(rows):
    """Returns the header and the rows of the summary.

    The columns are: student; canvas_id, moodle_id, ..., if the delivery gave such ids; points_05, ... for each lesson;
    points, max and percent; pass, fail, ... with the number of exercises of that status; late_days, the longest delay,
    and deducted, the points taken off for it.
    """
    students = people(rows)
    kinds = [kind for kind in IDS if any(person.ids.get(kind) for person in students)]
    lessons = sorted({row.number[:2] for row in rows})
    header = ["student", *(f"{kind}_id" if kind not in ("login", "email") else kind for kind in kinds),
              *(f"points_{lesson}" for lesson in lessons), "points", "max", "percent", *STATUS, "late_days", "deducted"]
    return header, [summary_row(person, kinds, lessons) for person in students]


def summary_row(person, kinds, lessons):
    parts = [round(sum(row.points for row in person.rows if row.number.startswith(lesson)), 2) for lesson in lessons]
    percent = round(100 * person.points / person.max, 1) if person.max else 0
    late, deducted = max(row.late for row in person.rows), sum(row.deducted for row in person.rows)
    return [person.name, *(str(person.ids.get(kind, "")) for kind in kinds), *(round(part, 2) for part in parts),
            person.points, person.max, percent, *person.counts().values(), late, round(deducted, 2)]
