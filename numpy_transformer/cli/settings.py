"""The settings of a task as options of `train`."""

import argparse

from ..tasks.settings import with_names
from .parser import finite_number, option, whole_number


def add_settings(parser, title, settings, configurations):
    """Adds options without argparse defaults, so that `given_settings` can tell which were given; the help shows the
    default and what each named configuration sets.
    """
    group = parser.add_argument_group(title)
    for setting in settings:
        group.add_argument(option(setting.name), dest=setting.name, help=option_help(setting, configurations),
                           **argparse_options(setting))


def option_help(setting, configurations):
    """The help of a setting, followed by its default and its values in named configurations."""
    values = [] if setting.default is None else [f"default: {setting.default}"]
    for name, configuration in configurations.items():
        value = configuration.get(setting.name, setting.default)
        if value != setting.default:
            values.append(f"{name}: {'not set' if value is None else value}")
    help = with_names(setting.help, option)
    return f"{help} ({'; '.join(values)})" if values else help


def argparse_options(setting):
    """The arguments of add_argument that a setting's type asks for."""
    if setting.type is bool:
        return {"action": argparse.BooleanOptionalAction}
    if setting.choices:
        return {"choices": setting.choices}
    if setting.type is list:
        return {"nargs": "+", "metavar": setting.metavar}
    if setting.type is int:
        return {"type": whole_number(setting.least), "metavar": setting.metavar}
    if setting.type is float:
        return {"type": finite_number(setting.least, setting.below), "metavar": setting.metavar}
    return {"type": str, "metavar": setting.metavar}


def given_settings(arguments, settings):
    """{name: value} of the settings that were given on the command line."""
    values = {setting.name: getattr(arguments, setting.name) for setting in settings}
    return {name: value for name, value in values.items() if value is not None}


def resumed_settings(saved, given, may_change):
    """The settings of a saved run, with changes. Raises ValueError for a setting that a resumed run cannot change."""
    for name, value in given.items():
        if name not in may_change and value != saved.get(name):
            raise ValueError(f"{option(name)} is {saved.get(name)} in the run that is resumed, not {value}; leave it out, or "
                             "start a new run under another --out")
    return saved | given
