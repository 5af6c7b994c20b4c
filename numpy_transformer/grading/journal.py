"""Keeps graded rows in a file, so that an interrupted grading can be resumed."""

import json
import os
from dataclasses import asdict


class Journal:
    """A file of JSON lines: the settings, followed by one row per line.

    Parameters:
        path : path of the file, new or left by an interrupted run
        settings : dict that must be the same in both runs
    Raises: ValueError if the file was written with other settings, or is not a journal.
    """

    def __init__(self, path, settings):
        self.path, self.settings = path, settings
        self.rows = {}                          # {(student, number): row} of an earlier run
        lines = [settings, *self.earlier()]
        new = path.with_name(path.name + ".new")
        new.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        os.replace(new, path)                   # at no moment is a row lost
        self.file = open(path, "a", encoding="utf-8")

    @staticmethod
    def seed(path):
        """Returns the seed of an interrupted run, or None."""
        try:
            with open(path, encoding="utf-8") as file:
                return json.loads(file.readline())["seed"]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def earlier(self):
        """Returns the rows of an interrupted run. Ignores an incomplete last line."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        settings, *rows = [self.parse(line) for line in lines] or [None]
        if not isinstance(settings, dict) or "seed" not in settings:
            raise ValueError(f"{self.path} is not the journal of a grading run; move it away")
        for name, value in self.settings.items():
            if settings.get(name) != value:
                raise ValueError(f"{self.path} contains rows graded with {name} {settings.get(name)}, not {value}; use "
                                 "the same value to resume, or delete that file to start over")
        rows = [row for row in rows if isinstance(row, dict) and {"student", "number"} <= set(row)]
        self.rows = {(row["student"], row["number"]): row for row in rows}
        return list(self.rows.values())

    @staticmethod
    def parse(line):
        try:
            return json.loads(line)
        except ValueError:                      # not JSON, or cut off
            return None

    def add(self, row):
        self.file.write(json.dumps(asdict(row)) + "\n")
        self.file.flush()
