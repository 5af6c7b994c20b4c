"""Writes a class's results: the table, the same as JSON, a feedback file for each student, and a summary."""

import collections
import csv
import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from ..course.checker.feedback import WIDTH, feedback
from ..course.checker.messages import mistake_names
from ..course.checker.verdict import STATUS, Verdict
from ..texts import Message, as_data
from ..texts.width import wrap
from .files import PRIVATE, replace_file
from .gradable import gradable, hints_for

LOOK_AT = "for you to look at"                  # in the note of a file that uses names that no exercise needs
COLUMNS = ("student", "exercise", "status", "points", "max", "misconception", "seconds", "note")
LATENESS = ("submitted", "late", "deducted")    # further columns if there is a deadline
FORMULA = re.compile(r"(^)([-+=@\t\r＝＋－＠])|([,;|\t]\s*)(?=[=@＝＠]|[-+－＋](?!\d[\d.]*(?:e[-+]?\d+)?\s*(?:[,;)\]]|$)))", re.I)
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)        # device names on Windows


@dataclass(frozen=True)
class Dialect:
    """How CSV files are written: Excel needs a byte order mark to read UTF-8, and, in much of Europe, semicolons."""

    delimiter: str = ","
    bom: bool = False

    def value(self, value):
        """Returns what is written for a value. With semicolons, numbers have a decimal comma."""
        if self.delimiter == ";" and isinstance(value, float):
            return str(value).replace(".", ",")
        return escape_formula(value)


def write_csv(rows, path, dialect=Dialect(), lateness=False):
    """Writes the table as CSV, with the columns on lateness if they are asked for."""
    columns = COLUMNS + LATENESS if lateness else COLUMNS
    write_table(columns, [[cell(row, column) for column in columns] for row in rows], path, dialect)


def cell(row, column):
    return row.whole_note if column == "note" else getattr(row, column)


def write_table(header, rows, path, dialect=Dialect()):
    """Writes rows of values as CSV."""
    def table(file):
        writer = csv.writer(file, lineterminator="\n", delimiter=dialect.delimiter)
        writer.writerow(header)
        writer.writerows([dialect.value(value) for value in row] for row in rows)
    replace_file(path, table, encoding="utf-8-sig" if dialect.bom else "utf-8")


def write_json(document, path, mode=PRIVATE):
    def write(file):
        json.dump(document, file, indent=1, ensure_ascii=False)     # in pieces: a large course's takes a gigabyte at once
        file.write("\n")
    replace_file(path, write, mode=mode)


def escape_formula(value):
    """Puts an apostrophe before what a spreadsheet would take for a formula, at the start of a text and inside it.

    Inside, because a spreadsheet that is set to another separator splits the text there; plain numbers stay there.
    """
    return FORMULA.sub(lambda match: f"{match[3] or ''}'{match[2] or ''}", value) if isinstance(value, str) else value


def document(rows, settings, summary, problems=None):
    """Returns all results for other programs, similar to exercism's results.json: a list of tests for each student.

    It holds everything of the rows, so that `shards.rows_of` can read them back.

    Parameters:
        rows : list of Row
        settings : dict of the seed, the versions and so on
        summary : what `summary` returned
        problems : {student: sentences} about files that belong to no exercise
    """
    students = []
    for name, own in grouped(rows, "student").items():
        points, most = round(sum(row.points for row in own), 2), sum(row.max for row in own)
        tests = [{"name": row.exercise, "number": row.number, "status": row.status,
                  "message": "\n".join(row.verdict.sentences) or row.note, "output": row.printed, "points": row.points,
                  "max": row.max, "stage": row.stage, "misconceptions": list(row.mistakes), "seconds": row.seconds,
                  "note": row.note, "remarks": list(row.remarks), "lines": as_data(row.lines), "unusual": row.unusual,
                  "answer": row.answer,
                  "digest": row.digest, "submitted": row.submitted, "late": row.late, "deducted": row.deducted}
                 for row in own]
        students.append({"student": name, "ids": own[0].ids,
                         "status": "pass" if all(row.status == "pass" for row in own) else "fail",
                         "points": points, "max": most, "problems": list((problems or {}).get(name, ())),
                         "tests": tests})
    return {"version": 3, **settings, "students": students, "summary": summary}


def student_feedback(row, above=()):
    """Yields the lines of feedback on one exercise, as a student reads them: without the note for the teacher.

    Parameters:
        above : sentences that the student reads above all exercises, which are not repeated
    """
    lines = [line for line in row.lines if line.values.get("text") not in above]
    if row.lines and not lines:
        lines = [Message("verdict.line.no_file")]
    verdict = Verdict(row.status, row.stage, lines=lines)
    yield from feedback(gradable()[row.number], verdict, row.printed, hints=hints_for(row.number))
    for remark in row.remarks:
        yield from wrap(remark, WIDTH, "  ", "    ")


