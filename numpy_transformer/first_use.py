"""Opens a room when one of its names is used for the first time, because importing all rooms at once takes longer."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def opens_on_first_use(face: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a room's face, for names that the face does not import (PEP 562).

    Parameters:
        face : str, `__name__` of the room
        places : {name: module below the face that has it, or is it}, such as {"Trainer": "trainer", "zoo": "zoo"}
    """
    def __getattr__(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        module = importlib.import_module(f"{face}.{places[name]}")
        value = module if places[name].split(".")[-1] == name else getattr(module, name)
        setattr(sys.modules[face], name, value)             # from now on the name is an ordinary one
        return value
    return __getattr__
