"""Shows the source of the package's own components in a lesson."""

import ast
import inspect
import sys
import textwrap

from .coloring import END, STRONG, shown, styled_source
from .wrapping import fold


def show_source(*objects):
    """Prints the source of functions, methods and classes without their docstrings, each below its name."""
    for shown_object in objects:
        name = getattr(shown_object, "__qualname__", "")
        source = styled_source(source_without_docstrings(shown_object))
        lines = [fold(line, "      ") if sys.stdout.isatty() else f"      {line}" for line in source.splitlines()]
        print(shown("\n".join([f"  {STRONG}{name}{END}", *(line.rstrip() for line in lines), ""])))


def source_without_docstrings(code):
    """Returns the source of a function, method or class, from which the docstrings are cut."""
    source = textwrap.dedent(inspect.getsource(code))
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            first, last = node.body[0].lineno, node.body[0].end_lineno
            blank = last < len(lines) and not lines[last].strip() and isinstance(node, ast.FunctionDef)
            for n in range(first - 1, last + blank):
                lines[n] = None
    return "\n".join(line for line in lines if line is not None) + "\n"
