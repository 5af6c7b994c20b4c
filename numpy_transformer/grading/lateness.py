"""Times, deadlines and rates, as teachers write them."""

import csv
import math
import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

from ..file_checks import one_line
from .gradable import choose_gradable

UNITS = {"day": timedelta(days=1), "hour": timedelta(hours=1)}
LONGEST_DAYS, YEARS = 3650, range(1970, 3000)   # of a length of time, and of deadlines
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(min|minutes?|h|hours?|d|days?)")
AMOUNT = r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<kind>% of max|%|points?)"
RATE = re.compile(rf"{AMOUNT}(?:\s*(?:/|per)\s*(?P<unit>day|hour))?")
LIMIT = re.compile(rf"(?P<word>at most|at least)\s*{AMOUNT}")
END = re.compile(r"nothing after\s*(\d+)\s*days?")


def parse_zone(name):
    """Returns the time zone of this name; None stands for the machine's."""
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"there is no time zone {name!r} here; use a name such as Europe/Berlin (on Windows, pip "
                         "install tzdata first), or write times with an offset such as +01:00") from error


def parse_time(text, zone):
    """Returns an aware datetime. A date alone stands for its last minute."""
    text = text.strip()
    try:
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a time; write it as 2026-11-20, 2026-11-20 23:59 or "
                         "2026-11-20T23:59+01:00") from error
    if moment.year not in YEARS:                # others have no place in every time zone
        raise ValueError(f"{text!r} is in the year {moment.year}; give a time from {YEARS[0]} to {YEARS[-1]}")
    if re.fullmatch(r"\d{4}-?\d{2}-?\d{2}", text):
        moment = datetime.combine(moment, time(23, 59))
    if moment.tzinfo:
        return moment
    return moment.replace(tzinfo=zone) if zone else moment.astimezone()


def parse_duration(text):
    """Returns the timedelta of a text such as "15min", "2 hours" or "1 day"."""
    match = DURATION.fullmatch(text.strip().lower())
    if not match:
        raise ValueError(f"{text!r} is not a length of time; write it as 15min, 2 hours or 1 day")
    unit = {"m": timedelta(minutes=1), "h": UNITS["hour"], "d": UNITS["day"]}[match[2][0]]
    if float(match[1]) * (unit / UNITS["day"]) > LONGEST_DAYS:
        raise ValueError(f"{text[:40]!r} is longer than {LONGEST_DAYS} days; give at most that")
    return float(match[1]) * unit


