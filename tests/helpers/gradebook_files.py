"""Writes the gradebook files of a class of pupils as Canvas, Moodle and GitHub Classroom export them.

The formats were read in these sources:
    Canvas   instructure/canvas-lms, lib/gradebook_exporter.rb
    Moodle   moodle/moodle, mod/assign/feedback/offline/importgradeslib.php, its language packs, and worksheets in the
             tests of programs that read them; PHP quotes cells with blanks, commas or quotes, and ends lines with \\n
    GitHub   github/gh-classroom (grades), and the roster as programs that read it expect it
"""

import csv
import io

GROUP = ("Current Score", "Unposted Current Score", "Final Score", "Unposted Final Score")
WORKSHEET = {
    "en": ("Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade", "Grade can be changed",
           "Last modified (submission)", "Last modified (grade)", "Feedback comments"),
    "de": ("ID", "Vollständiger Name", "E-Mail-Adresse", "Status", "Bewertung", "Bestwertung",
           "Bewertung kann geändert werden", "Zuletzt geändert (Abgabe)", "Zuletzt geändert (Bewertung)",
           "Feedback als Kommentar"),
    "fr": ("Identifiant", "Nom complet", "Adresse de courriel", "Statut", "Note", "Note maximale",
           "La note peut être modifiée", "Dernière modification (travail remis)", "Dernière modification (note)",
           "Feedback par commentaires"),
}
PARTICIPANT = {"en": "Participant ", "de": "Teilnehmer/in", "fr": "Participant"}
STATUS = {"en": ("Submitted for grading - ", "No submission - "),
          "de": ("Zur Bewertung abgegeben - ", "Keine Abgabe - "),
          "fr": ("Remis pour évaluation - ", "Aucun travail remis - ")}
YES = {"en": "Yes", "de": "Ja", "fr": "Oui"}
DAYS = {"en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
        "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag".split(),
        "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche".split()}
OCTOBER = {"en": "October", "de": "Oktober", "fr": "octobre"}


def canvas_gradebook(pupils, path, assignments, bom=False, separator=",", two_names=False, hidden=False):
    """Writes the gradebook of a course.

    Parameters:
        assignments : {title with id: points possible or None for one that is not this sheet}
        bom, separator : of the teacher's settings; with ";" numbers have a decimal comma
        two_names : columns LastName and FirstName instead of Student
        hidden : the first assignment is posted by hand
    """
    columns = (["LastName", "FirstName"] if two_names else ["Student"]) + [
        "ID", "SIS User ID", "SIS Login ID", "Root Account", "Section", "Notes"]
    totals = [f"Exercises {title}" for title in GROUP] + list(GROUP)
    before = len(columns) - 1
    rows = [[*columns, *assignments, *totals]]
    if hidden:
        rows.append([""] * len(columns) + ["Manual Posting", *[""] * (len(assignments) - 1)] + [""] * len(totals))
    points = [number(most, separator) for most in assignments.values()]
    rows.append(["    Points Possible", *[""] * before, *points, *["(read only)"] * len(totals)])
    for pupil in [*sorted(pupils, key=lambda pupil: pupil.sortable.lower()), None]:
        rows.append([*person(pupil, two_names), *old_scores(pupil, assignments, separator), *totals_of(separator)])
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    path.write_bytes(text.getvalue().encode("utf-8-sig" if bom else "utf-8"))


def person(pupil, two_names):
    """The cells that say who a row is about; Canvas's test student for None."""
    if pupil is None:
        names = ["Student", "Test"] if two_names else ["Student, Test"]
        return [*names, "49999", "", "3b1e5a9c0d", "", "Section 1", ""]
    names = [pupil.last, pupil.first] if two_names else [pupil.sortable]
    ids = [str(pupil.ids["canvas"]), pupil.ids["sis"], pupil.ids["login"], "canvas.example.edu"]
    return [*names, *ids, " and ".join(pupil.sections), "repeats, see mail" if pupil.ids["canvas"] % 5 == 0 else ""]


def old_scores(pupil, assignments, separator):
    """Scores that are there already: of everything but this class's sheet, some of them excused."""
    if pupil is None:
        return [""] * len(assignments)
    other = "EX" if pupil.ids["canvas"] % 9 == 0 else number(pupil.ids["canvas"] % 6 + 0.5, separator)
    return [other if "quiz" in title.lower() else "" for title in assignments]


def totals_of(separator):
    return [number(87.5, separator)] * (2 * len(GROUP))


def number(value, separator):
    text = "" if value is None else f"{value:.2f}"
    return text.replace(".", ",") if separator == ";" else text


def moodle_worksheet(pupils, path, most, language="en", bom=True, id_number=False, blind=False):
    """Writes the grading worksheet of one assignment, for all students of the course."""
    header = list(WORKSHEET[language])
    if id_number:
        header.insert(2, {"en": "ID number", "de": "ID-Nummer", "fr": "Numéro d'identification"}[language])
    if blind:
        header = [header[0], *header[3 + id_number:]]
    lines = [header]
    for pupil in sorted(pupils, key=lambda pupil: pupil.last.lower()):
        maximum = f"{most:.2f}" if language == "en" else f"{most:.2f}".replace(".", ",")
        who = [] if blind else [pupil.name, *[pupil.ids["sis"]] * id_number, pupil.ids["email"]]
        status = STATUS[language][not pupil.hands_in]
        lines.append([f"{PARTICIPANT[language]}{pupil.ids['moodle']}", *who, status, "", maximum, YES[language],
                      moodle_time(pupil.submitted, language) if pupil.hands_in else "-", "-", ""])
    text = "".join(",".join(map(quoted, line)) + "\n" for line in lines)
    path.write_bytes(text.encode("utf-8-sig" if bom else "utf-8"))


def quoted(cell):
    """A cell as PHP's fputcsv writes it."""
    return '"' + cell.replace('"', '""') + '"' if any(c in cell for c in ' ,"\t\r\n\\') else cell


def moodle_time(time, language):
    day = DAYS[language][time.weekday()]
    if language == "de":
        return f"{day}, {time.day}. {OCTOBER['de']} {time.year}, {time:%H:%M}"
    if language == "fr":
        return f"{day} {time.day} {OCTOBER['fr']} {time.year}, {time:%H:%M}"
    return f"{day}, {time.day} {OCTOBER['en']} {time.year}, {time.hour % 12 or 12}:{time:%M %p}"


def github_roster(pupils, path):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(["identifier", "github_username", "github_id", "name"])
        for pupil in pupils:
            writer.writerow([pupil.ids["email"], pupil.ids["github"], 7000000 + pupil.ids["moodle"], pupil.name])
