"""Times of submission from Moodle's grading worksheet: the files that Moodle gives have the time of the download.

A date is written in the language and the time zone of the teacher: "Sunday, 22 November 2026, 12:30 PM", "Mittwoch,
13. März 2024, 10:15", "lundi 5 octobre 2026, 10:15", "domingo, 22 de noviembre de 2026, 12:30".
"""

import datetime
import itertools
import re

from ..lateness import parse_zone
from .moodle import MoodleWorksheet
from .people import Person, match, name_words

# The months in English, German, Dutch, French, Spanish, Italian and Portuguese, by how they begin without accents.
MONTHS = (("jan", "ene", "gen"), ("feb", "fev"), ("mar", "maa"), ("apr", "avr", "abr"), ("may", "mai", "mei", "mag"),
          ("jun", "juin", "giu"), ("jul", "juil", "lug"), ("aug", "aou", "ago"), ("sep", "set"),
          ("oct", "okt", "ott", "out"), ("nov",), ("dec", "dez", "dic"))
LONGEST = 200                                   # characters of a date: searching takes quadratic time
DATE = re.compile(r"(?:(\d{1,2})(?:\s+de)?\s+([^\W\d]+)|([^\W\d]+)\s+(\d{1,2}))(?:\s+de)?\s+(\d{4})"
                  r"\s+(\d{1,2})\s+(\d{2})(?:\s+([ap])m)?")


def tell_times(class_, path, zone=None):
    """Gives the time of a student's last submission to all files whose delivery tells none.

    Returns sentences for the teacher.

    Parameters:
        class_ : list of Student
        path : path of the worksheet
        zone : name of the time zone that the worksheet's dates are in; None for the machine's
    """
    worksheet, zone = MoodleWorksheet(path), parse_zone(zone)
    column = submission_column(worksheet)
    if column is None:
        return [f"{path.name} has no times of submission that can be read; list them in a file for --submitted"]
    students = {student.name: student for student in class_}
    people = [Person(student.name, student.ids, []) for student in class_]
    told = 0
    for person, line in match(people, worksheet.lines(), worksheet.order).pairs:
        moment = parse_date(worksheet.sheet.rows[line.row][column])
        student = students[person.name]
        for file in itertools.chain(*student.attempts.values(), student.problems):
            if moment and file.submitted is None:
                file.submitted = moment.replace(tzinfo=zone) if zone else moment.astimezone()
                file.time_from, told = "Moodle's worksheet", told + 1
    return [] if told else [f"{path.name} tells no times of submission for this class"]


def submission_column(worksheet):
    """Returns the column Last modified (submission), or None: the first one of dates, before Last modified (grade)."""
    end = worksheet.modified or len(worksheet.sheet.rows[0])
    for column in range(worksheet.maximum + 1, end):
        if any(map(parse_date, worksheet.cells(column))):
            return column
    return None


def parse_date(text):
    """Returns the datetime, without a time zone, that Moodle has written in one of the languages above, or None."""
    match = DATE.search(" ".join(name_words(text[:LONGEST])))
    if not match:
        return None
    day, month, month_first, day_last, year, hour, minute, half = match.groups()
    name = month or month_first
    number = next((i for i, starts in enumerate(MONTHS, 1) if name.startswith(starts)), None)
    hour = int(hour) % 12 + 12 * (half == "p") if half else int(hour)
    try:
        return datetime.datetime(int(year), number, int(day or day_last), hour, int(minute))
    except (TypeError, ValueError):             # an unknown month, or no such day
        return None
