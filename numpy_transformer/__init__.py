"""A Transformer in NumPy: every component has a forward and a hand-written backward."""

import importlib

from .checks import gradcheck
from .decoding import *
from .inspection import influence, record
from .layers import *
from .models import *
from .module import Module, Parameter
from .pretrained import load_pretrained, save_pretrained
from .training import *

__version__ = "0.1.0"


def __getattr__(name):
    """Imports the zoo, the explorer and the exercises on first use, because importing the package would take longer."""
    if name == "zoo":
        return importlib.import_module(".zoo", __name__)
    if name == "explore":
        return importlib.import_module(".explorer", __name__).explore
    if name == "exercise":
        return importlib.import_module(".course.exercise", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
