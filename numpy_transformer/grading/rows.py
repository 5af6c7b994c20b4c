"""The rows of the table: made of a verdict, and of how the student's files arrived."""

import hashlib
from dataclasses import dataclass, field, fields, replace

import numpy as np

from ..course.checker.messages import mistake_names
from ..course.checker.verdict import Verdict
from ..file_checks import one_line, printable
from ..texts import Message, as_data, changed, from_data, render
from .report import LOOK_AT

LONGEST_NOTE, LONGEST_LINE, PRINTED_LINES = 600, 2000, 40
KILLED = ("The grader was killed while it ran this file, which was not run again; look at it, and grade it with "
          "--retry")


@dataclass(slots=True)                        # a course has hundreds of thousands
class Row:
    """The result of one exercise of one student."""

    student: str
    number: str
    exercise: str                               # "ex01_2_softmax_backward"
    status: str
    points: float                               # an int unless lateness takes a part
    max: int
    seconds: float
    note: str                                   # for the teacher
    stage: str = ""
    lines: list = field(default_factory=list)   # Messages: the explanation for the student
    mistakes: list = field(default_factory=list)  # names of known mistakes, a list for each possible explanation
    unusual: bool = False                       # True if the file uses names that no exercise needs
    remarks: list = field(default_factory=list)  # sentences about how the file arrived, for teacher and student
    printed: str = ""
    answer: str = ""                            # digest of a wrong answer that no known mistake explains
    digest: str = ""                            # of the file, and of the student's other files, which it may import
    ids: dict = field(default_factory=dict)     # of the student, such as {"canvas": "1234"}
    submitted: str = ""                         # when, as ISO text
    late: int = 0                               # days
    deducted: float = 0                         # points taken off for lateness

    @property
    def misconception(self):
        """Names of known mistakes, as they appear in the table."""
        return mistake_names(self.mistakes)

    @property
    def verdict(self):
        """What the student reads of the verdict."""
        return Verdict(self.status, self.stage, lines=self.lines, mistakes=self.mistakes)

    @property
    def whole_note(self):
        """The note and the remarks, as the table shows them."""
        return join_sentences([self.note, *(remark for remark in self.remarks if remark.rstrip(".") not in self.note)])

    @property
    def key(self):
        """What the journal knows the row by."""
        return self.student, self.number, self.digest

    @classmethod
    def from_journal(cls, values):
        """Returns the Row with these values, or None if they come from another version of the grader."""
        known = set(values) == {field.name for field in fields(cls)}
        return cls(**{**values, "lines": from_data(values["lines"])}) if known else None

    def as_data(self):
        """Returns the values of the row for JSON."""
        return {field.name: as_data(getattr(self, field.name)) for field in fields(self)}


@dataclass
class Judgment:
    """What was found out about a file.

    Attributes:
        answer : digest of a wrong answer that no known mistake explains, or ""
    """

    verdict: Verdict
    seconds: float
    printed: str
    answer: str = ""


def make_row(student, exercise, verdict, file=None, seconds=0.0, printed="", **more):
    """Returns the Row of a verdict on a File. All its texts consist of single lines of printable characters."""
    notes = [render(verdict.note)]
    if verdict.status == "fail" and not verdict.mistakes:
        notes += map(render, verdict.diagnoses)
    phrases = file.unusual if file else []
    if phrases:
        notes.append(f"{LOOK_AT}: it {'; it '.join(phrases)}")
    return Row(student.name, exercise.number, exercise.file.removesuffix(".py"), verdict.status,
               verdict.points(exercise.points), exercise.points, seconds, join_sentences(notes), verdict.stage,
               [changed(line, printable_value) for line in verdict.lines or filter(None, [verdict.note])],
               [list(names) for names in verdict.mistakes], bool(phrases), [],
               "\n".join(map(printable, printed.splitlines()[:PRINTED_LINES])), **more)


def printable_value(name, value):
    """Returns a value of a Message whose text is a single line of printable characters."""
    return printable(value[:LONGEST_LINE]) if isinstance(value, str) else value


def row_without_file(student, exercise):
    """Returns the Row of an exercise without a readable file: an error if something is there, else missing."""
    problems = problems_with(student, exercise.number, "")
    if problems:
        said = tuple(map(plain_line, problems))
        return make_row(student, exercise, Verdict("error", "reading", plain_line(join_sentences(problems)), said))
    return make_row(student, exercise, Verdict("missing", "", plain_line(f"no file {exercise.file}")))


def plain_line(text):
    return Message("verdict.line.plain", text=text)


def unreadable(student, number):
    """Returns the Problem that is there in place of a file for an exercise, or None. Of several, the last that came."""
    problems = [problem for problem in student.problems if problem.number in (number, "")]
    return max(problems, key=lambda problem: (problem.submitted.timestamp() if problem.submitted else 0, problem.late),
               default=None)


def killed(student, exercise, digest):
    """Returns the Row of a file that was running alone when the grader was killed."""
    return make_row(student, exercise, Verdict("error", "killed", plain_line(KILLED)), digest=digest)


def with_arrival(row, student, graded=True):
    """Returns a row with the student's ids and with remarks on how the files for the exercise arrived.

    Parameters:
        graded : False if there was no file to grade; the note then names already what could not be read
    """
    remarks = list(student.remarks.get(row.number, []))
    others = []
    if graded:
        remarks += problems_with(student, row.number)
        others = [] if row.status == "pass" else problems_with(student, "")
    return replace(row, ids=dict(student.ids), note=join_sentences([row.note, *others]),
                   remarks=[one_line(remark, LONGEST_LINE) for remark in remarks])


def problems_of(students):
    """Returns {student: sentences} about files that belong to no exercise."""
    problems = {student.name: problems_with(student, "") for student in students}
    return {name: sentences for name, sentences in problems.items() if sentences}


def problems_with(student, *numbers):
    """Returns a sentence for each file of these exercises that could not be read ("": belongs to no exercise)."""
    return [one_line(f"{problem.where}: {problem.sentence}" if problem.where else problem.sentence, LONGEST_LINE)
            for problem in student.problems if problem.number in numbers]


def join_sentences(sentences):
    """Returns sentences as one note of limited length."""
    return one_line("; ".join(sentence.rstrip(".") for sentence in sentences if sentence), LONGEST_NOTE)


def digest_of_files(files):
    """Returns a digest of {name: bytes or digest}."""
    whole = hashlib.sha256()
    for name in sorted(files):
        content = files[name] if isinstance(files[name], bytes) else files[name].encode()
        whole.update(f"{len(name.encode())} {name} {len(content)} ".encode() + content)
    return whole.hexdigest()


def digest_of(observations):
    """Returns the same text for the same numbers, up to rounding, and "" if there are none."""
    whole, is_empty = hashlib.sha256(), True
    for array in (array for observation in observations for array in observation.outputs):
        with np.errstate(all="ignore"):
            y, is_empty = np.asarray(array, float), False
            scale = np.max(abs(y), initial=0.0, where=np.isfinite(y)) or 1.0
            rounded = np.round(y / scale, 6) + 0.0                      # + 0.0 makes 0 of -0
            rounded = np.where(np.isnan(rounded), np.nan, rounded)      # one of the many bit patterns of NaN
        whole.update(f"{y.shape} {scale:.6g} ".encode() + rounded.tobytes())
    return "" if is_empty else whole.hexdigest()[:16]
