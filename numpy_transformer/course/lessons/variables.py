"""The keys v, p and e of a lesson with --step, which show its variables."""

import contextlib
import io
from types import FunctionType, ModuleType

import numpy as np

from ...module import Module
from ...texts.width import fitting
from . import explore, helpers
from .words import lesson_words, say
from .wrapping import fill_lines, terminal_width


def print_variables(namespace):
    """Prints one line about each variable that is not a module, function or class."""
    shown = {name: value for name, value in namespace.items()
             if not name.startswith("_") and not isinstance(value, (ModuleType, FunctionType, type))}
    for name, value in shown.items():
        print(fitting(f"  {name:16} {describe_variable(value)}", terminal_width()))
    if not shown:
        say("variables.none")


def describe_variable(value):
    """Returns one line about a variable."""
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    if isinstance(value, Module):
        return lesson_words("variables.module", name=type(value).__name__, count=value.num_parameters())
    with contextlib.suppress(Exception):        # a class that the reader is writing may fail in __str__
        return f"{type(value).__name__} {value!s}"[:70].splitlines()[0]
    return type(value).__name__


def print_value(expression, namespace):
    """Prints the value of an expression, or the error that it raises."""
    with errors_printed():
        value = eval(expression, namespace)
        if isinstance(value, np.ndarray):
            helpers.show(**{expression: value})
        elif value is not None:
            print(f"  {value!r}")


def print_page(expression, namespace, title, calls):
    """Opens a page of the explorer and prints its path.

    Parameters:
        expression : str; names the module whose latest call is shown, or "" for the arrays among the variables
        namespace : dict of the variables
        title : str; title of the page of arrays
        calls : LatestCalls
    """
    with errors_printed():
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if expression:
                path = explore.open_module(eval(expression, namespace), expression, calls)
            else:
                path = explore.open_variables(namespace, title)
        named = str(path) in printed.getvalue()             # where no browser was found
        for line in printed.getvalue().splitlines() if named else [lesson_words("variables.page", path=path)]:
            print(fill_lines(f"  {line}", "    "))


@contextlib.contextmanager
def errors_printed():
    """Prints an error of an expression that the reader typed, instead of raising it."""
    try:
        yield
    except (Exception, SystemExit) as error:
        print(fill_lines(f"  {type(error).__name__}: {error}", "    "))
