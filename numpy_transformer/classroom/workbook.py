"""A student's folder: the files to fill in, and what has been reached in it. Progress is never an input to grading."""

import contextlib
import itertools
import json
import os
from pathlib import Path

from .diagnosis import Library
from .exercises import exercises
from .isolation import run
from .numbers import FORMER
from .verdict import judge

PROGRESS = ".progress.json"


class Workbook:
    """One folder with exercise files.

    Raises: ValueError if the folder holds none and none is asked for.
    """

    def __init__(self, folder=None):
        self.folder = (Path(folder) if folder is not None else self.find()).resolve()
        if not any(self.path(exercise).is_file() for exercise in exercises().values()):
            raise ValueError(f"there are no exercises in {self.folder}; copy them there with "
                             f"numpy-transformer exercise start {self.folder}")

    @staticmethod
    def find():
        """The current folder if there are exercises in it, else my-exercises or exercises below it."""
        for folder in (Path(), Path("my-exercises"), Path("exercises")):
            if any(folder.glob("ex[0-9][0-9]_*.py")):
                return folder
        raise ValueError("there are no exercises here; copy them into a folder of your own with "
                         "numpy-transformer exercise start FOLDER, and go there or name it with --folder")

    def path(self, exercise):
        """The student's file; one that still has its former name if there is no other."""
        path, former = self.folder / exercise.file, self.folder / exercise.former_file
        return former if former.is_file() and not path.exists() else path

    def progress(self):
        """{number: {"status": ..., "hints": ...}}; what cannot be read counts as nothing."""
        try:
            found = json.loads((self.folder / PROGRESS).read_text(encoding="utf-8"))
            return {FORMER.get(number, number): entry for number, entry in found.items() if isinstance(entry, dict)}
        except (OSError, ValueError, AttributeError):
            return {}

    def note(self, exercise, **changes):
        """Keep it in the folder, if one may write there."""
        progress = self.progress()
        progress[exercise.number] = {**progress.get(exercise.number, {}), **changes}
        temporary = self.folder / f"{PROGRESS}.tmp"
        with contextlib.suppress(OSError):
            temporary.write_text(json.dumps(progress, indent=1, sort_keys=True), encoding="utf-8")
            os.replace(temporary, self.folder / PROGRESS)

    def passed(self, exercise):
        return self.progress().get(exercise.number, {}).get("status") == "pass"

    def hints(self, exercise):
        """How many hints have been told, 0 to 3."""
        told = self.progress().get(exercise.number, {}).get("hints")
        return min(max(told, 0), 3) if isinstance(told, int) else 0

    def next(self):
        """The first exercise with a file here that has not been passed; None if there is none."""
        return next((exercise for exercise in exercises().values()
                     if self.path(exercise).is_file() and not self.passed(exercise)), None)

    def check(self, exercise, seed=0, seconds=10):
        """Run the student's file and judge it; the verdict, the run and the library. Notes the status."""
        if not self.path(exercise).is_file():
            raise ValueError(f"there is no {self.path(exercise)}; numpy-transformer exercise reset {exercise.number} "
                             "puts a new one there")
        library = Library(exercise, seed)
        came = run(self.path(exercise), exercise, library.cases, seconds)
        verdict = judge(library, came)
        self.note(exercise, status=verdict.status)
        return verdict, came, library

    def reset(self, exercise):
        """A new file for this exercise; what was there is kept as .bak (.bak1, ...), whose path is returned, or None."""
        path, kept = self.path(exercise), None
        if path.exists() and path.read_bytes() != exercise.skeleton().encode():
            names = (path.with_name(f"{path.name}.bak{i or ''}") for i in itertools.count())
            kept = next(name for name in names if not name.exists())
            os.replace(path, kept)
        path.write_text(exercise.skeleton(), encoding="utf-8")
        self.note(exercise, status="todo")
        return kept


def start(folder, chosen):
    """Write the files of the chosen exercises into a folder, new or not; the paths written. Nothing is replaced."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    missing = [exercise for exercise in chosen if not (folder / exercise.file).exists()]
    for exercise in missing:
        (folder / exercise.file).write_text(exercise.skeleton(), encoding="utf-8")
    return [folder / exercise.file for exercise in missing]
