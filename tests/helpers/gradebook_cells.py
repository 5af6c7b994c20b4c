"""Compares a filled gradebook file with the downloaded one and with what is known of the class, cell by cell."""

import csv
import io


def read(path):
    """The rows of a file, its separator, and whether it starts with a BOM."""
    text = path.read_bytes().decode("utf-8")
    separator = ";" if text.splitlines()[0].count(";") > text.splitlines()[0].count(",") else ","
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=separator)
    return list(rows), separator, text.startswith("\ufeff")


def total(pupil, numbers=None):
    return sum(truth.points for number, truth in pupil.truth.items() if numbers is None or number in numbers)


def canvas_deviations(before, after, pupils, owed):
    """Sentences about cells of a Canvas gradebook that are not as they should be.

    Parameters:
        owed : {title of a column: function (pupil) that returns the points, or None if the cell keeps its value}
    """
    (old, separator, bom), (new, new_separator, new_bom) = read(before), read(after)
    found = [] if (separator, bom) == (new_separator, new_bom) else ["another separator, or another BOM"]
    header, by_id = old[0], {str(pupil.ids["canvas"]): pupil for pupil in pupils}
    if [len(row) for row in old] != [len(row) for row in new]:
        return [*found, "other rows or columns"]
    for old_row, new_row in zip(old, new):
        pupil = by_id.get(old_row[header.index("ID")])
        for title, was, got in zip(header, old_row, new_row):
            wanted = owed[title](pupil) if title in owed and pupil else None
            if (wanted is None and got != was) or (wanted is not None and value(got) != wanted):
                who = f"{pupil.habit}: {pupil.name}" if pupil else old_row[0]
                found.append(f"{who}: {title}: was {was!r}, got {got!r}, owed {wanted}")
    return found


def moodle_deviations(before, after, pupils, owed, grade, changed):
    """The same for Moodle's grading worksheet.

    Parameters:
        owed : function (pupil) as above
        grade : the title of the column for the grade
        changed : the titles of columns that are filled for everybody who gets a grade (the feedback)
    """
    (old, separator, bom), (new, new_separator, new_bom) = read(before), read(after)
    found = [] if (separator, bom) == (new_separator, new_bom) else ["another separator, or another BOM"]
    header, by_id = old[0], {str(pupil.ids["moodle"]): pupil for pupil in pupils}
    if [len(row) for row in old] != [len(row) for row in new]:
        return [*found, "other rows or columns"]
    for old_row, new_row in zip(old[1:], new[1:]):
        pupil = by_id["".join(c for c in old_row[0] if c.isdigit())]
        wanted = owed(pupil)
        for title, was, got in zip(header, old_row, new_row):
            if title == grade and wanted is not None:
                wrong = value(got) != wanted
            elif title in changed and wanted is not None:
                wrong = got in ("", "-")
            else:
                wrong = got != was
            if wrong:
                found.append(f"{pupil.habit}: {pupil.name}: {title}: was {was!r}, got {got[:80]!r}, owed {wanted}")
    return found if old[0] == new[0] else [*found, "another header"]


def value(cell):
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return None
