"""The exercises, each with its solution, its cases and its catalogue of mistakes; one file a family."""

import functools
import importlib
import pkgutil
import re


@functools.cache
def exercises():
    """All exercises by number."""
    modules = [importlib.import_module(f"{__name__}.{item.name}") for item in pkgutil.iter_modules(__path__)]
    found = sorted((exercise for module in modules for exercise in module.EXERCISES), key=lambda e: e.number)
    return {exercise.number: exercise for exercise in found}


def choose(number):
    """The exercise of this number, such as "2", "02", "ex02" or the name of its file. Raises ValueError."""
    known, found = exercises(), re.fullmatch(r"(?:.*[/\\])?(?:ex)?(\d+)(?:_\w+)?(?:\.py)?", number)
    if not found or found[1].zfill(2) not in known:
        raise ValueError(f"there is no exercise {number!r}; numpy-transformer exercise list shows them all, 01 to "
                         f"{list(known)[-1]}")
    return known[found[1].zfill(2)]
