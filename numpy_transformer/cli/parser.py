"""What every command has in common."""

import argparse


def add_command(commands, name, run, **texts):
    """A subparser with what every command has."""
    parser = commands.add_parser(name, formatter_class=argparse.ArgumentDefaultsHelpFormatter, **texts)
    parser.add_argument("--traceback", action="store_true", help="show the Python traceback of an error")
    parser.set_defaults(run=run)
    return parser
