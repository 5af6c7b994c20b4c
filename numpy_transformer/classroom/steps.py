"""Runs a lesson cell by cell, either straight through or with a pause at each cell in a terminal."""

import argparse
import ast
import code
import contextlib
import os
import re
import sys
import textwrap
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np

from ..module import Module
from . import explore, helpers
from .answers import closing_answers
from .helpers import terminal_width
from .lesson_files import lesson_number

KEYS = ("[Enter] {}", "p EXPR print", "v variables", "e explore", "r run again", "i Python", "c run to end", "q quit: ")
VERBATIM = re.compile(r"#|\||```|    ")         # lines of prose that are never wrapped: headings, tables and code
ITEM = re.compile(r"(?:[-*]|\d+\.) +")           # the start of a list item


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

    @property
    def headings(self):
        """The headings of a markdown cell, or the title of a code cell."""
        if self.prose is not None:
            return re.findall(r"^(?=#).*", self.prose, re.M)
        return [self.title] if self.title else []

    @property
    def numbered_source(self):
        """The source with line numbers of the file, without the answers to the questions."""
        lines = dict(enumerate(self.text.splitlines(), 1))
        for first, start, last, end in hidden_answers(self.text):
            kept = lines[first].encode()[:start].decode()
            rest = lines[last].encode()[end:].decode()
            for n in range(first + 1, last + 1):
                del lines[n]
            lines[first] = f"{kept}...){rest}"
        return "\n".join(f"{self.line + n:4}  {line}" for n, line in lines.items())


def cells(source):
    """Returns the cells of a script. Any text before the first mark is a cell without a title."""
    lines = source.splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("# %%")] + [len(lines)]
    if any(line.strip() for line in lines[:starts[0]]):
        starts.insert(0, -1)
    return [Cell(lines[n][4:].strip() if n >= 0 else "", n + 1, "\n".join(lines[n + 1:end]).rstrip("\n"))
            for n, end in zip(starts, starts[1:])]


def hidden_answers(source):
    """Returns, from the last to the first, where the answers of `predict(question, answer, why)` stand in a cell.

    Each is a tuple of the line and byte where the answer starts, and the line and byte after the closing parenthesis.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:                         # shown as it is; running it reports the error
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "predict":
            hidden = [*node.args[1:], *node.keywords]
            if hidden:
                start = min((part.lineno, part.col_offset) for part in hidden)
                found.append((*start, node.end_lineno, node.end_col_offset))
    return sorted(found, reverse=True)


def parse_arguments(arguments):
    """Returns True if a lesson's arguments ask for --step and there is a terminal for it."""
    parser = argparse.ArgumentParser(description="Run this lesson. It prints shapes, draws figures and checks its own "
                                                 "claims.")
    parser.add_argument("--step", action="store_true",
                        help="pause at each cell: read it, inspect variables, answer its questions")
    step = parser.parse_args(arguments).step
    if step and not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        print("--step needs a terminal; the lesson runs straight through", file=sys.stderr)
        return False
    return step


