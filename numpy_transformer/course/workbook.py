"""A student's folder: the files to fill in, and the progress. Grading never reads the progress."""

import itertools
import json
import os
from pathlib import Path

from ..outputs import check_regular
from .checker.diagnosis import AnswerKey
from .checker.verdict import is_unexplained, judge
from .exercises import exercises, number_of
from .own_files import replace_own_file
from .sandbox import run, run_task

PROGRESS = ".progress.json"


class Workbook:
    """One folder with exercise files.

    Parameters:
        folder : path; None: the current folder, or my-exercises or exercises inside it
    Raises: ValueError if the folder contains no exercises.
    """

    def __init__(self, folder=None):
        self.folder = (Path(folder) if folder is not None else self.find()).resolve()
        if not any(is_exercise(path) for path in self.folder.glob("ex*.py")):
            raise ValueError(f"there are no exercises in {self.folder}; create them with "
                             f"numpy-transformer exercise start {self.folder}")

    @staticmethod
    def find():
        """Returns the current folder if it contains exercises, else my-exercises or exercises inside it."""
        for folder in (Path(), Path("my-exercises"), Path("exercises")):
            if any(map(is_exercise, folder.glob("ex*.py"))):
                return folder
        raise ValueError("there are no exercises here; create them with numpy-transformer exercise start FOLDER, then "
                         "change to that folder or name it with --folder")

    def path(self, exercise):
        """The student's file."""
        return self.folder / exercise.file

    def progress(self):
        """Returns {number: {"status": ..., "hints": ...}}, or {} if there is no readable progress file."""
        try:
            entries = json.loads((self.folder / PROGRESS).read_text(encoding="utf-8"))
            return {number: entry for number, entry in entries.items() if isinstance(entry, dict)}
        except (OSError, ValueError, AttributeError, RecursionError):
            return {}

    def save_progress(self, exercise, **changes):
        """Saves these entries in the folder, if it can be written to."""
        progress = self.progress()
        progress[exercise.number] = {**progress.get(exercise.number, {}), **changes}
        replace_own_file(self.folder / PROGRESS, json.dumps(progress, indent=1, sort_keys=True).encode())

    def passed(self, exercise):
        return self.progress().get(exercise.number, {}).get("status") == "pass"

    def hints(self, exercise):
        """Returns the number of hints shown so far, 0 to 3."""
        shown = self.progress().get(exercise.number, {}).get("hints")
        return min(max(shown, 0), 3) if isinstance(shown, int) else 0

    def present(self):
        """Returns the exercises with a file here."""
        numbers = {number_of(path.name) for path in self.folder.glob("ex*.py")}
        named = [exercises()[number] for number in exercises() if number in numbers]
        return [exercise for exercise in named if self.path(exercise).exists()]

    def next(self):
        """Returns the first exercise with a file here that has not been passed, or None."""
        return next((exercise for exercise in self.present() if not self.passed(exercise)), None)

    def check(self, exercise, seed=0, seconds=10):
        """Runs and judges the student's file and saves the status. Returns the Verdict, the ProgramRun and the AnswerKey.

        The remedy of a known mistake is shown only if the previous check named the same mistake.
        """
        if not self.path(exercise).is_file():
            raise ValueError(f"there is no file {self.path(exercise)}; create it with numpy-transformer exercise reset "
                             f"{exercise.number}")
        answer_key, source = AnswerKey(exercise, seed), self.path(exercise).read_bytes()
        result = run(source, exercise, answer_key.cases, seconds)
        verdict = judge(answer_key, result)
        if is_unexplained(answer_key, verdict):
            from .checker.localize import localize  # most answers do not need it
            verdict = localize(answer_key, verdict, result, exercise.file, lambda task: run_task(source, task, seconds))
        named = [list(names) for names in verdict.mistakes]
        if named != self.progress().get(exercise.number, {}).get("named"):
            verdict = verdict.without_remedies()
        self.save_progress(exercise, status=verdict.status, named=named)
        return verdict, result, answer_key

    def reset(self, exercise):
        """Writes a new file. Renames an edited one to .bak (.bak1, ...) and returns that path, else returns None."""
        path, backup = self.path(exercise), None
        check_regular(path)
        if path.exists() and path.read_bytes() != exercise.skeleton().encode():
            names = (path.with_name(f"{path.name}.bak{i or ''}") for i in itertools.count())
            backup = next(name for name in names if not name.exists())
            os.replace(path, backup)
        path.write_text(exercise.skeleton(), encoding="utf-8")
        self.save_progress(exercise, status="todo")
        return backup


def is_exercise(path):
    """Returns True if a file has the name of an exercise's file."""
    return number_of(path.name) in exercises()


def start_workbook(folder, chosen):
    """Writes the files of the chosen exercises that are missing in a folder. Returns their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    missing = [exercise for exercise in chosen if not (folder / exercise.file).exists()]
    for exercise in missing:
        (folder / exercise.file).write_text(exercise.skeleton(), encoding="utf-8")
    return [folder / exercise.file for exercise in missing]
