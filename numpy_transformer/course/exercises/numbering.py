"""The numbers of exercises: 05.2 is the second exercise of lesson 05."""

import re

# The numbers that exercises had before they were numbered by lesson. For one release, these numbers and the old file
# names are still understood. The cases of these exercises are still drawn with the former number, so that each seed
# gives the same cases as before.
CURRENT = {
    "01": "01.1", "02": "01.2", "03": "01.3", "04": "01.4", "05": "02.1", "06": "02.2", "07": "02.3",
    "08": "03.1", "09": "03.2", "10": "04.1", "11": "05.1", "12": "05.2", "13": "06.1", "14": "06.2",
    "15": "06.3", "16": "07.1", "17": "07.2", "18": "07.3", "19": "07.4", "20": "07.5", "21": "07.6",
    "22": "08.1", "23": "08.2", "24": "08.3", "25": "16.1", "26": "16.2", "27": "09.1", "28": "09.2",
    "29": "09.3", "30": "09.4", "31": "09.5", "32": "09.6", "33": "13.1", "34": "13.2", "35": "11.1",
    "36": "11.2", "37": "10.1", "38": "10.2", "39": "10.3", "40": "10.4", "41": "10.5", "42": "11.3",
    "43": "11.4", "44": "12.1", "45": "14.1", "46": "12.2", "47": "13.3", "48": "16.3", "49": "16.4",
    "50": "14.2", "51": "17.1", "52": "19.1", "53": "19.2", "54": "19.3", "55": "19.4", "56": "01.5",
    "57": "11.5", "58": "14.3", "59": "14.4", "60": "15.1", "61": "07.7", "62": "01.6", "63": "06.4",
    "64": "10.6", "65": "08.4", "66": "03.3", "67": "06.5", "68": "01.7", "69": "09.7", "70": "05.3",
    "71": "04.2", "72": "13.4", "73": "04.3", "74": "10.7", "75": "13.5", "76": "13.6", "77": "14.5",
    "78": "11.6", "79": "15.2", "80": "20.1", "81": "20.2",
}
FORMER = {current: former for former, current in CURRENT.items()}

WRITTEN = re.compile(r"(?:.*[/\\])?(?:ex)?([0-9]{1,2})(?:[._]([0-9]))?(?:_\w+)?(?:\.py)?")


def parse(text):
    """Returns the number that "05.2", "5_2", "ex05_2" or the name of an exercise's file stands for, or None.

    A former number ("12", "ex12_attention_backward.py") gives the current one.
    """
    match = WRITTEN.fullmatch(text)
    return full_number(*match.groups()) if match else None


def full_number(lesson, place=None):
    """Returns the number of an exercise from its lesson and place. Without a place, `lesson` is a former number."""
    lesson = lesson.zfill(2)
    return f"{lesson}.{place}" if place else CURRENT.get(lesson, lesson)


def is_former(text):
    """Returns True for a number or file name of an exercise from before they were numbered by lesson."""
    match = WRITTEN.fullmatch(text)
    return match is not None and match[2] is None and match[1].zfill(2) in CURRENT


def stream(number):
    """Returns an integer for seeding the exercise's random numbers, different for each exercise."""
    return int(FORMER.get(number, number.replace(".", "")))
