"""Checks of what files say, which may come from strangers: forms of JSON, room for what is built, and words to be shown.

A file's size bounds what reading it may cost. Whatever a header or a configuration announces is compared with the bytes
that are there before memory is taken for it: arrays in `room_for`, and the parameters of a model in `parameter.unfilled`.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import Any

MOST_AXES = 32                                  # of an array: the fewest that all versions of NumPy allow
LONGEST_NAME = 400                              # characters of an array's name
MALFORMED = KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError


def printable(text: str) -> str:
    """Replaces control characters, lone surrogates and characters that change the writing direction by spaces."""
    if text.isprintable():                      # nearly always, and much quicker
        return text
    return "".join(c if c.isprintable() else " " for c in text)


def one_line(text: object, most: int = 400) -> str:
    """Returns at most `most` characters of a text, such as an error, as one printable line with single spaces."""
    words = " ".join(printable(str(text)[:4 * most]).split())
    return words if len(words) <= most else f"{words[:most - 4]} ..."


def quoted(value: object, most: int = 100) -> str:
    """Returns a value from a file as Python writes it, in at most `most` characters."""
    return one_line(repr(value), most)


def shown(names: Iterable[object], most: int = 3) -> str:
    """Returns the first names or numbers, separated by commas, and how many more there are."""
    listed = list(names)
    more = f", and {len(listed) - most:,} more" if len(listed) > most else ""
    return ", ".join(one_line(name, 100) for name in listed[:most]) + more


def shown_shape(shape: Any) -> str:
    """Returns a shape as Python writes it; the first axes alone if it has more than an array can have."""
    return f"({shown(shape, 8)}{',' if len(shape) == 1 else ''})"


@contextlib.contextmanager
def as_damaged(path: object, remedy: str) -> Iterator[None]:
    """Turns the errors that malformed content raises into a ValueError that names the file and says what to do."""
    try:
        yield
    except MALFORMED as error:
        raise ValueError(f"{str(path)!r} is damaged ({reason_of(error)}); {remedy}") from error


def reason_of(error: BaseException) -> str:
    """Returns why malformed content could not be read, as one line."""
    return one_line(f"there is no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__)


def check_form(value: Any, form: Any, what: str) -> None:
    """Raises ValueError unless a value from a file has a form.

    Parameters:
        value : what json.loads has returned
        form : a class; a tuple of forms, one of which is enough; [form], a list of such values; {str: form}, a dict of
            such values; or {"key": form, ...}, a dict that has these keys, and others. A float may be an int; a key that
            ends in "?" may be missing
        what : what a message calls the value
    """
    if isinstance(form, tuple):
        if not any(has_form(value, one) for one in form):
            raise ValueError(f"{what} is {quoted(value, 60)}")
    elif isinstance(form, list):
        check_form(value, list, what)
        for n, item in enumerate(value):
            check_form(item, form[0], f"{what}[{n}]")
    elif isinstance(form, dict):
        check_form(value, dict, what)
        check_items(value, form, what)
    elif not is_of_class(value, form):
        raise ValueError(f"{what} is {quoted(value, 60)}, not {article(form)}")


def check_items(value: dict, form: dict, what: str) -> None:
    """Raises ValueError unless the values of a dict have the forms that check_form describes."""
    forms = form.items() if str not in form else [(key, form[str]) for key in value]
    for key, wanted in forms:
        name = key.removesuffix("?")
        if name in value:
            check_form(value[name], wanted, f"{what}[{quoted(name, 60)}]")
        elif name == key:
            raise ValueError(f"{what} has no {name!r}")


def has_form(value: Any, form: Any) -> bool:
    try:
        check_form(value, form, "")
    except ValueError:
        return False
    return True


def is_of_class(value: Any, kind: type) -> bool:
    """Returns True for a value of this class; numbers are finite, and a bool is no number."""
    if kind in (int, float) and isinstance(value, bool):
        return False
    if kind is float:
        return isinstance(value, int) and abs(value) < 2 ** 1000 or isinstance(value, float) and math.isfinite(value)
    return isinstance(value, kind)


def article(kind: type) -> str:
    names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list",
             dict: "an object", type(None): "null", object: "a value"}
    return names[kind]


def check_name(name: str) -> None:
    """Raises ValueError for an array's name that could not be shown as it is."""
    if not name.isprintable() or len(name) > LONGEST_NAME:
        raise ValueError(f"an array is called {one_line(ascii(name), 60)}, but a name has at most {LONGEST_NAME} "
                         "printable characters")


def count_of(name: str, shape: Any) -> int:
    """Returns how many numbers an array of this shape has. Raises ValueError for what is no shape."""
    if len(shape) > MOST_AXES:
        raise ValueError(f"{name} has {len(shape):,} axes, but an array has at most {MOST_AXES}")
    if any(type(length) is not int or not 0 <= length < 2 ** 62 for length in shape):
        raise ValueError(f"{name} has the shape {shown_shape(shape)}")
    return math.prod(shape)
