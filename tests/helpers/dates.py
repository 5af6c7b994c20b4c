"""Reading of written dates that does not use the package."""

import datetime
import re


def read_date(text):
    """The ISO form of a written date by strptime, which reads the years 50 to 68 as 2050 to 2068; None if it is none."""
    text = re.sub(r"the (\d+)(st|nd|rd|th) of", r"\1", text)
    for form in ("%d %B %Y", "%B %d, %Y", "%d/%m/%y"):
        try:
            date = datetime.datetime.strptime(text, form)
        except ValueError:                      # the text has another form
            continue
        century = 100 if date.year > 2049 else 0
        return date.replace(year=date.year - century).strftime("%Y-%m-%d")
