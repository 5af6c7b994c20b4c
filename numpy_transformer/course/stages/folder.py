"""A student's folder: one page and one file for each stage. What is in it is the student's, and nothing is overwritten."""

import ast
import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path

from ...texts import Message
from .definition import program_file
from .table import STAGES

PROGRESS = ".build.json"
LAW = "module"                                  # the file that every stage imports
FOLDER = "mine"                                 # what the pages suggest
LARGEST = 1 << 20                               # bytes of a student's file
ALLOWED = {"numpy", *sys.stdlib_module_names}


class StageFolder:
    """One folder with a student's stages.

    Parameters:
        folder : path; None: the current folder, or `mine` inside it
    Raises: ValueError if the folder contains no stages.
    """

    def __init__(self, folder=None):
        self.folder = (Path(folder) if folder is not None else self.find()).resolve()
        if not has_stages(self.folder):
            raise ValueError(f"there are no stages in {self.folder}; create them with "
                             f"numpy-transformer build start {self.folder}")

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

    def source(self, stage):
        """Returns the bytes of a stage's file. Raises: ValueError if there is none, or it is too large."""
        return read(self.path(stage), f"numpy-transformer build start {self.folder} writes the files that are missing")

    def others(self):
        """Returns {name: bytes} of the student's other Python files: module.py, and helpers of the student's own."""
        names = {stage.file for stage in STAGES.values()}
        return {path.name: read(path, "") for path in sorted(self.folder.glob("*.py")) if path.name not in names}

    def progress(self):
        """Returns {number of a stage: {"status": ..., "digest": ..., "hints": ...}}; {} if it cannot be read."""
        try:
            entries = json.loads((self.folder / PROGRESS).read_text(encoding="utf-8"))["stages"]
            return {int(number): entry for number, entry in entries.items() if isinstance(entry, dict)}
        except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
            return {}

    def save_progress(self, stage, **changes):
        """Saves these entries in the folder, if it can be written to."""
        progress = self.progress()
        progress[stage.number] = {**progress.get(stage.number, {}), **changes}
        temporary = self.folder / f"{PROGRESS}.tmp"
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
            with open(temporary, "x", encoding="utf-8") as file:        # "x" follows no link and opens no pipe
                json.dump({"stages": progress}, file, indent=1, sort_keys=True)
            os.replace(temporary, self.folder / PROGRESS)

    def digest(self, stage):
        """Returns a hash of a stage's file and of the student's other files, on which it may depend."""
        content = hashlib.sha256(self.source(stage))
        for name, source in self.others().items():
            content.update(name.encode() + b"\0" + source)
        return content.hexdigest()

    def state(self, stage):
        """Returns "missing", "empty" (as it was written), "pass", "changed" since it passed, or "begun"."""
        if not self.path(stage).is_file():
            return "missing"
        if self.source(stage).decode("utf-8", "replace").splitlines() == stage.skeleton.splitlines():
            return "empty"
        entry = self.progress().get(stage.number, {})
        if entry.get("status") != "pass":
            return "begun"
        return "pass" if entry.get("digest") == self.digest(stage) else "changed"

    def present(self):
        """Returns the stages that have a file here."""
        return [stage for stage in STAGES.values() if self.path(stage).is_file()]

    def passed(self):
        """Returns the stages that have passed and did not change since."""
        return [stage for stage in self.present() if self.state(stage) == "pass"]

    def hints(self, stage):
        """Returns the number of hints shown so far, 0 to 3."""
        shown = self.progress().get(stage.number, {}).get("hints")
        return min(max(shown, 0), 3) if isinstance(shown, int) else 0

    def program(self, mine):
        """Returns {name: bytes} of the whole program: these stages are the student's, and the others the reference's."""
        files = {f"{LAW}.py": program_file(LAW).encode()}
        files |= {stage.file: stage.solution.encode() for stage in STAGES.values()}
        files |= self.others()
        return files | {stage.file: self.source(stage) for stage in mine}


def start_folder(folder, upto, taken=None):
    """Writes the pages and files of the stages 1 to `upto` that are missing. Returns the paths that were written.

    Parameters:
        taken : {number of a stage: text of its file} of what is taken over from exercises
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {f"{LAW}.py": program_file(LAW)}
    for stage in STAGES.values():
        if stage.number <= upto:
            wanted |= {stage.page: stage.page_text(), stage.file: (taken or {}).get(stage.number, stage.skeleton)}
    written = []
    for name, text in wanted.items():
        with contextlib.suppress(FileExistsError), open(folder / name, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            written.append(folder / name)
    return written


def has_stages(folder):
    return any((Path(folder) / stage.file).is_file() for stage in STAGES.values())


def read(path, remedy):
    """Returns the bytes of a file. Raises: ValueError if there is none or it is too large."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}; {remedy}")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes; a file of a stage has at most {LARGEST:,}")
    return path.read_bytes()


def complaint(stage, files):
    """Returns a Message about what keeps a stage's file, or a file that it may need, from being run at all; or None.

    Parameters:
        files : {name: bytes} of the program, and of the student's other files
    """
    for name in (stage.file, *(name for name in files if name not in {stage.file for stage in STAGES.values()})):
        try:
            tree = ast.parse(files[name])
        except SyntaxError as error:
            return Message("stages/words.state.syntax", file=name, line=error.lineno or 1, error=error.msg)
        except (ValueError, RecursionError, MemoryError) as error:
            return Message("stages/words.state.unreadable", file=name, error=str(error))
        own = {path.removesuffix(".py") for path in files}
        for module, line in imports(tree):
            if module not in ALLOWED | own:
                return Message("stages/words.state.imports", file=name, line=line, module=module)
    defined = names_in(ast.parse(files[stage.file]))
    for name in stage.names:
        if name not in defined:
            return Message("stages/words.state.renamed", file=stage.file, name=name, defined=", ".join(defined) or "-")
    return None


def imports(tree):
    """Yields (top-level module, line) of every import."""
    for item in ast.walk(tree):
        if isinstance(item, ast.Import):
            yield from ((alias.name.split(".")[0], item.lineno) for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            yield (item.module or "").split(".")[0], item.lineno


def names_in(tree):
    """Returns the names of functions, classes and variables that a module defines or imports, in their order."""
    names = []
    for item in tree.body:
        if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
            names.append(item.name)
        elif isinstance(item, ast.Assign):
            names += [target.id for target in item.targets if isinstance(target, ast.Name)]
        elif isinstance(item, (ast.Import, ast.ImportFrom)):
            names += [alias.asname or alias.name for alias in item.names]
    return names
