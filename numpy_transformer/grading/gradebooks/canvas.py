"""Fills the gradebook that a teacher exported from Canvas, so that it can be imported again.

What Canvas writes and reads is taken from instructure/canvas-lms: lib/gradebook_exporter.rb (commit 0140a2ef) and
lib/gradebook_importer.rb (commit 00b222d7). The first cells of the header are Student (or LastName, FirstName), ID,
SIS User ID, SIS Login ID, Integration ID, Root Account and Section, of which some may be missing; they are not
translated. Columns of the teacher's own follow, and one column "name (id)" for each assignment. Between the header and
the students, there may be a row that says "Manual Posting" or "Muted", and there is the row "    Points Possible", in
which columns that Canvas does not import say "(read only)". A student is found by ID, then by SIS User ID and SIS Login
ID, then by name. EX stands for an excused student, N/A for one who does not have the assignment. Numbers may have a
decimal comma, and cells may be separated by semicolons.
"""

from .columns import ID, targets
from .filling import Filling, scaled
from .people import Line, match, name_keys, name_words, with_needed_ids
from .sheet import parse_number, read_sheet

LOGINS = {"SIS User ID": "sis", "SIS Login ID": "login"}
TEST_STUDENT = ["student", "test"]
KEPT = {"EX": "excused", "N/A": "not assigned"}


class CanvasGradebook:
    """A gradebook that can be filled, with the columns that belong to the graded exercises.

    Its attribute `order` names what students are found by, most reliable first.

    Parameters:
        path : path of the exported file
        chosen : the exercises that are graded
        wanted : texts of --column
    Raises: ValueError if the file is no gradebook of Canvas, or the columns cannot be told.
    """

    order = ("canvas", "login", "name")

    def __init__(self, path, chosen, wanted=()):
        self.sheet = read_sheet(path)
        rows, header = self.sheet.rows, self.sheet.rows[0]
        self.names = 2 if header[:2] == ["LastName", "FirstName"] else 1
        is_gradebook = self.names == 2 or "Student" in header[0]
        if not is_gradebook or len(header) <= self.names or "ID" not in header[self.names]:
            raise ValueError(f"{path.name} is not a gradebook of Canvas: its first columns are not Student and ID; "
                             "export it with Export under Grades")
        self.points_row = next((i for i, row in enumerate(rows) if "Points Possible" in row[0]), None)
        if self.points_row is None:
            raise ValueError(f"{path.name} has no row Points Possible; export the whole gradebook again")
        self.targets = targets(self.assignments(), chosen, wanted, path.name)
        for target in self.targets:
            target.possible = parse_number(rows[self.points_row][target.column])
        self.sheet.need([line.row for line in self.lines()], self.columns())

    def assignments(self):
        """Returns {column: header} of the columns that Canvas imports as assignments."""
        header, possible = self.sheet.rows[0], self.sheet.rows[self.points_row]
        return {i: name for i, name in enumerate(header)
                if i > self.names and ID.fullmatch(name) and i < len(possible)
                and (not possible[i].strip() or parse_number(possible[i]) is not None)}

    def columns(self):
        """Returns the columns that `fill` changes."""
        return [target.column for target in self.targets]

    def lines(self):
        """Returns a Line for each student's row."""
        header = self.sheet.rows[0]
        kinds = {i: "canvas" if i == self.names else "login" for i, name in enumerate(header)
                 if i == self.names or name in LOGINS}
        row_lines = []
        for i, row in enumerate(self.sheet.rows):
            names = [cell.strip() for cell in row[:self.names]]
            if i <= self.points_row or len(row) <= self.names or not "".join(names):
                continue
            keys, tells = {"name": name_keys(*names)}, {"name": ", ".join(names)}
            for column, kind in kinds.items():
                cell = row[column].strip().casefold() if column < len(row) else ""
                keys.setdefault(kind, set()).update({cell} - {""})
                if cell and kind == "login":
                    tells[LOGINS[header[column]]] = row[column].strip()
            row_lines.append(Line(i, ", ".join(names), keys, id=row[self.names].strip(), tells=tells,
                                      is_test=sorted(name_words(" ".join(names))) == TEST_STUDENT))
        return with_needed_ids(row_lines)

    def fill(self, students, zeros=False):
        """Fills the cells of all students who handed something in. Returns the Filling, which says what was done.

        Parameters:
            students : list of Person; those of the class who are not in the table have no rows
            zeros : True to enter 0 where nothing was handed in
        """
        lines = self.lines()
        matches, filling = match(students, lines, self.order), Filling(self.sheet)
        filling.tell_matches(matches, "the gradebook")
        if any(row.deducted for person in students for row in person.rows):
            filling.say("Points for lateness are deducted already; if the course has a late policy in Canvas, switch "
                        "it off, or grade without --late")
        entered = {number for target in self.targets for number in target.numbers}
        nowhere = sorted({row.number for person in students for row in person.rows} - entered)
        if nowhere:
            filling.say(f"Not entered anywhere: {', '.join(nowhere)}; name a column for them with --column, such as "
                        f"--column {nowhere[0][:2]}=NAME")
        filled = {line.row: person for person, line in matches.pairs}
        for target in self.targets:
            highest = max([person.only(target.numbers).max for person in students], default=0)
            filling.say(f"{target.header}: {target}, " + scaled(highest, target.possible))
            what = "" if target.what == "total" else target.what
            for line in lines:
                own = filled[line.row].only(target.numbers) if line.row in filled else None
                current = self.sheet.rows[line.row][target.column].strip().upper()
                if current in KEPT:
                    filling.keep(KEPT[current], line.called)
                elif own and own.handed_in:
                    filling.enter(line.row, target.column, own, target.possible)
                else:
                    filling.without_grade(line, target.column, own, matches, zeros, what)
        if zeros and not matches.complete:
            filling.say("Zeros were entered only for students whose files were found, because some files belong to no "
                        "row of the gradebook")
        return filling
