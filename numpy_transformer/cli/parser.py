"""What every command has in common."""

import argparse
import math


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


class Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows a default where there is one to show."""

    def _get_help_string(self, action):
        return action.help if action.default in (None, False) else super()._get_help_string(action)


def add_command(commands, name, run, **texts):
    """A subparser with what every command has."""
    parser = commands.add_parser(name, formatter_class=Formatter, **texts)
    parser.add_argument("--traceback", action="store_true", help="show the Python traceback of an error")
    parser.set_defaults(run=run)
    return parser


def whole_number(least, most=math.inf):
    """An argparse type: a whole number of at least `least` and at most `most`."""
    def parse(text):
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            limit = "" if most == math.inf else f" and at most {most:,}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}{limit}")
        return int(text)
    return parse


def number(least, below=math.inf):
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
