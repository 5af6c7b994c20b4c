"""Fills the grading worksheet of an assignment in Moodle, so that it can be uploaded again.

What Moodle writes and reads is taken from moodle/moodle: mod/assign/gradingtable.php (commit 003699db),
mod/assign/feedback/offline/importgradeslib.php (commit 452e36fc) and locallib.php (commit 04975560), and
mod/assign/feedback/comments/locallib.php (commit 04975560).

- The header is in the language of the teacher. The importer needs three columns under exactly these names: Identifier,
  Grade and Last modified (grade). It reads Feedback comments as HTML. So the header stays as it is.
- The columns come in this order: Identifier, Full name, what the site shows of users (ID number, Email address, ...),
  Status, some more, Grade, Maximum grade, some more, Grade can be changed, Last modified (submission), Online text,
  Last modified (grade), Feedback comments. Where the names are in another language, they are found by this order and
  by what is in them.
- An identifier is the word for Participant and a number that stands for the student in this assignment.
- A grade may be written with a decimal point or comma. The importer skips a row whose grade is empty, has not changed,
  is locked or is larger than the maximum. It also skips a row whose grade was changed in Moodle more than a minute
  after Last modified (grade). So this date stays as it is: it protects grades that others have entered since the
  download. Moodle can read it only in English; otherwise it skips every row that had a grade before, unless the teacher
  allows updating records that were modified more recently.
"""

import html
import re

from ..report import student_feedback
from .filling import Filling, scaled
from .people import Line, match, name_keys, with_needed_ids
from .sheet import number_text, parse_number, read_sheet

MARK = "<p>numpy-transformer: "                 # how a comment of ours begins
LONGEST = 30_000                                # characters of a comment; a cell of Excel holds 32,767
IDENTIFIER = re.compile(r"(?P<word>\D*)(?P<number>[0-9]+)")
NAMES = {"maximum": ("maximum grade", "bestwertung", "note maximale"),
         "comments": ("feedback comments", "feedback als kommentar", "feedback par commentaires")}


