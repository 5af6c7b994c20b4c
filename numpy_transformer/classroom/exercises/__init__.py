"""The exercises, each with its solution, its cases and its catalogue of mistakes; one file a family."""

import functools
import importlib
import pkgutil


@functools.cache
def exercises():
    """All exercises by number."""
    modules = [importlib.import_module(f"{__name__}.{item.name}") for item in pkgutil.iter_modules(__path__)]
    found = sorted((exercise for module in modules for exercise in module.EXERCISES), key=lambda e: e.number)
    return {exercise.number: exercise for exercise in found}


def choose(number):
    """The exercise of this number. Raises ValueError that tells which there are."""
    known = exercises()
    if number.zfill(2) not in known:
        raise ValueError(f"there is no exercise {number!r}; choose one of {', '.join(known)}")
    return known[number.zfill(2)]
