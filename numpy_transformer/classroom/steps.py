"""A lesson, cell by cell: straight through, or with a pause at each in a terminal."""

import argparse
import code
import contextlib
import os
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np

from ..module import Module
from . import lesson

KEYS = "[Enter] {}  p EXPR print  v variables  r run again  i Python  c to the end  q quit: "


@dataclass
class Cell:
    """A `# %%` cell: its title, the number of its first line, and its lines."""

    title: str
    line: int
    text: str

    @property
    def prose(self):
        """The text of a markdown cell; None for code."""
        return re.sub(r"^# ?", "", self.text, flags=re.M) if self.title == "[markdown]" else None


def cells(source):
    """The cells of a script; what stands before the first mark is one without a title."""
    lines = source.splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("# %%")] + [len(lines)]
    if any(line.strip() for line in lines[:starts[0]]):
        starts.insert(0, -1)
    return [Cell(lines[n][4:].strip() if n >= 0 else "", n + 1, "\n".join(lines[n + 1:end]).rstrip("\n"))
            for n, end in zip(starts, starts[1:])]


def wanted(arguments):
    """Whether a lesson's arguments ask to step through it, and there is a terminal to ask in."""
    parser = argparse.ArgumentParser(description="A lesson: it prints shapes and checks its own claims.")
    parser.add_argument("--step", action="store_true", help="pause at each cell")
    step = parser.parse_args(arguments).step
    if step and not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        print("no terminal to pause in: the lesson runs straight through", file=sys.stderr)
        return False
    return step


def explain(kind, error, trace):
    """Print what went wrong: a claim that does not hold is one line and its place, most others Python's traceback."""
    if kind is AssertionError and str(error).startswith("claim does not hold"):
        place = [frame for frame in traceback.extract_tb(trace) if lesson.NAME.fullmatch(Path(frame.filename).name)]
        print(f"AssertionError: {error}", *(f"({Path(f.filename).name}, line {f.lineno})" for f in place[-1:]),
              file=sys.stderr)
    elif kind is ValueError and str(error).startswith("pictures cannot be written"):
        print(error, file=sys.stderr)
    elif kind is BrokenPipeError:               # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    else:
        sys.__excepthook__(kind, error, trace)


def through(path, step):
    """Run the lesson, with a pause at each cell if step; its exit code: 1 behind an error, 130 after Ctrl-C."""
    if step:
        with contextlib.suppress(ImportError):
            import readline                     # noqa: F401  input() then knows arrow keys and a history
    every, walk = cells(path.read_text(encoding="utf-8")), Walk(path, step)
    lesson.running, lesson.ask = True, walk.ask if step else None
    try:
        for number, cell in enumerate(every, 1):
            walk.show(cell, f"{number} of {len(every)}")
            walk.run(cell)
            if walk.failed and not step:
                return 1
            walk.pause(cell, "next" if number < len(every) else "end")
    except (EOFError, KeyboardInterrupt) as stop:
        print(f"\nstopped at cell {number} of {len(every)}")
        return 130 if isinstance(stop, KeyboardInterrupt) else int(walk.failed)
    finally:
        lesson.running, lesson.ask = False, None
    return int(walk.failed)


class Walk:
    """Runs cells in one namespace, and answers keys between them."""

    def __init__(self, path, step):
        self.path, self.namespace = path, vars(sys.modules["__main__"])
        self.namespace.update({"exit": leave, "quit": leave})       # of Python; its own would close the terminal
        self.step = self.pausing = step
        self.failed = False

    def ask(self, question):
        """The reader's answer; None where nobody is asked any more."""
        return input(question) if self.pausing else None

    def show(self, cell, place):
        if not self.pausing:                    # only the headings
            headings = [cell.title] * bool(cell.title) if cell.prose is None else re.findall(r"^(?=#).*", cell.prose, re.M)
            print(*(f"\n{heading}" for heading in headings), sep="", flush=True)
            return
        print(f"\n--- cell {place}" + f": {cell.title}" * (cell.prose is None) + "\n")
        if cell.prose is not None:
            print(cell.prose)
        else:                                   # with the numbers of its lines in the file, and without the answers
            source = re.sub(r"^( *predict\(.*\", ).*\)$", r"\1...)", cell.text, flags=re.M)
            print("\n".join(f"{n:4}  {line}" for n, line in enumerate(source.splitlines(), cell.line + 1)), "\n")

    def run(self, cell):
        """Run a cell of code. An error is told, and the keys are asked for again."""
        self.before = {name: value.bit_generator.state for name, value in self.namespace.items()
                       if isinstance(value, np.random.Generator)}
        if cell.prose is not None:
            return
        try:
            exec(compile("\n" * cell.line + cell.text, str(self.path), "exec"), self.namespace)
        except KeyboardInterrupt:
            if not self.step:
                raise
            print("\ninterrupted; r runs the cell again")
            self.pausing = True
        except EOFError:                        # Ctrl-D at a question
            raise
        except Exception as error:
            trace = error.__traceback__.tb_next
            explain(type(error), error.with_traceback(trace), trace)
            self.failed, self.pausing = True, self.step

    def pause(self, cell, enter):
        """Answer keys until one of them goes on. Raises EOFError for q."""
        while self.pausing:
            key = input(KEYS.format(enter)).strip()
            if key == "":
                return
            if key == "c":
                self.pausing = False
            elif key == "q":
                raise EOFError
            elif key[:2] == "p ":
                self.print_value(key[2:])
            elif key == "v":
                for name, value in self.namespace.items():
                    if not name.startswith("_") and not isinstance(value, (ModuleType, FunctionType, type)):
                        print(f"  {name:16} {outline(value)}")
            elif key == "r":
                for name, state in self.before.items():     # the same numbers are drawn again
                    self.namespace[name].bit_generator.state = state
                self.run(cell)
            elif key == "i":
                with contextlib.suppress(SystemExit):
                    code.interact("Python, with the lesson's variables; Ctrl-D leads back", local=self.namespace,
                                  exitmsg="")
            else:
                print(f"  {key!r} is none of these keys; p EXPR prints an expression, i opens Python")

    def print_value(self, expression):
        try:
            value = eval(expression, self.namespace)
            if isinstance(value, np.ndarray):
                lesson.show(**{expression: value})
            elif value is not None:
                print(f"  {value!r}")
        except (Exception, SystemExit) as error:
            print(f"  {type(error).__name__}: {error}")


def leave(code=None):
    raise SystemExit(code)


def outline(value):
    """A line about a variable."""
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    if isinstance(value, Module):
        return f"{type(value).__name__}, {value.num_parameters():,} parameters"
    with contextlib.suppress(Exception):        # a class of the reader's may have no text yet
        return f"{type(value).__name__} {value!s}"[:70].splitlines()[0]
    return type(value).__name__
