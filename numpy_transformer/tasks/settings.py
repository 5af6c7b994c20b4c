"""The settings of a task: sizes, rates and files, each with its default, its limits and one line of help."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One setting of a training run, stored in its checkpoint.

    Parameters:
        name : str, such as "d_model"; on the command line it is the option --d-model
        default : the value that holds if none is given; None where the run decides
        help : str, one line
        type : int, float, bool, str, or list for one or more paths
        choices : tuple of the allowed strings, empty if any is allowed
        least : smallest allowed number
        below : every allowed number is smaller than this one
        metavar : str, what stands for the value in the help
    """

    name: str
    default: Any
    help: str
    type: type = str
    choices: tuple = ()
    least: float = 0
    below: float = math.inf
    metavar: str = "FILE"


def count(name, default, help, least=1):
    return Setting(name, default, help, int, least=least, metavar="N")


def rate(name, default, help, below=math.inf):
    return Setting(name, default, help, float, below=below, metavar="X")


def choice(name, default, help, *choices):
    return Setting(name, default, help, choices=choices)


def paths(name, help):
    return Setting(name, None, help, list, metavar="PATH")


def switch(name, default, help):
    return Setting(name, default, help, bool)


def option(name):
    """The command-line option of a setting: "d_model" is --d-model."""
    return "--" + name.replace("_", "-")
