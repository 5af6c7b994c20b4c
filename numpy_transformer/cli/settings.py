"""Sizes and rates of a training run: from the command line, a named configuration, or the run that is resumed."""

import argparse
import math
from dataclasses import dataclass
from typing import Any

from .parser import number, whole_number


@dataclass(frozen=True)
class Setting:
    """One option of `train`, stored in the run."""

    name: str
    default: Any
    help: str
    kind: Any = None                            # a type for argparse, a tuple of choices, list (of paths) or bool

    @property
    def option(self):
        return "--" + self.name.replace("_", "-")


def count(name, default, help, least=1):
    return Setting(name, default, help, whole_number(least))


def rate(name, default, help, below=math.inf):
    return Setting(name, default, help, number(0, below))


def choice(name, default, help, *choices):
    return Setting(name, default, help, choices)


def paths(name, help):
    return Setting(name, None, help, list)


def switch(name, default, help):
    return Setting(name, default, help, bool)


def add_settings(parser, title, settings, presets):
    """Options without argparse defaults, so that one can tell what was given; the help shows what holds otherwise."""
    group = parser.add_argument_group(title)
    for setting in settings:
        others = "; ".join(f"{name}: {preset[setting.name]}" for name, preset in presets.items()
                           if preset.get(setting.name, setting.default) != setting.default)
        text = "; ".join(filter(None, [None if setting.default is None else f"default: {setting.default}", others]))
        options = {"help": setting.help + (f" ({text})" if text else ""), "dest": setting.name}
        if setting.kind is bool:
            options["action"] = argparse.BooleanOptionalAction
        elif isinstance(setting.kind, tuple):
            options["choices"] = setting.kind
        elif setting.kind is list:
            options |= {"nargs": "+", "metavar": "PATH"}
        else:
            options |= {"type": setting.kind, "metavar": "N" if setting.kind is not str else
                        "NAME" if setting.name.endswith("_column") else "FILE"}
        group.add_argument(setting.option, **options)


def given_settings(arguments, settings):
    """{name: value} of the settings that stand on the command line."""
    values = {setting.name: getattr(arguments, setting.name) for setting in settings}
    return {name: value for name, value in values.items() if value is not None}


def resumed_settings(saved, given, may_change):
    """The settings of a saved run, with changes. Raises ValueError for a change of what the run is made of."""
    for name, value in given.items():
        if name not in may_change and value != saved[name]:
            raise ValueError(f"--{name.replace('_', '-')} is {saved[name]} in the run that is resumed, not {value}; "
                             "leave it out, or begin another run under another --out")
    return saved | given