class MoodleWorksheet:
    """A grading worksheet that can be filled.

    Its attribute `order` names what students are found by, most reliable first.

    Parameters:
        path : path of the downloaded worksheet
    Raises: ValueError if the file is no grading worksheet.
    """

    order = ("moodle", "login", "name")

    def __init__(self, path):
        self.sheet = read_sheet(path)
        self.students = range(1, len(self.sheet.rows))
        self.identifier = self.find_identifier()
        self.maximum = self.find_maximum()
        if not self.students or self.identifier is None or self.maximum is None:
            raise ValueError(f"{path.name} is not a grading worksheet of Moodle: it has no columns with participants' "
                             "identifiers and with a maximum grade; download the grading worksheet of an assignment "
                             "that has points instead of a scale, and the feedback type Offline grading worksheet")
        self.grade = self.maximum - 1
        self.modified, self.comments = self.find_comments()
        self.sheet.need(self.students, [self.maximum, *self.columns()])

    def cells(self, column):
        rows = (self.sheet.rows[row] for row in self.students)
        return [row[column].strip() if column < len(row) else "" for row in rows]

    def named(self, what):
        """Returns the column with a known name, or None."""
        header = [cell.strip().casefold() for cell in self.sheet.rows[0]]
        columns = [i for i, name in enumerate(header) if name in NAMES[what]]
        return columns[0] if len(columns) == 1 else None

    def find_identifier(self):
        """Returns the first column whose cells have the same word and different numbers, or None."""
        for column in range(len(self.sheet.rows[0])):
            matches = [IDENTIFIER.fullmatch(cell) for cell in self.cells(column)]
            if all(matches):
                numbers = {match["number"] for match in matches}
                words = {match["word"] for match in matches}
                if len(words) == 1 and len(numbers) == len(matches):
                    return column
        return None

    def find_maximum(self):
        """Returns the column with one positive number in all rows, to the right of one with grades or nothing."""
        if self.named("maximum"):
            return self.named("maximum")
        for column in range(2, len(self.sheet.rows[0])):
            most = {parse_number(cell) for cell in self.cells(column)}
            left = [parse_number(cell) if cell else 0.0 for cell in self.cells(column - 1)]
            only = most.pop() if len(most) == 1 else None
            if only and only > 0 and all(grade is not None and 0 <= grade <= only for grade in left):
                return column
        return None

    def find_comments(self):
        """Returns the columns Last modified (grade) and Feedback comments, each None if there is none."""
        named = self.named("comments")
        if named:
            return named - 1, named
        dates = [column for column in range(self.maximum + 2, len(self.sheet.rows[0]))
                 if all(cell == "-" or re.search(r"[0-9]{4}", cell) for cell in self.cells(column))]
        last = len(self.sheet.rows[0]) - 1
        modified = dates[-1] if dates else None
        return modified, modified + 1 if modified is not None and modified < last else None

    def columns(self):
        """Returns the columns that `fill` changes."""
        return [column for column in (self.grade, self.comments) if column is not None]

    def lines(self):
        """Returns a Line for each student's row. In anonymous submissions, the identifier takes the name's place."""
        different = len(set(self.cells(self.identifier + 1))) > len(self.students) / 4
        has_names = different and self.grade - self.identifier > 2
        row_lines = []
        for row in self.students:
            cells = [cell.strip() for cell in self.sheet.rows[row]]
            name = cells[self.identifier + 1] if has_names else ""
            logins = cells[self.identifier + 1 + has_names:self.grade]
            keys = {"moodle": {IDENTIFIER.fullmatch(cells[self.identifier])["number"]},
                    "login": {cell.casefold() for cell in logins if cell}, "name": name_keys(name)}
            tells = {"email": cell for cell in logins if "@" in cell} | ({"name": name} if name else {})
            row_lines.append(Line(row, name or cells[self.identifier], keys, name, cells[self.identifier], tells))
        return with_needed_ids(row_lines)

    def fill(self, students, zeros=False):
        """Fills in the grades and comments of all students who handed something in. Returns the Filling.

        Parameters:
            students : list of Person; those of the class who are not in the table have no rows
            zeros : True to enter 0 where nothing was handed in
        """
        matches, filling = match(students, self.lines(), self.order), Filling(self.sheet)
        filling.tell_matches(matches, "the worksheet")
        most = max([person.max for person in students], default=0)
        possible = parse_number(self.cells(self.maximum)[0])
        filling.say(f"{self.sheet.rows[0][self.grade]}: total, " + scaled(most, possible))
        people = {line.row: person for person, line in matches.pairs}
        for line in self.lines():
            person = people.get(line.row)
            if person and person.handed_in:
                self.enter(filling, line, person)
            else:
                filling.without_grade(line, self.grade, person, matches, zeros)
        if self.comments is None:
            filling.say("Comments are not entered: the worksheet has no column for them; the assignment does not have "
                        "the feedback type Feedback comments")
        return filling

    def enter(self, filling, line, person):
        """Enters a student's grade and comment."""
        row = self.sheet.rows[line.row]
        filling.enter(line.row, self.grade, person, parse_number(row[self.maximum]))
        if row[self.grade].strip() and not english_date(row[self.modified] if self.modified is not None else ""):
            filling.note("Moodle replaces these grades only if the upload may update records that were modified more "
                         "recently", line.called)
        if self.comments is None:
            return
        comment = row[self.comments].strip()
        if comment and not comment.startswith(MARK):
            filling.note("Comments left as they were, because they are not ours", line.called)
        else:
            self.sheet.fill(line.row, self.comments, comment_html(person))


def english_date(text):
    """Returns True if PHP's strtotime can read a date as Moodle writes it in English."""
    return re.search(r"\b(January|February|March|April|May|June|July|August|September|October|November|December)\b",
                     text) is not None


def comment_html(person):
    """Returns a student's feedback as HTML: what Moodle's importer stores a comment as.

    The reader of CSV files in PHP takes a backslash before a quotation mark for an escape, so both are written as
    entities.
    """
    paragraphs = [f"{MARK}{number_text(person.points)} of {number_text(person.max)} points</p>"]
    texts = [*person.problems, *("\n".join(student_feedback(row, person.problems)) for row in person.rows)]
    paragraphs += [f"<pre>{html.escape(text)}</pre>".replace("\\", "&#92;") for text in texts]
    length = 0
    for i, paragraph in enumerate(paragraphs):
        length += len(paragraph) + 1
        if length > LONGEST:
            paragraphs[i:] = [f"<p>The feedback on {len(paragraphs) - i} more exercises is too long for a comment.</p>"]
            break
    return "\n".join(paragraphs)
