"""Runs the cells of a lesson in any order: each finds the variables as they are at that point of the lesson."""

import contextlib
import io
import sys

import numpy as np

from . import helpers
from .explore import LatestCalls
from .steps import Runner
from .words import lesson_words, say
from .wrapping import fill_lines


class Revisitor(Runner):
    """Runs cells so that the variables are those of a straight run.

    The namespace holds the variables as they are before cell `done`, if one counts from 0. The current cell may be an
    earlier one: then the lesson is run from its start to that cell.
    """

    def __init__(self, path):
        super().__init__(path)
        # Python's own exit and quit close standard input, and so the terminal.
        self.namespace.update({"exit": raise_exit, "quit": raise_exit})
        self.at_start = dict(self.namespace)
        self.calls = LatestCalls()
        self.done = 0                           # None after an interruption: unknown
        self.latest = None                      # index of the cell that ran last, if its output was shown
        self.changed = False                    # whether the reader may have changed variables
        self.before = {}                        # states of the random generators before the current cell

    def same(self, one, other):
        """Returns True if the variables are the same before two cells, because between them there is only text."""
        return all(cell.prose is not None for cell in self.cells[min(one, other):max(one, other)])

    def execute(self, index):
        self.before = {name: value.bit_generator.state for name, value in self.namespace.items()
                       if isinstance(value, np.random.Generator)}
        with self.calls:
            return super().execute(index)

    def rewind_generators(self):
        """Lets the random generators draw the same numbers again as in the current cell's latest run."""
        for name, state in self.before.items():
            if isinstance(self.namespace.get(name), np.random.Generator):
                self.namespace[name].bit_generator.state = state

    def restore(self):
        """Brings the variables to where they are before the current cell. Returns False if that was not possible.

        Going forward, the cells between are run; going back, the lesson is run again from its start, because cells
        change arrays, models and random generators. An error or Ctrl-C on the way makes that cell the current one.
        """
        wanted = self.at
        if self.done is not None and self.same(self.done, wanted):
            self.done = wanted
            return True
        self.latest = None
        first = self.done
        if first is None or first > wanted:
            first = 0
            self.namespace.clear()
            self.namespace.update(self.at_start)
            self.calls = LatestCalls()
        print(fill_lines(f"  {self.describe_restoring(first, wanted)}", "    "), flush=True)
        if first == 0:
            self.changed = False
        for self.at in range(first, wanted):
            if not self.run_silently():
                return False
        self.at = self.done = wanted
        return True

    def describe_restoring(self, first, wanted):
        """Returns a sentence about the cells from `first` to before `wanted`, which bring the variables to `wanted`."""
        again = first == 0 and self.seconds     # False if no cell has run yet
        gone = lesson_words("restore.changes_gone") if self.changed else ""
        if self.same(first, wanted):
            return lesson_words("restore.at_start") + gone
        count = "many" if wanted - first > 1 else "one"
        sentence = lesson_words(f"restore.{count}_{'again' if again else 'first'}", first=first + 1, last=wanted)
        seconds = sum(self.seconds.get(n, 0) for n in range(first, wanted))
        if seconds >= 1:
            sentence += f" {lesson_words('restore.seconds', seconds=seconds)}"
        return sentence + lesson_words("restore.variables", cell=wanted + 1) + gone if again else sentence

    def run_silently(self):
        """Runs the current cell without its output and questions. Returns False after an error or Ctrl-C."""
        helpers.silent = True
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
                completed = self.execute(self.at)
            self.done = self.at + 1
        except KeyboardInterrupt:
            self.done, completed = None, False
        finally:
            helpers.silent = False
        if not completed:
            print(errors.getvalue(), end="", file=sys.stderr)
            say("restore.interrupted" if self.done is None else "restore.failed", cell=self.at + 1)
        return completed


def raise_exit(code=None):
    raise SystemExit(code)
