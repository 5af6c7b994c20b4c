"""A list of the class that says who a login on GitHub, or any other name of a student, is.

GitHub Classroom's and Classroom 50's rosters are CSV files with the columns identifier, github_username, github_id and
name, where the teacher chooses what the identifier is: an e-mail address, a login, a name. Any other CSV file with a
header works too, such as Canvas's gradebook: a line belongs to the student whose name or login one of its cells is.
"""

from collections import defaultdict

from .people import name_keys
from .sheet import read_sheet

NAMES = ("name", "student", "full name")
IDS = {"login": "login", "username": "login", "sis login id": "login", "sis user id": "sis", "id number": "sis"}


def add_roster(students, path):
    """Adds what a roster says to each Person whom it names. Returns sentences about those whom it names more than once.

    Parameters:
        students : list of Person
        path : path of the roster
    Raises: ValueError if the file cannot be read.
    """
    header, *lines = [[cell.strip() for cell in row] for row in read_sheet(path).rows]
    columns = [name.casefold() for name in header]
    index, sentences = defaultdict(list), []
    for line in lines:
        for cell in {cell.casefold() for cell in line} - {""}:
            index[cell].append(line)
    for person in students:
        matches = index[person.ids.get("github", person.name).casefold()]
        if len(matches) > 1:
            sentences.append(f"{person.name} occurs {len(matches)} times in {path.name}, so no line of it was used")
        elif matches:
            add_roster_line(person, dict(zip(columns, matches[0])))
    return sentences


def add_roster_line(person, line):
    """Adds one line of a roster, {name of a column: cell}, to a Person. An identifier may be a login or a name."""
    names = [cell for column, cell in line.items() if column in NAMES and cell]
    logins = [cell for column, cell in line.items() if cell and column not in NAMES and not column.startswith("github")]
    person.full_name = names[0] if names else ""
    person.names |= {key for cell in (*names, line.get("identifier", "")) for key in name_keys(cell)}
    person.logins |= {cell.casefold() for cell in logins}
    for column in IDS.keys() & line.keys():
        if line[column]:
            person.ids.setdefault(IDS[column], line[column])
    for cell in logins:
        if "@" in cell:
            person.ids.setdefault("email", cell)
