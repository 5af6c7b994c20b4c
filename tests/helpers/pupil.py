"""A student as all systems know them, and the rows that the grader owes them."""

import datetime
from dataclasses import dataclass, field

DUE = datetime.datetime(2026, 10, 15, 23, 59, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))


@dataclass
class Truth:
    """The row that one exercise of one student has to get.

    `status` lists the possible ones, separated by "|", and `note`, in the same way, what the note has to contain.
    """

    status: str
    points: float = 0
    mistakes: tuple = ()                        # one of these names has to be in the row
    note: str = ""


MISSING = Truth("missing")


@dataclass
class Pupil:
    """A student as all systems know them, and what they hand in."""

    first: str
    last: str
    ids: dict                                   # of each system
    sections: tuple
    habit: str
    submitted: datetime.datetime
    attempt: int = 1                            # number of times they handed in everything
    files: dict = field(default_factory=dict)   # {path: bytes}, what counts
    before: dict = field(default_factory=dict)  # {path: bytes}, what they handed in first
    links: dict = field(default_factory=dict)   # {path: target}, symbolic links
    online: str = ""                            # what they typed into the system's page, if they hand in no file
    truth: dict = field(default_factory=dict)   # {number: Truth}
    partner: "Pupil" = None                     # who handed in for both, where the system knows groups

    @property
    def name(self):
        return f"{self.first} {self.last}".strip()

    @property
    def sortable(self):
        return f"{self.last}, {self.first}" if self.first else self.last

    @property
    def late(self):
        return self.submitted > DUE

    @property
    def hands_in(self):
        return bool(self.files or self.links or self.online)
