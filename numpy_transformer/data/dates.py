"""Dates from 1950 to 2049 in four written forms, each with its ISO form such as 1999-03-03."""

import datetime

MONTHS = ("January February March April May June July August September October November December").split()
YEARS = range(1950, 2050)               # a hundred years, so that two digits identify one


def written_forms(date):
    """Returns the four forms of a date: 3 March 1999; March 3, 1999; 3/3/99 (day first); the 3rd of March 1999."""
    day, month = date.day, MONTHS[date.month - 1]
    is_teen = 11 <= day <= 13
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return (f"{day} {month} {date.year}", f"{month} {day}, {date.year}",
            f"{day}/{date.month}/{date.year % 100:02d}", f"the {day}{ending} of {month} {date.year}")


def date_pairs(years):
    """Returns (written form, ISO form) of every day of the years, in order; pair i has form i % 4."""
    pairs = []
    for year in years:
        day = datetime.date(year, 1, 1)
        while day.year == year:
            pairs += [(form, day.isoformat()) for form in written_forms(day)]
            day += datetime.timedelta(days=1)
    return pairs