@dataclass(frozen=True)
class Deadline:
    """A deadline on the clock on the wall of a time zone, so that a day later is the same time of the next day.

    Parameters:
        wall : naive datetime
        zone : tzinfo; None for the machine's
    """

    wall: datetime
    zone: object = None

    @classmethod
    def parse(cls, text, zone=None):
        """Returns the Deadline for a time, which includes the whole of its minute if no seconds are given."""
        moment = parse_time(text, zone)
        if not re.search(r":\d\d:\d\d", text):
            moment += timedelta(seconds=59, microseconds=999_999)
        has_offset = moment.tzinfo and re.search(r"([zZ]|[+-]\d\d:?\d\d)$", text.strip())
        return cls(moment.replace(tzinfo=None), moment.tzinfo if has_offset else zone)

    @property
    def moment(self):
        return self.wall.replace(tzinfo=self.zone) if self.zone else self.wall.astimezone()

    def moved(self, days):
        return replace(self, wall=self.wall + timedelta(days=days))

    def days_late(self, submitted, grace=timedelta(0)):
        """Returns the number of started days after the deadline."""
        wall = submitted.astimezone(self.zone).replace(tzinfo=None)
        return max(0, math.ceil((wall - self.wall - grace) / UNITS["day"]))

    def units_late(self, submitted, grace, unit):
        """Returns the number of started hours or days after the deadline, or 1 if the rate has no unit."""
        if unit == "hour":
            return max(0, math.ceil((submitted - self.moment - grace) / UNITS["hour"]))
        days = self.days_late(submitted, grace)
        return days if unit else min(days, 1)

    def describe(self, submitted):
        """Returns words for a late time, such as "2026-10-16 02:59, 27 hours after the deadline 2026-10-14 23:59"."""
        minutes = max(1, (submitted - self.moment.replace(second=0, microsecond=0)) // timedelta(minutes=1))
        number, unit = next(((minutes / size, unit) for unit, size in (("day", 1440), ("hour", 60))
                             if minutes >= 3 * size), (minutes, "minute"))
        lateness = f"{number:.0f} {unit}{'' if number == 1 else 's'}"
        return f"{submitted.astimezone(self.zone):%Y-%m-%d %H:%M}, {lateness} after the deadline {self}"

    def __str__(self):
        return f"{self.wall:%Y-%m-%d %H:%M}"


@dataclass(frozen=True)
class Rate:
    """What lateness costs.

    Parameters:
        amount : a number of points, or a percentage
        kind : "%" of the points earned, "% of max" (of the points possible) or "point"
        unit : "day" or "hour", each of which counts when it has started; "" for one deduction however late
        most, most_kind : the largest deduction; None if there is no limit
        least : the percentage of the points earned that always remains
        last_day : number of days after which all points are lost; None if there is no such limit
    """

    amount: Decimal = Decimal(0)
    kind: str = "%"
    unit: str = ""
    most: Decimal = None
    most_kind: str = "%"
    least: Decimal = Decimal(0)
    last_day: int = None

    @classmethod
    def parse(cls, text):
        """Returns the Rate of a text such as "10%/day, at most 50%", "2 points/day", "20%" or "none"."""
        first, *rest = [part.strip().lower() for part in text.split(",")]
        match = RATE.fullmatch("0%" if first in ("none", "0") else first)
        if not match:
            raise ValueError(f"--late {text!r} is not understood; write it as 10%/day, 5%/hour, 2points/day, "
                             "10% of max/day, 20% (once) or none, and after commas: at most 50%, at least 40%, nothing "
                             "after 3 days")
        rate = cls(Decimal(match["amount"]), match["kind"].rstrip("s"), match["unit"] or "")
        for part in rest:
            rate = rate.limited(part, text)
        return rate

    def limited(self, part, text):
        """Returns the rate with one more limit."""
        limit, end = LIMIT.fullmatch(part), END.fullmatch(part)
        if end:
            return replace(self, last_day=int(end[1]))
        if not limit or limit["word"] == "at least" and limit["kind"] != "%":
            raise ValueError(f"--late {text!r}: {part!r} is not understood; write at most 50%, at most 2 points, at "
                             "least 40% or nothing after 3 days")
        amount = Decimal(limit["amount"])
        if limit["word"] == "at least":
            return replace(self, least=amount)
        return replace(self, most=amount, most_kind=limit["kind"].rstrip("s"))

    def deduction(self, points, most, units, days):
        """Returns the Decimal that is deducted from `points`, rounded to two decimals, halves up.

        Parameters:
            points, most : the points earned and the points possible
            units, days : started units and started days after the deadline
        """
        earned = Decimal(str(points))
        if self.last_day is not None and days > self.last_day:
            return earned
        worth = {"%": earned / 100, "% of max": Decimal(most) / 100, "point": Decimal(1)}
        deducted = self.amount * worth[self.kind] * units
        if self.most is not None:
            deducted = min(deducted, self.most * worth[self.most_kind])
        deducted = min(deducted, earned * (1 - self.least / 100))
        return deducted.quantize(Decimal("0.01"), ROUND_HALF_UP)

    def __str__(self):
        kinds = {"%": "% of the points earned", "% of max": "% of the points possible", "point": " points"}
        each = f"for each started {self.unit} after the deadline" if self.unit else "once"
        parts = [f"{self.amount}{kinds[self.kind]} deducted {each}" if self.amount else "nothing deducted"]
        if self.most is not None:
            parts.append(f"at most {self.most}{kinds[self.most_kind]}")
        if self.least:
            parts.append(f"at least {self.least}% of the points earned remain")
        if self.last_day is not None:
            parts.append(f"no points after {self.last_day} days")
        return ", ".join(parts)


@dataclass(frozen=True)
class StudentEntry:
    """A line of a CSV file about one student: further days for a deadline, or a time.

    Parameters:
        student : a name or an id
        numbers : the exercises that it is about; empty for all
        days : number of days, or None if there is a time
        time : Deadline, or None if there are days
    """

    student: str
    numbers: frozenset
    days: int = None
    time: Deadline = None

    def applies(self, number):
        return not self.numbers or number in self.numbers

    def extend(self, deadline):
        return self.time or deadline.moved(self.days)


def read_entries(path, zone, days=True):
    """Reads a CSV file with the columns student, days or a time, and if wanted an exercise or lesson.

    Returns {folded name or id: list of StudentEntry}.

    Parameters:
        days : whether a number of days is allowed
    Raises: ValueError with one sentence that names the line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ValueError(f"cannot read {str(path)!r}: {reason}; name a CSV file with the columns student and time"
                         ) from error
    delimiter = ";" if ";" in text.partition("\n")[0] else ","       # Excel writes semicolons in much of Europe
    entries = {}
    for i, cells in enumerate(csv_rows(path, text, delimiter)):
        student, value, where, *_ = [*map(str.strip, cells), "", "", ""]
        is_header = i == 0 and not re.search(r"\d", value)
        if student and not is_header:
            try:
                entry = parse_entry(student, value, where, zone, days)
            except ValueError as error:
                raise ValueError(f"{path}, line {i + 1}: {one_line(error)}") from error
            entries.setdefault(folded_name(student), []).append(entry)
    return entries


def csv_rows(path, text, delimiter):
    """Yields the rows of a CSV text. Raises ValueError for a cell that is far too long."""
    try:
        yield from csv.reader(text.splitlines(), delimiter=delimiter)
    except csv.Error as error:
        raise ValueError(f"cannot read {str(path)!r}: {error}; name a CSV file with the columns student and time") from error


def parse_entry(student, value, where, zone, days):
    numbers = frozenset(exercise.number for exercise in choose_gradable([where]))
    count = re.fullmatch(r"(\d{1,3})(\s*days?)?", value) if days else None
    if count:
        return StudentEntry(student, numbers, days=int(count[1]))
    return StudentEntry(student, numbers, time=Deadline.parse(value, zone))


def folded_name(name):
    """Returns the form in which names are compared: without regard to case, spaces and how accents are encoded."""
    return " ".join(unicodedata.normalize("NFKC", str(name)).casefold().split())
