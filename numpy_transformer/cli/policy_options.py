"""The options of `numpy-transformer grade` on deadlines, late work and several attempts."""

from pathlib import Path

from ..grading.policy import Policy
from .parser import whole_number

# The options that all rows of a table have in common, and their defaults.
TEXTS = {"due": None, "late": None, "grace": None, "attempts": "last", "free_late_days": 0, "timezone": None}


def add_options(parser):
    group = parser.add_argument_group(
        "deadlines and attempts", "Points are deducted only if --late says so, and only where a time of submission is "
        "known: from Gradescope's export, GitHub, Blackboard, Moodle's worksheet (--moodle), or a file for --submitted. "
        "Canvas tells no times; it marks late files, which is enough for a single deduction such as --late 20%.")
    group.add_argument("--due", metavar="TIME", action="append",
                       help="deadline, such as '2026-11-20 23:59' or 2026-11-20, which ends with that day; 05=TIME for "
                            "one lesson, 05.2=TIME for one exercise, stage5=TIME for one stage; can be repeated")
    group.add_argument("--timezone", metavar="NAME", help="of these times, such as Europe/Berlin (default: this machine's)")
    group.add_argument("--late", metavar="RATE",
                       help="deduction from the points earned for each started day or hour: 10%%/day, 5%%/hour, "
                            "2points/day, '10%% of max/day', or 20%% once; '10%%/day, at most 50%%'; '10%%/day, nothing "
                            "after 3 days'; none only tells how late a file is (default: none)")
    group.add_argument("--grace", metavar="TIME", help="time after each deadline that does not count as late, such as 15min")
    group.add_argument("--free-late-days", metavar="N", type=whole_number(0, 365),
                       help="late days without a deduction that each student has for all exercises of this run; one day "
                            "counts for all exercises with the same deadline (default: 0)")
    group.add_argument("--extensions", metavar="FILE", type=Path,
                       help="CSV file with the columns student, days or new deadline, and, if wanted, exercise or lesson")
    group.add_argument("--submitted", metavar="FILE", type=Path,
                       help="CSV file with the columns student, time of submission, and, if wanted, exercise or lesson; "
                            "its times come before all others")
    group.add_argument("--attempts", metavar="WHICH",
                       help="which of several files for an exercise counts: last, or best, which grades the ten newest "
                            "(best:25 the 25 newest); of answers that take nothing but an answer to guess, the first one "
                            "counts then (default: last)")


def texts(arguments):
    """Returns the options that all rows of a table have in common."""
    given = {name: getattr(arguments, name) for name in TEXTS}
    return {name: TEXTS[name] if value is None else value for name, value in given.items()}


def take_over(arguments, given):
    """Sets the options that are not on the command line to those of an existing table.

    Returns sentences for the teacher.
    """
    taken = {name: given[name] for name in TEXTS
             if getattr(arguments, name) is None and given.get(name, TEXTS[name]) != TEXTS[name]}
    for name, value in taken.items():
        setattr(arguments, name, value)
    drop = "; to drop the deductions, use --late none" if "late" in taken else ""
    return [f"as in the existing table: {as_options(taken)}{drop}; name --extensions, --submitted and --moodle again if you "
            "used them"] if taken else []


def as_options(given):
    """Returns options as they are written on the command line; for None the word none."""
    texts = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        texts += [f"{option} {text}" for text in (value if isinstance(value, list) else [value or "none"])]
    return " ".join(texts)


def refuse(arguments):
    """Raises ValueError if there are options on late work or attempts, for a command that does not read files."""
    if texts(arguments) != TEXTS or arguments.extensions or arguments.submitted:
        raise ValueError("deadlines and attempts need the files; give these options when you grade, not to grade merge")


def about_lateness(given):
    """Returns True if these texts, as `texts` returns them, are about late work."""
    return bool(given.get("due") or given.get("late"))


def policy(arguments):
    """Returns the Policy that the options describe. Raises ValueError with one sentence."""
    return Policy.from_options(**texts(arguments), extensions=arguments.extensions, submitted=arguments.submitted)