def write_feedback(rows, folder, problems=None):
    """Writes a file for each student with the feedback of `exercise check`. Returns how many.

    Parameters:
        problems : {student: sentences} about files that belong to no exercise
    """
    Path(folder).mkdir(mode=0o700, exist_ok=True)
    students, taken = grouped(rows, "student"), set()
    for name, own in students.items():
        lines = [name, f"{sum(row.points for row in own):g} of {sum(row.max for row in own)} points", ""]
        for sentence in (problems or {}).get(name, ()):
            lines += [*wrap(sentence, WIDTH, "", "  "), ""]
        for row in own:
            lines += student_feedback(row, (problems or {}).get(name, ()))
            lines.append("")
        text = "\n".join(lines)
        replace_file(Path(folder, file_name(name, taken) + ".txt"), lambda file, text=text: file.write(text), backup=False)
    return len(students)


def file_name(name, taken):
    """Returns a file name that every file system accepts and that is not in `taken`, and adds it there."""
    plain = re.sub(r"[^\w.-]+", "_", name)[:80].strip(".") or "_"
    plain = f"_{plain}" if RESERVED.fullmatch(plain) else plain
    unique, count = plain, 1
    while unique.casefold() in taken:
        count += 1
        unique = f"{plain}_{count}"
    taken.add(unique.casefold())
    return unique


def grouped(rows, name):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[getattr(row, name)].append(row)
    return dict(groups)


def summary(rows, chosen):
    """Returns counts by exercise, known mistakes by frequency, and other wrong answers that several students share."""
    explanations = {(exercise.number, mistake.name): mistake.explanation
                    for exercise in chosen for mistake in exercise.mistakes}
    counts = {name: {status: sum(row.status == status for row in own) for status in STATUS}
              for name, own in grouped(rows, "exercise").items()}
    mistake_counts = collections.Counter((row.exercise, row.number, mistake_names(mistake))
                                         for row in rows for mistake in mistakes_of(row))
    mistakes = [{"mistake": name, "exercise": exercise, "count": count,
                 "say": explanations.get((number, name), "")}
                for (exercise, number, name), count in sorted(mistake_counts.items(), key=lambda item: (-item[1], item[0]))]
    shared = collections.defaultdict(list)
    for row in rows:
        if row.answer:
            shared[row.exercise, row.answer].append(row)
    clusters = [{"exercise": own[0].exercise, "students": [row.student for row in own], "note": own[0].note}
                for own in shared.values() if len(own) > 1]
    looks = [f"{row.student} {row.exercise}" for row in rows if row.unusual]
    return {"exercises": counts, "mistakes": mistakes, "to_look_at": looks,
            "clusters": sorted(clusters, key=lambda cluster: (-len(cluster["students"]), cluster["exercise"]))}


def mistakes_of(row):
    """Returns the known mistakes of a row, each as a tuple of possible explanations, which are tuples of names.

    The mistakes of one explanation are counted one by one; several possible explanations count as one mistake.
    """
    if len(row.mistakes) == 1:
        return [((name,),) for name in dict.fromkeys(row.mistakes[0])]
    return [tuple(map(tuple, row.mistakes))] if row.mistakes else []


def summary_lines(summary, width=100):
    """Yields the summary as lines of at most `width` columns."""
    def wrapped(text, indent="", hanging="    "):
        return wrap(text, width, indent, indent + hanging)

    yield from counts_table(summary["exercises"], width)
    if summary["mistakes"]:
        yield from ("", "What to teach again, most frequent mistakes first:")
    for entry in summary["mistakes"][:10]:
        yield f"  {entry['count']:>3} x {entry['mistake']} in {entry['exercise']}"
        if entry["say"]:
            yield from wrapped(entry["say"], "        ", "")
    if summary["clusters"]:
        yield from ("", "Other wrong answers that several students share:")
    for cluster in summary["clusters"][:10]:
        count = len(cluster["students"])
        yield from wrapped(f"{count:>3} x {cluster['exercise']} ({shortened(cluster['students'], 8)}): "
                           f"{cluster['note']}", "  ")
    if summary["to_look_at"]:
        yield ""
        yield from wrapped("For you to look at (the table's note says why): "
                           + shortened(summary["to_look_at"], 20))


def row_lines(rows, width=100, most=40):
    """Yields a line of at most `width` columns for each of the first rows: student, exercise, status, points, reason."""
    for row in rows[:most]:
        deducted = f", {row.deducted:g} deducted for lateness" if row.deducted else ""
        why = row.misconception or row.note
        line = f"{row.student}, {row.exercise}: {row.status}, {row.points:g} of {row.max} points{deducted}"
        yield textwrap.shorten(f"{line}; {why}" if why else line, width, placeholder=" ...")
    if len(rows) > most:
        yield f"and {len(rows) - most} more rows in the table"


def counts_table(exercises, width):
    """Yields a table of how often each status occurs, with shortened names of exercises where it would be too wide."""
    statuses = [status for status in STATUS if any(counts[status] for counts in exercises.values())]
    columns = "".join(f"  {status}" for status in statuses)
    name_width = max(len("exercise"), width - len(columns))
    names = {name: name if len(name) <= name_width else name[:name_width - 1] + "…" for name in exercises}
    first = max(map(len, ["exercise", *names.values()]))
    yield f"{'exercise':<{first}}{columns}"
    for name, counts in exercises.items():
        yield (f"{names[name]:<{first}}"
               + "".join(f"  {counts[status] or '':>{len(status)}}" for status in statuses)).rstrip()


def shortened(items, most):
    """Joins the first `most` items with commas."""
    return ", ".join(items[:most]) + (", ..." if len(items) > most else "")