def print_error(kind, error, trace):
    """Prints an error: one line for a claim that does not hold, and Python's traceback for most others."""
    if kind is AssertionError and str(error).startswith("claim does not hold"):
        frames = [frame for frame in traceback.extract_tb(trace) if lesson_number(frame.filename)]
        place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
        print(f"AssertionError: {error}{place}", file=sys.stderr)
    elif kind is ValueError and str(error).startswith("pictures cannot be written"):
        print(error, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def run_lesson(path, step):
    """Runs a lesson and returns its exit code: 0, 1 after an error, or 130 after Ctrl-C.

    Parameters:
        path : path of the lesson's script
        step : if True, pauses at each cell and answers keys
    """
    if step:
        with contextlib.suppress(ImportError):  # without it, input() has no arrow keys and no history
            import readline                     # noqa: F401
    every, runner = cells(path.read_text(encoding="utf-8")), Runner(path, step)
    helpers.ask = runner.ask if step else None
    try:
        for number, cell in enumerate(every, 1):
            runner.show(cell, f"{number} of {len(every)}")
            runner.run(cell)
            if runner.failed and not step:
                return 1
            if number == len(every):
                runner.answers = closing_answers(path)
            runner.pause(cell, "next" if number < len(every) else "end")
        sys.stdout.flush()
        return int(runner.failed)
    except (EOFError, KeyboardInterrupt) as stop:
        print(f"\nstopped at cell {number} of {len(every)}")
        return 130 if isinstance(stop, KeyboardInterrupt) else int(runner.failed)
    except BrokenPipeError:                     # whatever read the output has ended, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    finally:
        helpers.ask = None


class Runner:
    """Runs cells in one namespace, and answers keys between them."""

    def __init__(self, path, step):
        self.path, self.namespace = path, vars(sys.modules["__main__"])
        # Python's own exit and quit close standard input, and so the terminal.
        self.namespace.update({"exit": raise_exit, "quit": raise_exit})
        self.step = self.pausing = step
        self.calls = explore.LatestCalls() if step else contextlib.nullcontext()
        self.failed = False
        self.answers = {}                       # of the closing questions, at the last cell
        self.unfolded = 0                       # number of the answer that was shown last

    def ask(self, question):
        """Returns the reader's answer, or None once the lesson runs to its end without pauses."""
        return input(question) if self.pausing else None

    def show(self, cell, place):
        """Prints a cell before it is run; only its headings if there are no pauses."""
        if not self.pausing:
            print(*(f"\n{heading}" for heading in cell.headings), sep="", flush=True)
        elif cell.prose is not None:
            print(f"\n--- cell {place}\n")
            print(reflow(cell.prose))
        else:
            print(f"\n--- cell {place}: {cell.title}\n")
            print(cell.numbered_source, "\n")

    def run(self, cell):
        """Runs a cell of code. After an error, prints it and lets the reader inspect variables."""
        self.before = {name: value.bit_generator.state for name, value in self.namespace.items()
                       if isinstance(value, np.random.Generator)}
        if cell.prose is not None:
            return
        try:
            with self.calls:
                exec(compile("\n" * cell.line + cell.text, str(self.path), "exec"), self.namespace)
        except KeyboardInterrupt:
            if not self.step:
                raise
            print("\ninterrupted; r runs the cell again")
            self.pausing = True
        except (EOFError, BrokenPipeError):     # Ctrl-D at a question, or the end of whatever reads the output
            raise
        except Exception as error:
            trace = error.__traceback__.tb_next
            print_error(type(error), error.with_traceback(trace), trace)
            self.failed, self.pausing = True, self.step

    def pause(self, cell, enter):
        """Answers keys until one of them continues. Raises EOFError for q."""
        while self.pausing:
            key = input(prompt(enter, bool(self.answers))).strip()
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
                        print(f"  {name:16} {describe_variable(value)}")
            elif key == "e" or key[:2] == "e ":
                self.explore(key[2:].strip())
            elif key == "a" or key[:2] == "a ":
                self.show_answer(key[2:].strip())
            elif key == "r":
                for name, state in self.before.items():     # so that the same numbers are drawn again
                    self.namespace[name].bit_generator.state = state
                self.run(cell)
            elif key == "i":
                with contextlib.suppress(SystemExit):       # exit() returns to the lesson
                    code.interact("Python with the lesson's variables; Ctrl-D returns to the lesson",
                                  local=self.namespace, exitmsg="")
            else:
                print(f"  {key!r} is not one of these keys; p EXPR prints an expression, e opens the arrays in the "
                      "explorer, e NAME a module, i opens Python")

    def explore(self, expression):
        """Opens the lesson's arrays in the explorer, or the latest call of the module that the expression names."""
        try:
            if expression:
                path = explore.open_module(eval(expression, self.namespace), expression, self.calls)
            else:
                path = explore.open_variables(self.namespace, f"Lesson {lesson_number(self.path)}")
            print(f"  The page is {path}")
        except (Exception, SystemExit) as error:            # of the expression that the reader typed, or of its module
            print(f"  {type(error).__name__}: {error}")

    def show_answer(self, number):
        """Prints one answer to the closing questions: the one with this number, or else the next one."""
        if not self.answers:
            print("  the answers to the closing questions are shown at the last cell, if the lesson has any")
            return
        later = [n for n in self.answers if n > self.unfolded]
        if not number and not later:
            print("  these were all answers; a 1 shows the first one again")
            return
        number = number or str(min(later))
        if not number.isdecimal() or int(number) not in self.answers:
            print(f"  there is no answer {number!r}; choose one of {', '.join(map(str, self.answers))}, such as a "
                  f"{min(self.answers)}")
            return
        self.unfolded = int(number)
        print(f"\n{reflow(f'{number}. {self.answers[self.unfolded]}')}\n")

    def print_value(self, expression):
        try:
            value = eval(expression, self.namespace)
            if isinstance(value, np.ndarray):
                helpers.show(**{expression: value})
            elif value is not None:
                print(f"  {value!r}")
        except (Exception, SystemExit) as error:            # of the expression that the reader typed
            print(f"  {type(error).__name__}: {error}")


def raise_exit(code=None):
    raise SystemExit(code)


def prompt(enter, answers=False):
    """Returns the keys on as few lines as fit the terminal; among them is `a` if there are answers to unfold."""
    lines, keys = [""], [key.format(enter) for key in KEYS]
    if answers:
        keys.insert(1, "a answers")
    for key in keys:
        if lines[-1] and len(lines[-1]) + 2 + len(key) >= terminal_width():
            lines.append("")
        lines[-1] += f"  {key}" if lines[-1] else key
    return "\n".join(lines)


def reflow(prose):
    """Returns the text of a markdown cell with its paragraphs and list items wrapped to the terminal's width."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", prose):
        if not any(map(VERBATIM.match, paragraph.splitlines())):
            items = re.split(f"^(?={ITEM.pattern})", paragraph, flags=re.M)
            paragraph = "\n".join(wrap_item(item) for item in items if item.strip())
        paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


def wrap_item(text):
    """Wraps a paragraph or list item; the lines of an item align after its bullet or number."""
    item = ITEM.match(text)
    lines = " ".join(line.strip() for line in text.splitlines())
    return textwrap.fill(lines, terminal_width(), subsequent_indent=" " * (item.end() if item else 0),
                         break_long_words=False, break_on_hyphens=False)


def describe_variable(value):
    """Returns one line about a variable."""
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    if isinstance(value, Module):
        return f"{type(value).__name__}, {value.num_parameters():,} parameters"
    with contextlib.suppress(Exception):        # a class that the reader is writing may fail in __str__
        return f"{type(value).__name__} {value!s}"[:70].splitlines()[0]
    return type(value).__name__
