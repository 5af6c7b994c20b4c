"""A Transformer in NumPy: every component has a forward and a hand-written backward."""

import importlib

from .checks import gradcheck
from .decoding import *
from .inspection import influence, record
from .layers import *
from .models import *
from .module import Module, Parameter
from .training import *

__version__ = "0.1.0"


def __getattr__(name):
    """Imports the zoo and the explorer on first use, because they take a good part of the time of importing the package."""
    if name == "zoo":
        return importlib.import_module(".zoo", __name__)
    if name == "explore":
        return importlib.import_module(".explorer", __name__).explore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
