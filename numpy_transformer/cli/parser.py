"""What every command has in common."""

import argparse


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
