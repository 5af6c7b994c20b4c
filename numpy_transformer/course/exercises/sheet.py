"""The file that a student starts with: code without its words, in which the words of a language are put.

A task is text in paragraphs. A line of it that begins with "| " stays a line of its own, such as the line of an argument.
"""

import ast
import inspect
import re
import textwrap

from ...texts import texts_of
from ...texts.width import wrap
from ..sandbox.inside.worker import HELPERS

WIDTH = 120
LINE, HANGING = "| ", "    "
COMMENT = re.compile(r"# \{(\w+)\}")


def skeleton(exercise):
    """Returns the file that a student starts with."""
    words = texts_of("exercises")["sheet"]
    about = words["one_line" if exercise.lines == 1 else "lines"].format(lines=exercise.lines, minutes=exercise.minutes)
    if exercise.keeps_float32:
        about += f" {words['float32']}"
    head = words["head"].format(number=exercise.number, title=exercise.title, about=about, lesson=exercise.lesson)
    return "\n".join(docstring(head, "")) + f"\n\n{exercise.header}{with_todo(exercise.text, exercise.write)}"


def imports(exercise):
    """Returns the lines that import what other exercises ask for, and a comment on them; "" if there are none."""
    if not exercise.imported:
        return ""
    names = [part.__name__ for part in exercise.imported]
    calls = ", ".join(f"{part.__name__}{inspect.signature(part)}" for part in exercise.imported)
    comment = texts_of("exercises")["sheet"]["imported"].format(calls=calls, name=names[0])
    return "\n".join(["", *wrap(comment, WIDTH, "# ", "# "), f"from {HELPERS} import {', '.join(names)}", ""])


def documented(code, texts, key):
    """Returns code with its words: the docstrings and comments that `texts` has for it.

    Parameters:
        code : the source of one function or class
        texts : {key: text}
        key : of the docstring of the function or class, such as "task"; then that of a method f is "task.f", and that
            of a comment `# {name}` is "task.name"
    """
    tree, lines = ast.parse(code).body[0], code.splitlines()
    parts = [(f"{key}.{part.name}", part) for part in tree.body if isinstance(part, ast.FunctionDef)]
    for name, part in reversed([(key, tree), *parts]):
        if name in texts:
            has_own = ast.get_docstring(part) is not None
            start = first_line(part, lines)
            space = [""] if isinstance(part, ast.ClassDef) and not has_own else []
            lines[start:part.body[0].end_lineno if has_own else start] = [
                *docstring(texts[name], " " * (part.col_offset + 4)), *space]
    return COMMENT.sub(lambda found: f"# {texts[f'{key}.{found[1]}']}", "\n".join(lines) + "\n")


def docstring(text, indent):
    """Returns the lines of a docstring in a file, wrapped and indented."""
    first, *others = text.removeprefix(LINE).split("\n\n")
    lines = wrapped(f'"""{first}', indent)
    for paragraph in others:
        lines += ["", *wrapped(paragraph, indent)]
    if len(lines) == 1 and len(lines[0]) + 3 <= WIDTH:
        return [f'{lines[0]}"""']
    return [*lines, f'{indent}"""']


def wrapped(paragraph, indent):
    """Returns the lines of a paragraph, which may have lines of its own."""
    return [line for own in paragraph.split("\n") for line in wrap(
        own.removeprefix(LINE), WIDTH, indent, indent + HANGING * own.startswith(LINE), break_long_words=False)]


def with_todo(source, methods):
    """Returns the source with a TODO in place of the body of the function, or of these methods of the class."""
    tree, lines = ast.parse(source).body[0], source.splitlines()
    functions = [item for item in tree.body if isinstance(item, ast.FunctionDef) and item.name in methods] or [tree]
    words = texts_of("exercises")["sheet"]
    for function in reversed(functions):
        first = function.body[ast.get_docstring(function) is not None]
        takes = [argument for argument in function.args.args if argument.arg != "self"]
        todo = f"# TODO: {words['todo_arguments' if takes else 'todo']}\nraise NotImplementedError"
        lines[first_line(function, lines, first):function.end_lineno] = textwrap.indent(
            todo, " " * first.col_offset).splitlines()
    return "\n".join(lines) + "\n"


def first_line(part, lines, first=None):
    """Returns the index of the first line of a body, or of this statement in it, with the comments above it."""
    start = (first or part.body[0]).lineno - 1
    while lines[start - 1].strip().startswith("#"):     # comments above the first line belong to it
        start -= 1
    return start
