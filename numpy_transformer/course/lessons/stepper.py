"""Steps through a lesson in a terminal: shows a cell, runs it, and answers keys before it goes on."""

import code
import contextlib
import time

from . import helpers
from .answers import Answers
from .cells import contents, divided, reading_minutes
from .files import lesson_number
from .revisiting import Revisitor
from .stepper_keys import explained, prompt
from .variables import print_page, print_value, print_variables
from .viewer import open_picture
from .words import lesson_words, say
from .wrapping import fill_lines, reflow


class Stepper(Revisitor):
    """Shows and runs cells, and answers keys between them.

    If the reader goes back, the lesson is run again from its start as soon as a variable is needed, not before.
    """

    def __init__(self, path):
        super().__init__(path)
        with contextlib.suppress(ImportError):  # without it, input() has no arrow keys and no history
            import readline  # noqa: F401
        self.pausing = True
        self.answers = Answers(self.translation.answers())
        self.figure = None                      # path of the latest figure
        self.shown = {}                         # {index of a cell: how many of its parts have been shown}
        self.told = False                       # whether the reader has been told about the keys at a question
        helpers.ask, helpers.drawn = self.ask, self.drawn

    def close(self):
        super().close()
        helpers.ask = helpers.drawn = None

    def run_all(self):
        say("run.begin", minutes=reading_minutes(self.cells), cells=len(self.cells))
        following = 0
        while following < len(self.cells):
            self.at = following
            following = self.visit()

    def visit(self):
        """Shows and runs the current cell. Returns the index of the next one."""
        if self.pausing:
            self.show()
        if self.cells[self.at].prose is None:
            if self.latest == self.at:          # seen again after a look back at the text
                self.done = self.at + 1
                if self.pausing:
                    say("cell.has_been_run")
            elif self.restore():
                self.run_current()
            else:                               # a cell that failed on the way is the current one
                self.pausing = True
        elif not self.pausing:
            self.run_straight(self.at)          # only its headings
        while self.pausing:
            following = self.answer(input(prompt(self.at_end, bool(self.answers.texts))).strip())
            if following is not None:
                return following
        return self.at + 1

    def show(self):
        """Prints the current cell, up to its first question if it has not been run."""
        cell, place = self.cells[self.at], {"cell": self.at + 1, "cells": len(self.cells)}
        if cell.prose is not None:
            print(f"\n--- {lesson_words('cell.place', **place)}\n\n{reflow(cell.prose)}")
        else:
            source = cell if self.latest == self.at else divided(cell)[0]
            self.shown[self.at] = 1
            heading = fill_lines(f"--- {lesson_words('cell.titled', title=cell.title, **place)}", "    ")
            print(f"\n{heading}\n\n{source.numbered_source}\n")

    def parts(self, index):
        """Yields the parts of a cell. What follows a question may contain its answer, so it is shown after the question."""
        for n, part in enumerate(divided(self.cells[index])):
            if self.pausing and not helpers.silent and n >= self.shown.get(index, 0):
                print(f"\n{part.numbered_source}\n")
                self.shown[index] = n + 1
            yield part

    def run_current(self):
        """Runs the current cell of code."""
        try:
            if self.pausing:
                self.execute(self.at)
            else:
                self.run_straight(self.at)
        except KeyboardInterrupt:
            print(f"\n{lesson_words('run.interrupted')}")
            self.pausing = True
        if self.at in self.failed:
            self.pausing = True
        self.done = self.at + 1
        self.latest = self.at

    def ask(self, question):
        """Returns the reader's answer, or None once the lesson runs to its end without pauses."""
        if not self.pausing or helpers.silent:
            return None
        if not self.told:
            say("question.about")
            self.told = True
        while True:
            asked = time.perf_counter()
            line = input(question)
            self.waited += time.perf_counter() - asked
            key, _, expression = line.strip().partition(" ")
            if line.strip() == "v":
                self.variables()
            elif key == "p" and expression:
                self.print_value(expression.strip())
            elif line.strip() in ("?", "h", "b"):
                say("question.about")
            elif line.strip() == "q":
                self.quit()
            else:
                return line
            question = f"    {lesson_words('question.yours')}  "

    def drawn(self, path):
        self.figure = path

    @property
    def at_end(self):
        return self.at == len(self.cells) - 1

    def answer(self, line):
        """Answers one line from the reader. Returns the index of the cell to go to, or None to stay."""
        key, _, text = line.partition(" ")
        alone = {"": self.next, "b": self.back, "l": self.contents, "v": self.variables, "o": self.open_figure,
                 "r": self.run_again, "i": self.python, "c": self.to_end, "q": self.quit, "Q": self.quit, "?": self.help,
                 "h": self.help}
        with_text = {"g": self.go_to, "p": self.print_value, "a": self.show_answer, "e": self.explore}
        if key in alone and not text:
            return alone[key]()
        if key in with_text and (text.strip() or key in "ae"):
            return with_text[key](text.strip())
        say("keys.unknown", line=line)
        return None

    def help(self):
        print(explained())

    def next(self):
        return self.at + 1

    def back(self):
        if self.at == 0:
            say("cell.first")
            return None
        return self.at - 1

    def go_to(self, number):
        if not number.isdecimal() or not 1 <= int(number) <= len(self.cells):
            say("cell.unknown", number=number, cells=len(self.cells))
            return None
        self.latest = None                      # the cell is run, even if it has just been
        return int(number) - 1

    def to_end(self):
        self.pausing = False
        return self.at + 1

    def quit(self):
        raise EOFError

    def contents(self):
        print("\n".join(contents(self.cells, self.at)))

    def ready(self):
        """Brings the variables to the current cell, if it is text that was gone back to. Returns False without success."""
        return self.cells[self.at].prose is None or self.restore()

    def run_again(self):
        if self.cells[self.at].prose is not None:
            say("cell.text")
        elif self.done == self.at + 1:
            self.changed = True
            self.rewind_generators()
            self.run_current()
        elif self.restore():                    # after an interruption on the way to this cell
            self.run_current()

    def variables(self):
        if self.ready():
            print_variables(self.namespace)

    def print_value(self, expression):
        if self.ready():
            print_value(expression, self.namespace)

    def explore(self, expression):
        if self.ready():
            print_page(expression, self.namespace, lesson_words("variables.title", number=lesson_number(self.path)),
                       self.calls)

    def python(self):
        if self.ready():
            with contextlib.suppress(SystemExit):           # exit() returns to the lesson
                self.changed = True
                code.interact(fill_lines(lesson_words("variables.python")), local=self.namespace, exitmsg="")

    def open_figure(self):
        if self.figure is None:
            say("figures.none")
        elif not open_picture(self.figure.resolve()):
            say("figures.no_viewer", path=self.figure.resolve())

    def show_answer(self, number):
        if not self.at_end or not self.answers.texts:
            say("answers.at_end")
        else:
            print(self.answers.text(number))
