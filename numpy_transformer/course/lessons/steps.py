"""Runs a lesson cell by cell, straight through. The stepper pauses at each cell."""

import contextlib
import sys
import time
import traceback
from pathlib import Path

from . import helpers
from .cells import cells
from .files import lesson_number
from .translation import Translation
from .words import lesson_words
from .wrapping import wrapped


class Runner:
    """Runs the cells of a lesson in one namespace, one after another, until one of them raises an error."""

    def __init__(self, path):
        self.path = path
        self.translation = helpers.translation = Translation(path)
        self.cells = self.translation.cells(cells(path.read_text(encoding="utf-8")))
        self.namespace = vars(sys.modules["__main__"])
        self.output = HeadingsFirst(sys.stdout)
        self.at = 0                             # index of the current cell
        self.failed = set()                     # indices of the cells that raised an error
        self.seconds = {}                       # {index: how long the cell took}
        self.waited = 0.0                       # seconds that a reader has thought about the questions of the current cell

    def run_all(self):
        for self.at in range(len(self.cells)):
            self.run_straight(self.at)
            if self.failed:
                return

    def run_straight(self, index):
        """Runs a cell. What it prints stands under its headings; without output, the headings are not printed."""
        for level, heading in self.cells[index].headings:
            self.output.add_heading(level, heading)
        with contextlib.redirect_stdout(self.output):
            self.execute(index)

    def parts(self, index):
        """Returns the parts of a cell of code, which are executed one after another."""
        return [self.cells[index]]

    def execute(self, index):
        """Runs a cell of code. Returns False after an error, which it prints."""
        cell = self.cells[index]
        if cell.prose is not None:
            return True
        self.failed.discard(index)
        self.waited, started = 0.0, time.perf_counter()
        try:
            for part in self.parts(index):
                exec(compile("\n" * part.line + part.text, str(self.path), "exec"), self.namespace)
        except (EOFError, BrokenPipeError):     # Ctrl-D at a question, or the end of whatever reads the output
            raise
        except Exception as error:
            self.output.print_headings()
            trace = error.__traceback__.tb_next
            print_error(type(error), error.with_traceback(trace), trace)
            self.failed.add(index)
        self.seconds[index] = time.perf_counter() - started - self.waited
        return index not in self.failed

    def close(self):
        """Called at the end of the lesson, however it ends."""
        helpers.translation = None


class HeadingsFirst:
    """Standard output of a lesson. A heading appears as soon as something is printed below it, and otherwise never."""

    def __init__(self, stream):
        self.stream = stream
        self.waiting = []                       # headings (level, line) without output so far

    def add_heading(self, level, line):
        """A heading replaces those of its own level and below that have had no output."""
        self.waiting = [(above, earlier) for above, earlier in self.waiting if above < level] + [(level, line)]

    def print_headings(self):
        for _, line in self.waiting:
            self.stream.write(f"\n{line}\n")
        self.waiting = []
        self.stream.flush()

    def write(self, text):
        if self.waiting and text:
            self.print_headings()
        return self.stream.write(text)

    def __getattr__(self, name):
        return getattr(self.stream, name)


def print_error(kind, error, trace):
    """Prints an error: one line for a claim that does not hold, and Python's traceback for most others."""
    from ...views import FolderNotWritable  # matplotlib is slow to import; a lesson that can raise this has imported it
    if kind is helpers.BrokenClaim:
        frames = [frame for frame in traceback.extract_tb(trace) if lesson_number(frame.filename)]
        place = [lesson_words("claim.place", file=Path(frames[-1].filename).name, line=frames[-1].lineno)] if frames else []
        print(wrapped(" ".join([f"AssertionError: {error}", *place])), file=sys.stderr)
    elif kind is FolderNotWritable:
        print(error, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
