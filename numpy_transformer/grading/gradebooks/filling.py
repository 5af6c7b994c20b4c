"""What was entered into a gradebook, and what was not, for the teacher to read."""

from collections import defaultdict
from dataclasses import dataclass, field

from ..gradable import is_stage
from .sheet import Sheet, number_text


@dataclass
class Filling:
    """A gradebook while it is filled."""

    sheet: Sheet
    sentences: list = field(default_factory=list)
    entered: set = field(default_factory=set)           # rows with a new grade
    notes: dict = field(default_factory=lambda: defaultdict(dict))      # {what is to be known: {name: None}}
    left_out: set = field(default_factory=set)          # rows of students who are not in the table

    def say(self, sentence):
        self.sentences.append(sentence)

    def tell_matches(self, matches, place):
        unmatched = [person.name for person in matches.unmatched if not person.is_left_out]
        if unmatched:
            self.say(f"Not found in {place}, enter by hand: {'; '.join(unmatched)}")
        for sentence in matches.ambiguous:
            self.say(f"Not entered, because {sentence}")

    def enter(self, row, column, person, possible):
        """Enters a student's points, scaled to the points possible if they are known."""
        points = person.points * possible / person.max if possible and person.max else person.points
        self.sheet.fill(row, column, self.sheet.write_number(points))
        self.entered.add(row)

    def note(self, what, name):
        self.notes[what][name] = None

    def keep(self, reason, name):
        self.note(f"Left as they were ({reason})", name)

    def without_grade(self, line, column, person, matches, zeros, what=""):
        """Enters 0 for a student who handed nothing in, if that is certain and wanted, and says why if not.

        Parameters:
            person : the Person whose line it is, with the rows of this column, or None
            matches : Matches of all students of the class
            zeros : True to enter 0
            what : what the column is for, such as "lesson 05", or "" for all that is graded
        """
        nothing = f"nothing handed in{' for ' + what if what else ''}"
        if line.is_test:
            return
        if line.row in matches.uncertain:
            self.keep("not certain whose they are, see above", line.called)
        elif person and person.is_left_out:
            self.left_out.add(line.row)
        elif zeros and (person or matches.complete):
            self.sheet.fill(line.row, column, "0")
            self.note(f"0 entered ({nothing})", line.called)
        else:
            self.keep(nothing, line.called)

    def summary(self):
        """Returns the sentences about the whole file."""
        lines = [f"Grades of {counted(len(self.entered), 'student')} entered"]
        if self.left_out:
            lines.append(f"Left as they were (not in this table): {counted(len(self.left_out), 'student')}")
        lines += [f"{what}, {len(names)}: {'; '.join(names)}" for what, names in self.notes.items()]
        return [*self.sentences, *lines]


def scaled(most, possible):
    """Returns how points are entered: "8 points", "8 points scaled to 10"."""
    if not possible:
        return f"{counted(most, 'point')}, not scaled, because the gradebook gives no points possible"
    return counted(most, "point") + ("" if most == possible else f" scaled to {number_text(possible)}")


def counted(number, noun):
    return f"{number_text(number)} {noun}{'' if number == 1 else 's'}"


def counted_work(numbers):
    """Returns how many exercises and stages these numbers are, such as "3 exercises and 2 stages"."""
    stages = sum(map(is_stage, numbers))
    exercises = len(numbers) - stages
    parts = [counted(exercises, "exercise")] if exercises or not stages else []
    return " and ".join([*parts, *([counted(stages, "stage")] if stages else [])])
