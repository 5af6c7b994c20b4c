"""Which of several attempts counts, and what lateness costs.

The rules of courses differ in few things: a rate for each started day or hour (Canvas rounds up as well:
instructure/canvas-lms, app/models/late_policy.rb, commit 02936f26), a limit to it, free late days for the whole term, and
a day after which nothing is accepted. Percentages are of the points that were earned. Canvas takes them of the points
possible, which is written "10% of max/day" here. Points are rounded to two decimals, halves up.
"""

import collections
import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal

from .gradable import choose_gradable, gradable
from .lateness import Deadline, Rate, folded_name, parse_duration, parse_zone, read_entries

MOST_ATTEMPTS = 10                              # that are graded if the best one counts
GUESSED = ("predict", "explain", "question")    # kinds of exercises whose answers are a few numbers


@dataclass
class Policy:
    """The rules of one grading run.

    Parameters:
        attempts : "last" or "best"
        most_attempts : number of attempts that are graded for "best", the newest ones
        deadlines : {number of an exercise, or "" for all others: Deadline}
        rate : Rate, what lateness costs
        grace : timedelta by which every deadline is moved
        extensions : {folded name or id: list of StudentEntry}, later deadlines of single students
        times : {folded name or id: list of StudentEntry}, times of submission, in place of those that the delivery tells
        free_late_days : days that each student may be late in all without a deduction
        zone : time zone in which times are shown; None for the one that each time comes with
        known : names and ids of all students of the class; an entry for one of them is for no other student whose name
            differs from it in spaces or case
    """

    attempts: str = "last"
    most_attempts: int = MOST_ATTEMPTS
    deadlines: dict = field(default_factory=dict)
    rate: Rate = field(default_factory=Rate)
    grace: timedelta = timedelta(0)
    extensions: dict = field(default_factory=dict)
    times: dict = field(default_factory=dict)
    free_late_days: int = 0
    zone: object = None
    known: frozenset = frozenset()

    @classmethod
    def from_options(cls, due=(), late=None, grace=None, attempts="last", extensions=None, submitted=None,
                     free_late_days=0, timezone=None):
        """Returns the Policy that the command line's texts describe. Raises ValueError with one sentence.

        Parameters:
            due : texts such as "2026-11-20 23:59", or "05=2026-11-20" for one exercise or lesson
            late : text such as "10%/day, at most 50%"
            grace : text such as "15min"
            attempts : "last", "best", or "best:25" to grade up to 25 attempts
            extensions, submitted : paths of CSV files, see `read_entries`
            timezone : text such as "Europe/Berlin"; None for the machine's
        """
        zone, deadlines = parse_zone(timezone), {}
        for text in due or ():
            names, _, time = text.rpartition("=")
            numbers = [exercise.number for exercise in choose_gradable([names])] if names else [""]
            deadlines |= dict.fromkeys(numbers, Deadline.parse(time, zone))
        rate = Rate.parse(late) if late else Rate()
        if not deadlines and (rate.unit or grace or extensions or submitted or free_late_days):
            raise ValueError("a rate for each day or hour, --grace, --extensions, --submitted and --free-late-days need "
                             "a deadline; add --due, such as --due '2026-11-20 23:59'")
        return cls(*parse_attempts(attempts), deadlines, rate, parse_duration(grace) if grace else timedelta(0),
                   read_entries(extensions, zone) if extensions else {},
                   read_entries(submitted, zone, days=False) if submitted else {}, free_late_days,
                   zone)

    @property
    def about_lateness(self):
        """True if a late submission may differ from one in time."""
        return bool(self.deadlines) or self.rate.amount > 0

    def of_class(self, graded):
        """Returns the same rules for the students in `graded`, which is as in `settle`."""
        return replace(self, known=frozenset(name for own in graded for _, row in own for name in student_ids(row)))

    def entries(self, given, row):
        """Returns those of these entries that are about a row's student and exercise."""
        about_student = [entry for name in student_ids(row) for entry in given.get(folded_name(name), ())
                         if entry.student == name or entry.student not in self.known] if given else []
        return [entry for entry in about_student if entry.applies(row.number)]

    def deadline(self, row):
        """Returns the Deadline of a row's student and exercise, or None."""
        deadline = self.deadlines.get(row.number, self.deadlines.get(""))
        if deadline is not None:
            for entry in self.entries(self.extensions, row):
                deadline = entry.extend(deadline)
        return deadline

    def submitted(self, file, row):
        """Returns when a row's file was submitted: as --submitted says, else as the delivery says, else None."""
        given = [entry.time.moment for entry in self.entries(self.times, row)]
        return given[-1] if given else file.submitted

    def sentences(self, graded):
        """Returns sentences for the teacher: the rule, where the times come from, and what cannot be computed.

        Parameters:
            graded : as in `settle`
        """
        if not self.about_lateness:
            return []
        policy = self.of_class(graded)
        pairs = [(file, row) for own in graded for file, row in own if file is not None]
        sources = collections.Counter("--submitted" if policy.entries(self.times, row) else file.time_from or "the delivery"
                                      for file, row in pairs if policy.submitted(file, row))
        silent = [file for file, row in pairs if policy.submitted(file, row) is None]
        marked = sum(file.late for file in silent)
        remarks = [f"lateness: {self.rate}; points are rounded to two decimals"]
        if sources:
            listed = ", ".join(f"{source} ({counted(number, 'file')})" for source, number in sources.most_common())
            remarks.append(f"times of submission from: {listed}")
        if marked and self.rate.unit:
            remarks.append(
                f"marked late without a time: {counted(marked, 'file')}, for which a deduction for each {self.rate.unit} "
                "cannot be computed, so nothing was deducted. Let the learning platform deduct (Canvas has its own late "
                "policy), deduct once with --late 10%, or list the times in a file for --submitted")
        if self.deadlines and len(silent) > marked:
            reasons = "; ".join(sorted({file.time_from for file in silent if file.time_from and not file.late}))
            remarks.append(f"counted as on time: {counted(len(silent) - marked, 'file')} without a time of submission and "
                           "without a mark that says late" + (f" ({reasons})" if reasons else ""))
        known = {folded_name(name) for _, row in pairs for name in student_ids(row)}
        for option, given in (("--extensions", self.extensions), ("--submitted", self.times)):
            unknown = [own[0].student for name, own in given.items() if name not in known]
            if unknown:
                remarks.append(f"{option} names students who handed in nothing here: {', '.join(unknown[:10])}")
        return remarks


