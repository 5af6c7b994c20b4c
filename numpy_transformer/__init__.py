"""A Transformer in NumPy: every component has a forward and a hand-written backward."""

from . import zoo
from .checks import gradcheck, influence, record
from .decoding import *
from .layers import *
from .models import *
from .module import Module, Parameter
from .training import *

__version__ = "0.1.0"
