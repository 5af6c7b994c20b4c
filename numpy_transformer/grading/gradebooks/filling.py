"""What was entered into a gradebook, and what was not, for the teacher to read."""

from collections import defaultdict
from dataclasses import dataclass, field

from .sheet import Sheet, number_text


@dataclass
class Filling:
    """A gradebook while it is filled."""

    sheet: Sheet
    sentences: list = field(default_factory=list)
    entered: set = field(default_factory=set)           # rows with a new grade
    notes: dict = field(default_factory=lambda: defaultdict(dict))      # {what is to be known: {name: None}}
    zeros: set = field(default_factory=set)

    def say(self, sentence):
        self.sentences.append(sentence)

    def tell_matches(self, matches, place):
        if matches.unmatched:
            self.say(f"Not found in {place}, enter by hand: {'; '.join(matches.unmatched)}")
        for sentence in matches.ambiguous:
            self.say(f"Not entered, because {sentence}")

    def enter(self, row, column, person, possible):
        """Enters a student's points, scaled to the points possible if they are known."""
        points = person.points * possible / person.max if possible and person.max else person.points
        self.sheet.fill(row, column, self.sheet.write_number(points))
        self.entered.add(row)

    def zero(self, row, column):
        self.sheet.fill(row, column, "0")
        self.zeros.add(row)

    def note(self, what, name):
        self.notes[what][name] = None

    def keep(self, reason, name):
        self.note(f"Left as they were ({reason})", name)

    def keep_without_grade(self, line, matches):
        self.keep("not certain whose they are, see above" if line.row in matches.uncertain else "nothing handed in",
                  line.label)

    def summary(self):
        """Returns the sentences about the whole file."""
        lines = [f"Grades of {counted(len(self.entered), 'student')} entered"]
        if self.zeros:
            lines.append(f"0 entered for {counted(len(self.zeros), 'student')} who handed nothing in")
        for what, names in self.notes.items():
            shown = [*names] if len(names) <= 20 else [*[*names][:20], "..."]
            lines.append(f"{what}, {len(names)}: {'; '.join(shown)}")
        return [*self.sentences, *lines]


def scaled(most, possible):
    """Returns how points are entered: "8 points", "8 points scaled to 10"."""
    if not possible:
        return f"{counted(most, 'point')}, not scaled, because the gradebook gives no points possible"
    return counted(most, "point") + ("" if most == possible else f" scaled to {number_text(possible)}")


def counted(number, noun):
    return f"{number_text(number)} {noun}{'' if number == 1 else 's'}"