def student_ids(row):
    """Returns the name and the ids of a row's student."""
    return {row.student, *row.ids.values()}


def parse_attempts(text):
    """Returns "last" or "best", and the number of attempts that are graded for "best"."""
    word, _, number = text.partition(":")
    if word not in ("last", "best") or number and (word == "last" or not re.fullmatch("[1-9][0-9]{0,3}", number)):
        raise ValueError(f"--attempts {text!r} is not understood; write last, best or best:25")
    return word, int(number or MOST_ATTEMPTS)


def choose_attempts(student, number, policy):
    """Returns the files of a student to run for an exercise, oldest first.

    Of several answers that can be guessed, such as one number, the first one counts.
    """
    files = student.attempts.get(number, [])
    if policy.attempts == "last":
        return list(files[-1:])
    return list(files[:1] if gradable()[number].kind in GUESSED else files[-policy.most_attempts:])


def settle(graded, policy, handed_in=None):
    """Returns one row for each student and exercise: the attempt that counts, after deductions for lateness.

    Free late days are spent in the order of submission. Each moves a deadline by a day, for all exercises that share this
    deadline. None is spent on an attempt that earned no points.

    Parameters:
        graded : for each student and exercise a list of (File, Row), oldest attempt first, with rows as the grader made
            them; a Problem in place of a File that cannot be read, None if nothing was handed in
        handed_in : {(student, number of an exercise): number of attempts that were handed in}, where it is more than were
            graded
    """
    handed_in, policy = handed_in or {}, policy.of_class(graded)
    students = collections.defaultdict(list)
    for attempts in graded:
        students[attempts[0][1].student].append(attempts)
    rows = []
    for own in students.values():
        budget = Budget(policy.free_late_days)
        rows += [settle_exercise(attempts, policy, budget, handed_in.get(attempts[0][1].key[:2], len(attempts)))
                 for attempts in sorted(own, key=by_time(policy))]
    return sorted(rows, key=lambda row: (row.student, row.number))


