"""Graded rows, kept line by line, so that an interrupted grading goes on where it stopped."""

import json
import os
from dataclasses import asdict


class Journal:
    """A file of JSON lines: first the settings, then a row each.

    Raises: ValueError if the file was begun with other settings, or is no journal.
    """

    def __init__(self, path, settings):
        self.path, self.settings = path, settings
        self.rows = {}                          # {(student, number): row} of an earlier run
        lines = [settings, *self.earlier()]
        new = path.with_name(path.name + ".new")
        new.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        os.replace(new, path)                   # never less than there was
        self.file = open(path, "a", encoding="utf-8")

    @staticmethod
    def seed(path):
        """The seed of an earlier run that was not finished, or None."""
        try:
            with open(path, encoding="utf-8") as file:
                return json.loads(file.readline())["seed"]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def earlier(self):
        """The rows of an earlier run; a last line that was not written to its end counts as none."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        begun, *rows = [self.parsed(line) for line in lines] or [None]
        if not isinstance(begun, dict) or "seed" not in begun:
            raise ValueError(f"{self.path} is not the journal of a grading; move it away")
        for name, value in self.settings.items():
            if begun.get(name) != value:
                raise ValueError(f"{self.path} keeps rows graded with {name} {begun.get(name)}, not {value}; give the "
                                 "same again to go on, or delete that file to begin anew")
        rows = [row for row in rows if isinstance(row, dict) and {"student", "number"} <= set(row)]
        self.rows = {(row["student"], row["number"]): row for row in rows}
        return list(self.rows.values())

    @staticmethod
    def parsed(line):
        try:
            return json.loads(line)
        except ValueError:
            return None

    def add(self, row):
        self.file.write(json.dumps(asdict(row)) + "\n")
        self.file.flush()
