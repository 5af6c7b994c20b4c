"""Dates from 1950 to 2049 in four written forms, each with its reading such as 1999-03-03."""

import datetime

MONTHS = ("January February March April May June July August September October November December").split()
YEARS = range(1950, 2050)               # a hundred, so that two digits name one


def written_forms(date):
    """3 March 1999; March 3, 1999; 3/3/99 (day first); the 3rd of March 1999."""
    day, month = date.day, MONTHS[date.month - 1]
    ending = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return (f"{day} {month} {date.year}", f"{month} {day}, {date.year}",
            f"{day}/{date.month}/{date.year % 100:02d}", f"the {day}{ending} of {month} {date.year}")


def date_pairs(years):
    """(written form, reading) of every day of the years, in order: pair i has form i % 4."""
    days = [datetime.date(year, 1, 1) + datetime.timedelta(n) for year in years
            for n in range((datetime.date(year + 1, 1, 1) - datetime.date(year, 1, 1)).days)]
    return [(form, day.isoformat()) for day in days for form in written_forms(day)]
