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
    kind: Any = None                            # a type for argparse, a tuple of choices, or bool

    @property
    def option(self):
        return "--" + self.name.replace("_", "-")


def count(name, default, help, least=1):
    return Setting(name, default, help, whole_number(least))


def rate(name, default, help, below=math.inf):
    return Setting(name, default, help, number(0, below))


def choice(name, default, help, *choices):
    return Setting(name, default, help, choices)


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
        else:
            options |= {"type": setting.kind, "metavar": "FILE" if setting.kind is str else "N"}
        group.add_argument(setting.option, **options)


def resolve(arguments, settings, defaults, saved=None, may_change=()):
    """The value of every setting: what was given, else the resumed run's, else the default.

    Raises ValueError if a resumed run was begun with another value of what may not change.
    """
    given = {setting.name: getattr(arguments, setting.name) for setting in settings
             if getattr(arguments, setting.name) is not None}
    if saved is None:
        settings = defaults | given
        if "warmup" not in given and settings["warmup"] >= settings["steps"]:
            settings["warmup"] = settings["steps"] // 10
        return settings
    for setting in settings:
        if setting.name in given and setting.name not in may_change and given[setting.name] != saved[setting.name]:
            raise ValueError(f"{setting.option} is {saved[setting.name]} in the run that is resumed, not "
                             f"{given[setting.name]}; leave it out, or begin another run under another --out")
    return saved | given
