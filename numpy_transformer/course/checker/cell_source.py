"""The text of a function or class of a notebook, with all that it needs, as a file that runs by itself."""

import ast
import linecache
import re
import sys
import types
from dataclasses import replace

from ...texts import changed
from ..sandbox import run_task
from .in_process import names_around
from .localize import localize

PACKAGE = __name__.split(".")[0]                # which exercises cannot import
PLAIN = bool, int, float, str, type(None)       # values that a file can hold


class NotStandalone(Exception):
    """Raised for a function that cannot be written to a file, such as a lambda or one that uses an array of a cell."""


def localize_in_cell(answer_key, verdict, run, answer, file):
    """Does what `localize` does for a file, if the text of the answer can be run by itself in a process of its own."""
    try:
        text, shift = as_file(answer, answer_key.exercise, file)
    except NotStandalone:
        return verdict
    name = answer_key.exercise.file
    file_verdict = localize(answer_key, verdict, run, name, lambda task: run_task(text.encode(), task))
    added = [changed(said, lambda name, value: value + shift if name == "line" else value)      # to the cell's lines
             for said in file_verdict.lines[len(verdict.lines):]]
    return replace(verdict, lines=(*verdict.lines, *added))


def as_file(answer, exercise, file):
    """Returns the text of a file for the exercise, and what to add to its line numbers to get those of the cell."""
    node, lines = definition(answer, file)
    needed = Needed(names_around(answer), exercise)
    needed.add_names_of(node)
    start = first_line(node)
    own = lines[start - 1:node.end_lineno]
    at = node.lineno - start
    own[at] = re.sub(rf"\b{node.name}\b", exercise.name, own[at], count=1)
    before = "\n".join([exercise.header, *needed.parts])
    after = "" if node.name == exercise.name else f"\n{node.name} = {exercise.name}\n"
    return f"exec({before!r})\n{''.join(own)}{after}", start - 2


def definition(answer, file):
    """Returns the syntax tree of a definition at the top level of a file or cell, and the lines of all of it."""
    lines = linecache.getlines(file) if file else []
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError as error:
        raise NotStandalone from error
    code = code_of(answer)
    for node in tree.body:
        is_its = isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == answer.__name__
        if is_its and first_line(node) <= code.co_firstlineno <= node.end_lineno:
            return node, lines
    raise NotStandalone


def first_line(node):
    """Returns the line where a definition begins, with its decorators."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


class Needed:
    """What a definition uses from the other cells, as lines of source.

    Parameters:
        names : {name: value} of the notebook
        exercise : Exercise, whose file defines some names itself
    """

    def __init__(self, names, exercise):
        self.names, self.exercise = names, exercise
        self.parts, self.seen = [], set()

    def add_names_of(self, node):
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in self.names and part.id not in self.seen:
                self.seen.add(part.id)
                if part.id != node.name:
                    self.add(part.id, self.names[part.id])

    def add(self, name, value):
        """Adds a line that defines the name. Raises: NotStandalone if there is none."""
        module = getattr(value, "__module__", None) or ""
        if isinstance(value, types.ModuleType) and value.__name__.split(".")[0] == PACKAGE:
            same = ", ".join(f"{key}={key}" for key in self.exercise.header_names if hasattr(value, key))
            self.parts.append(f"{name} = __import__('types').SimpleNamespace({same})")      # nt.Parameter, for instance
        elif isinstance(value, types.ModuleType):
            self.parts.append(f"import {value.__name__} as {name}")
        elif isinstance(value, PLAIN):
            self.parts.append(f"{name} = {value!r}")
        elif module.split(".")[0] == PACKAGE and name in self.exercise.header_names:
            return                              # the same thing stands in the exercise's file
        elif module == self.names.get("__name__") and hasattr(value, "__name__"):
            node, _ = definition(value, file_of(value))
            self.add_names_of(node)
            self.parts.append(ast.unparse(node) + (f"\n{name} = {node.name}" if name != node.name else ""))
        elif getattr(sys.modules.get(module), getattr(value, "__name__", ""), None) is value:
            self.parts.append(f"from {module} import {value.__name__} as {name}")
        else:
            raise NotStandalone


def file_of(answer):
    """Returns the name of the file or cell that defines a function or class, or None if there is none."""
    return getattr(code_of(answer), "co_filename", None)


def code_of(answer):
    """Returns the code of a function, or that of a class's first method, or None."""
    methods = vars(answer).values() if isinstance(answer, type) else [answer]
    codes = [getattr(getattr(method, "__wrapped__", method), "__code__", None) for method in methods]
    return next((code for code in codes if code is not None), None)
