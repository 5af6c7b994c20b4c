"""A student's folder: one page and one file for each stage. What is in it is the student's, and nothing is overwritten."""

import contextlib
import hashlib
import json
from pathlib import Path

from ..own_files import replace_own_file
from .definition import program_file
from .files import STAGE_FILES, borrowed, program_of, reached_from
from .table import LAW, STAGES

PROGRESS = ".build.json"
FORMAT = 1                                      # of the file with the progress
FOLDER = "mine"                                 # what the pages suggest
LARGEST = 1 << 20                               # bytes of a student's file


class StageFolder:
    """One folder with a student's stages.

    Parameters:
        folder : path; None: the current folder, or `mine` inside it
    Raises: ValueError if the folder contains no stages, or was written by a newer version of the project.
    """

    def __init__(self, folder=None):
        self.folder = (Path(folder) if folder is not None else self.find()).resolve()
        if not has_stages(self.folder):
            raise ValueError(f"there are no stages in {self.folder}; create them with "
                             f"numpy-transformer build start {self.folder}")
        made_by = self.saved().get("format", FORMAT)
        if isinstance(made_by, int) and made_by > FORMAT:
            raise ValueError(f"{self.folder / PROGRESS} has the format {made_by}, and this version of numpy-transformer reads "
                             f"up to {FORMAT}; update numpy-transformer, or delete that file to begin with an empty list of "
                             "passed stages")

    @staticmethod
    def find():
        """Returns the current folder if it contains stages, or else `mine` inside it."""
        for folder in (Path(), Path(FOLDER)):
            if has_stages(folder):
                return folder
        raise ValueError(f"there are no stages here; create them with numpy-transformer build start {FOLDER}, then change to "
                         "that folder or name it with --folder")

    def path(self, stage):
        return self.folder / stage.file

    def files(self):
        """Returns {name: bytes} of the Python files in the folder. Raises: ValueError if one is too large."""
        return {path.name: read(path) for path in sorted(self.folder.glob("*.py")) if path.is_file()}

    def saved(self):
        """Returns what the file with the progress holds; {} if it cannot be read."""
        try:
            entries = json.loads((self.folder / PROGRESS).read_text(encoding="utf-8"))
            return entries if isinstance(entries, dict) else {}
        except (OSError, ValueError, RecursionError):
            return {}

    def progress(self):
        """Returns {name of a stage: {"status": ..., "digest": ..., "hints": ..., "named": ...}}."""
        entries = self.saved().get("stages")
        return {name: entry for name, entry in entries.items() if isinstance(entry, dict)} if isinstance(entries, dict) else {}

    def entry(self, stage):
        return self.progress().get(stage.name, {})

    def save_progress(self, stage, **changes):
        """Saves these entries in the folder, if it can be written to."""
        progress = self.progress()
        progress[stage.name] = {**progress.get(stage.name, {}), **changes}
        content = json.dumps({"format": FORMAT, "stages": progress}, indent=1, sort_keys=True)
        replace_own_file(self.folder / PROGRESS, content.encode())

    def digest(self, stage, files):
        """Returns a hash of a stage's file and of the helpers that it imports."""
        content = hashlib.sha256()
        for name in reached_from(stage.file, files):
            content.update(name.encode() + b"\0" + files[name] + b"\0")
        return content.hexdigest()

    def state(self, stage, files):
        """Returns "missing", "empty" (as it was written), "passed", "changed" since it passed, or "begun"."""
        if stage.file not in files:
            return "missing"
        if files[stage.file].decode("utf-8", "replace").splitlines() == stage.skeleton.splitlines():
            return "empty"
        entry = self.entry(stage)
        if entry.get("status") != "pass":
            return "begun"
        return "passed" if entry.get("digest") == self.digest(stage, files) else "changed"

    def states(self):
        """Returns {stage: state} of all stages."""
        files = self.files()
        return {stage: self.state(stage, files) for stage in STAGES.values()}

    def passed(self):
        """Returns the stages that have passed and did not change since."""
        return [stage for stage, state in self.states().items() if state == "passed"]

    def next(self):
        """Returns the first stage with a file here that has not passed, or None."""
        return next((stage for stage, state in self.states().items() if state not in ("passed", "missing")), None)

    def program(self, more=()):
        """Returns ({name: bytes}, stages): the program with all stages that have passed and these, and which ones they are.

        A stage is the student's, too, if one of them imports a helper from its file.
        """
        files = self.files()
        mine = {*self.passed(), *more}
        for stage in list(mine):
            mine |= set(borrowed(stage, files))
        return program_of(files, mine), sorted(mine, key=lambda stage: stage.number)

    def hints(self, stage):
        """Returns the number of hints shown so far, 0 to 3."""
        shown = self.entry(stage).get("hints")
        return min(max(shown, 0), 3) if isinstance(shown, int) else 0


def start_folder(folder, upto, taken=None):
    """Writes the pages and files of the stages 1 to `upto` that are missing. Returns the names that were written.

    Parameters:
        taken : {stage: text of its file} of what is taken over from exercises
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {f"{LAW}.py": program_file(LAW)}
    for stage in STAGES.values():
        if stage.number <= upto:
            wanted |= {stage.page: stage.page_text(), stage.file: (taken or {}).get(stage, stage.skeleton)}
    written = []
    for name, text in wanted.items():
        with contextlib.suppress(FileExistsError), open(folder / name, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            written.append(name)
    return written


def has_stages(folder):
    return any((Path(folder) / name).is_file() for name in STAGE_FILES)


def read(path):
    """Returns the bytes of a file. Raises: ValueError if it is too large."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes, and a Python file of a build folder at most {LARGEST:,}; "
                         "move what does not belong to the program to another folder")
    return path.read_bytes()
