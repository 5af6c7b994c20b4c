"""The results student by student, and whose row in a gradebook they belong in."""

import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from ...course.checker.verdict import STATUS

LETTERS = str.maketrans({"ß": "ss", "ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "ı": "i"})


@dataclass
class Person:
    """One student with all rows of the table."""

    name: str
    ids: dict                                   # any of canvas, moodle, github, gradescope, email, login
    rows: list
    problems: list = field(default_factory=list)        # sentences about files that belong to no exercise
    full_name: str = ""                                 # that a roster tells
    logins: set = field(default_factory=set)            # that a roster tells, in lower case
    names: set = field(default_factory=set)             # that a roster tells, as `name_keys` writes them

    @property
    def is_left_out(self):
        """True for a student of the class who is not in the table: in another part, or not among --students."""
        return not self.rows

    @property
    def handed_in(self):
        return any(row.status != "missing" for row in self.rows)

    @property
    def points(self):
        return round(sum(row.points for row in self.rows), 2)

    @property
    def max(self):
        return sum(row.max for row in self.rows)

    def only(self, numbers):
        """Returns the same student with the rows of these exercises."""
        return replace(self, rows=[row for row in self.rows if row.number in numbers])

    def counts(self):
        tally = Counter(row.status for row in self.rows)
        return {status: tally[status] for status in STATUS}


def people(rows, problems=None):
    """Returns a Person for each student in the rows. Two students of one name are told apart by their ids.

    Parameters:
        rows : list of Row
        problems : {student: sentences} about files that belong to no exercise
    """
    groups = defaultdict(list)
    for row in rows:
        groups[row.student, tuple(sorted(row.ids.items()))].append(row)
    return [Person(name, dict(ids), own, list((problems or {}).get(name, ()))) for (name, ids), own in groups.items()]


def expected(class_, rows):
    """Returns a Person, still without rows, for each Student of a class and each other student in rows kept."""
    known = {student.name for student in class_}
    return [*(Person(student.name, dict(student.ids), []) for student in class_),
            *(Person(person.name, person.ids, []) for person in people(rows) if person.name not in known)]


@dataclass
class Line:
    """A student's row in a gradebook: how people call it, and what identifies the student, most reliable first."""

    row: int
    label: str
    keys: dict = field(default_factory=dict)    # {"canvas": {"123"}, "login": {...}, ..., "name": {...}}
    name: str = ""                              # if a match by Moodle's number has to share a word with it
    id: str = ""                                # what tells this row from another one of the same label
    tells: dict = field(default_factory=dict)   # what the row says of the student: {"name": "Lee, Kim", "login": ...}
    is_test: bool = False                       # True for the test student of Canvas

    def __str__(self):
        return f"{self.label} ({self.id + ', ' if self.id else ''}row {self.row + 1})"

    @property
    def called(self):
        return f"{self.label} ({self.id})" if self.id else self.label

    def tell(self, person):
        """Adds to a Person whose row this is what the row says of the name and the ids."""
        person.full_name = person.full_name or self.tells.get("name", "")
        for kind, value in self.tells.items():
            if kind != "name":
                person.ids.setdefault(kind, value)


def with_needed_ids(lines):
    """Returns the same lines, with an id only where several have the same label."""
    labels = Counter(line.label for line in lines)
    return [replace(line, id=line.id if labels[line.label] > 1 else "") for line in lines]


@dataclass
class Matches:
    """Which line of the gradebook belongs to which student. Nothing is guessed."""

    pairs: list                                 # (Person, Line)
    unmatched: list                             # each Person who is not in the gradebook
    ambiguous: list                             # sentences
    uncertain: set = field(default_factory=set)         # rows of the lines in these sentences

    @property
    def complete(self):
        """True if every student has a line, so that the other lines are those of people who handed nothing in."""
        return not self.unmatched and not self.ambiguous


def match(students, lines, order):
    """Finds each student's line in a gradebook.

    Parameters:
        students : list of Person
        lines : list of Line
        order : kinds of keys, most reliable first; the first kind that fits any line decides
    """
    index = defaultdict(list)
    for line in lines:
        for kind in order:
            for value in line.keys.get(kind, ()):
                index[kind, value].append(line)
    pairs_by_row, result = defaultdict(list), Matches([], [], [])
    for person in students:
        candidates = find_people(person, index, order)
        result.uncertain |= {line.row for line in candidates}
        stranger = [line for line in candidates if is_stranger(person, line)]
        if not candidates:
            result.unmatched.append(person)
        elif stranger:
            result.ambiguous.append(f"the number of {person.name} is that of {stranger[0].label} there; is it the file "
                                    "of another assignment?")
        elif len(candidates) > 1:
            result.ambiguous.append(f"{person.name} may be {' or '.join(map(str, candidates[:4]))}")
        else:
            pairs_by_row[candidates[0].row].append((person, candidates[0]))
    for pairs in pairs_by_row.values():
        if len(pairs) == 1:
            result.pairs += pairs
            result.uncertain -= {pairs[0][1].row}
        else:
            names = " and ".join(person.name for person, _ in pairs)
            result.ambiguous.append(f"{names} may all be {pairs[0][1]}")
    return result


def is_stranger(person, line):
    """Returns True if a line has the student's number in Moodle, which each assignment gives anew, but another name."""
    same_number = keys(person)["moodle"] & line.keys.get("moodle", set())
    return bool(same_number and line.name) and not set(name_words(line.name)) & set(name_words(person.name))


def find_people(person, index, order):
    """Returns the lines that the first fitting kind of key gives.

    Of several students with one name, it is the one whose login or e-mail address has the same part before the @.
    """
    own = keys(person)
    for kind in order:
        lines = {line.row: line for value in own.get(kind, ()) for line in index.get((kind, value), ())}.values()
        near = [line for line in lines if local_parts(line.keys.get("login", ())) & local_parts(own["login"])]
        if lines:
            return near if len(near) == 1 else list(lines)
    return []


def local_parts(logins):
    return {login.partition("@")[0] for login in logins}


def keys(person):
    """Returns what identifies a student: {kind: values}. A login may be an e-mail address and the other way round.

    Gradescope's id is the number that the university knows the student by. An id that was appended to a name, to tell
    two students apart, is no part of it.
    """
    ids = {kind: str(value).strip().casefold() for kind, value in person.ids.items() if value}

    def ids_of_kinds(*kinds):
        return {ids[kind] for kind in kinds if kind in ids}
    return {"canvas": ids_of_kinds("canvas"), "moodle": ids_of_kinds("moodle"),
            "login": ids_of_kinds("login", "email", "gradescope") | person.logins,
            "name": name_keys(name_without_id(person)) | person.names}


def name_without_id(person):
    name, _, end = person.name.rpartition(" (")
    return name if end.removesuffix(")") in map(str, person.ids.values()) else person.name


def name_words(text):
    """Returns the words of a name in lower case, without accents and punctuation."""
    letters = unicodedata.normalize("NFKD", text.casefold().translate(LETTERS))
    letters = (letter for letter in letters if not unicodedata.combining(letter))
    return "".join(letter if letter.isalnum() else " " for letter in letters).split()


def name_keys(*parts):
    """Returns the ways to write a name: for "Lee, Kim Ann", leekimann, kimannlee, annleekim and ann|kim|lee."""
    own = name_words(" ".join(parts))
    return {"".join([*own[i:], *own[:i]]) for i in range(len(own))} | {"|".join(sorted(own))} - {""}
