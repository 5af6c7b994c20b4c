"""What a teacher gets: the table, the same as JSON, a file for each student, and what the class got wrong."""

import collections
import csv
import json
import os
import re
from pathlib import Path

from .feedback import feedback
from .verdict import STATUS, Verdict

LOOK = "for you to look at"                     # in the note of a file that uses what no exercise needs
COLUMNS = ("student", "exercise", "status", "points", "max", "misconception", "seconds", "note")
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)        # names of devices on Windows


def write_csv(rows, path):
    """The table; a file that is there becomes .bak once the new one is complete."""
    def table(file):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([cell(getattr(row, column)) for column in COLUMNS] for row in rows)
    replace(path, table)


def write_json(document, path):
    replace(path, lambda file: file.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n"))


def replace(path, write):
    new = path.with_name(path.name + ".new")
    with open(new, "w", encoding="utf-8", newline="") as file:
        write(file)
    if path.exists():
        os.replace(path, path.with_name(path.name + ".bak"))
    os.replace(new, path)


def cell(value):
    """Text that a spreadsheet would take for a formula gets an apostrophe in front."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def document(rows, settings, summary):
    """All of it for other programs, along the lines of exercism's results.json: a list of tests for each student."""
    students = []
    for name, own in grouped(rows, "student").items():
        points, most = sum(row.points for row in own), sum(row.max for row in own)
        tests = [{"name": row.exercise, "status": row.status, "message": "\n".join(row.lines) or row.note,
                  "output": row.printed, "points": row.points, "max": row.max, "stage": row.stage,
                  "misconceptions": list(row.mistakes), "seconds": row.seconds, "note": row.note} for row in own]
        students.append({"student": name, "status": "pass" if all(row.status == "pass" for row in own) else "fail",
                         "points": points, "max": most, "tests": tests})
    return {"version": 3, **settings, "students": students, "summary": summary}


def write_feedback(rows, chosen, folder):
    """A file for each student: every exercise in the words of `exercise check`."""
    exercises = {exercise.number: exercise for exercise in chosen}
    students, taken = grouped(rows, "student"), set()
    for name, own in students.items():
        lines = [name, f"{sum(row.points for row in own)} of {sum(row.max for row in own)} points", ""]
        for row in own:
            verdict = Verdict(row.status, row.stage, lines=row.lines)       # without what is for the teacher to look at
            lines += [*feedback(exercises[row.number], verdict, row.printed), ""]
        Path(folder, file_name(name, taken) + ".txt").write_text("\n".join(lines), encoding="utf-8", newline="\n")
    return len(students)


def file_name(name, taken):
    """A name that every file system takes, not yet in `taken`, to which it is added."""
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
    """Counts by exercise, named mistakes from the most frequent on, and wrong answers that several students share."""
    say = {(exercise.number, mistake.name): mistake.say for exercise in chosen for mistake in exercise.mistakes}
    counts = {name: {status: sum(row.status == status for row in own) for status in STATUS}
              for name, own in grouped(rows, "exercise").items()}
    found = collections.Counter((row.exercise, row.number, name) for row in rows for name in named(row))
    mistakes = [{"mistake": name, "exercise": exercise, "count": count, "say": say.get((number, name), "")}
                for (exercise, number, name), count in sorted(found.items(), key=lambda item: (-item[1], item[0]))]
    shared = collections.defaultdict(list)
    for row in rows:
        if row.answer:
            shared[row.exercise, row.answer].append(row)
    clusters = [{"exercise": own[0].exercise, "students": [row.student for row in own], "note": own[0].note}
                for own in shared.values() if len(own) > 1]
    looks = [f"{row.student} {row.exercise}" for row in rows if LOOK in row.note]
    return {"exercises": counts, "mistakes": mistakes, "to_look_at": looks,
            "clusters": sorted(clusters, key=lambda cluster: (-len(cluster["students"]), cluster["exercise"]))}


def named(row):
    """The mistakes of a row, each once; explanations between which nothing decides count as one."""
    return dict.fromkeys(row.mistakes[0].split(" and ")) if len(row.mistakes) == 1 else list(
        filter(None, [" or ".join(row.mistakes)]))


def in_words(summary):
    """The summary as lines."""
    statuses = [status for status in STATUS if any(counts[status] for counts in summary["exercises"].values())]
    width = max(map(len, summary["exercises"]), default=0)
    yield f"{'exercise':<{width}}" + "".join(f"{status:>9}" for status in statuses)
    for name, counts in summary["exercises"].items():
        yield f"{name:<{width}}" + "".join(f"{counts[status] or '':>9}" for status in statuses)
    if summary["mistakes"]:
        yield from ("", "What to teach again, the most frequent first:")
    for entry in summary["mistakes"][:10]:
        yield f"  {entry['count']:>3} x {entry['mistake']} in {entry['exercise']}"
        if entry["say"]:
            yield f"        {entry['say']}"
    if summary["clusters"]:
        yield from ("", "Wrong answers that the catalogue does not know, shared by several students:")
    for cluster in summary["clusters"][:10]:
        names = ", ".join(cluster["students"][:8]) + ", ..." * (len(cluster["students"]) > 8)
        yield f"  {len(cluster['students']):>3} x {cluster['exercise']} ({names}): {cluster['note']}"
    if summary["to_look_at"]:
        yield from ("", f"For you to look at, the reason is in the note: {', '.join(summary['to_look_at'][:20])}"
                    + ", ..." * (len(summary["to_look_at"]) > 20))