def by_time(policy):
    """Returns a sorting key for lists of attempts: when the newest was submitted. Unknown times come first."""
    def key(attempts):
        file, row = attempts[-1]
        time = policy.submitted(file, row) if file else None
        return (time.timestamp() if time else 0.0, row.number)
    return key


class Budget:
    """A student's free late days: those left, and those spent on each deadline."""

    def __init__(self, days):
        self.left, self.spent = days, collections.Counter()

    def spend(self, deadline, days):
        self.left -= days
        self.spent[deadline] += days


@dataclass
class Settled:
    """An attempt after deductions, and the free late days to be spent on it."""

    row: object
    deadline: object = None
    days: int = 0


def settle_exercise(attempts, policy, budget, count):
    """Returns the row of the attempt that counts, and spends free late days on it.

    Parameters:
        count : number of attempts that were handed in
    """
    settled = [settle_attempt(file, row, policy, budget) for file, row in attempts]
    best = max(range(len(attempts)), key=lambda i: (settled[i].row.points, -settled[i].days, i))
    chosen = settled[best]
    budget.spend(chosen.deadline, chosen.days)
    if count == 1 or policy.attempts == "last":
        return chosen.row
    row = replace(chosen.row, remarks=[remark for remark in chosen.row.remarks if "the newest counts" not in remark])
    if len(attempts) == 1 < count:
        return with_remark(row, f"the first of {count} attempts counts, because its answer can be guessed: "
                                f"{attempts[0][0].where}")
    of_all = f" of {count}" if len(attempts) < count else ""
    return with_remark(row, f"the best of {'the last ' if of_all else ''}{len(attempts)}{of_all} attempts counts: number "
                            f"{best + 1 + count - len(attempts)}, {attempts[best][0].where}")


def settle_attempt(file, row, policy, budget):
    """Returns the Settled of one attempt. Spends nothing."""
    if file is None:
        return Settled(row)
    submitted, deadline = policy.submitted(file, row), policy.deadline(row)
    if submitted:
        zone = deadline.zone if deadline else policy.zone or submitted.tzinfo
        row = replace(row, submitted=submitted.astimezone(zone).isoformat(timespec="seconds"))
    if not submitted or not deadline:
        return Settled(late_without_time(row, policy) if file.late and policy.about_lateness else row)
    late = deadline.days_late(submitted, policy.grace)
    if not late:
        return Settled(with_note(row, "marked late, but its time is before the deadline") if file.late else row)
    spent = budget.spent[deadline]
    days = min(max(0, late - spent), budget.left) if row.points else 0
    moved = deadline.moved(spent + days)
    deducted = policy.rate.deduction(row.points, row.max, moved.units_late(submitted, policy.grace, policy.rate.unit),
                                     moved.days_late(submitted, policy.grace))
    unit = policy.rate.unit or "day"
    details = counted(deadline.units_late(submitted, policy.grace, unit), f"started {unit}")
    if policy.grace:
        details += " after the grace period"
    if days or spent:
        details += f", {counted(min(late, spent + days), 'free late day')} used"
    return Settled(deduct(row, deducted, late, f"{deadline.describe(submitted)} ({details})"), deadline, days)


def late_without_time(row, policy):
    """Returns the row of a file that the delivery marks as late without its time."""
    if policy.rate.unit or policy.rate.last_day is not None:
        return with_note(replace(row, late=1), "marked late without a time, so nothing was deducted")
    return deduct(row, policy.rate.deduction(row.points, row.max, 1, 1), 1, "late")


def deduct(row, deducted, late, words):
    """Returns the row with fewer points, and a sentence about it for the teacher and the student."""
    what = f"{plain_number(deducted)} of {plain_number(row.points)} points deducted" if deducted else "nothing deducted"
    sentence = f"submitted {words}: {what}"
    row = replace(row, points=plain_number(Decimal(str(row.points)) - deducted), deducted=plain_number(deducted), late=late)
    return with_remark(row, sentence)


def plain_number(points):
    """Returns points as an int if they are whole, else as a float."""
    return int(points) if points == int(points) else float(points)


def counted(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def with_note(row, sentence):
    """Returns the row with a further sentence in the teacher's table."""
    return replace(row, note=f"{row.note}; {sentence}" if row.note else sentence)


def with_remark(row, sentence):
    """Returns the row with a further sentence in the teacher's table and in the student's feedback."""
    return replace(row, remarks=[*row.remarks, sentence])
