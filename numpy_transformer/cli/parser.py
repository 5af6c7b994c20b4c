"""What every command has in common."""

import argparse
import copy
import math


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line; `arguments.parser` is the parser of the innermost command."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.set_defaults(parser=self)
        self.intermixed = True

    def add_subparsers(self, **named):
        self.intermixed = False                 # the words after a command belong to that command
        return super().add_subparsers(**named)

    def parse_known_args(self, args=None, namespace=None):
        """Lets options stand among the positional arguments too, as in `embed RUN.npz --out v.npy TEXT`."""
        options, unknown = super().parse_known_args(args, copy.copy(namespace))
        if not unknown or not self.intermixed:
            return options, unknown
        self.intermixed = False                 # the next line calls this method again
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.intermixed = True

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


class Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the defaults of options that have one."""

    def _get_help_string(self, action):
        has_default = action.default not in (None, False, [])
        return super()._get_help_string(action) if has_default else action.help


def add_command(commands, name, run, **texts):
    """Adds a command and the options that every command has; returns its parser."""
    parser = commands.add_parser(name, formatter_class=Formatter, **texts)
    parser.add_argument("--traceback", action="store_true", help="show the Python traceback of an error")
    parser.set_defaults(run=run)
    return parser


def option(name):
    """The command-line option of a setting: "d_model" is --d-model."""
    return "--" + name.replace("_", "-")


def whole_number(least, most=math.inf):
    """An argparse type: a whole number of at least `least` and at most `most`."""
    def parse(text):
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            limit = "" if most == math.inf else f" and at most {most:,}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}{limit}")
        return int(text)
    return parse


def finite_number(least, below=math.inf):
    """An argparse type: a finite number of at least `least` and less than `below`."""
    def parse(text):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value < below:
            limit = "" if below == math.inf else f" and below {below:g}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least {least:g}{limit}")
        return value
    return parse
