"""The command line: `numpy-transformer COMMAND`, or `python -m numpy_transformer COMMAND`."""

import os
import sys

from .. import __version__
from ..training.blas import set_blas_threads
from . import bench, demo, evaluate, generate, gradcheck, lesson, train
from .parser import Parser

COMMANDS = (demo, train, generate, evaluate, gradcheck, lesson, bench)


def make_parser():
    parser = Parser(prog="numpy-transformer", description="A Transformer in NumPy to learn from.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return parser


def main(argv=None):
    """Run one command; its exit code. Bad input is one line on standard error and exit code 2."""
    arguments = make_parser().parse_args(argv)
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        set_blas_threads(1)                     # all that the commands multiply is small
    try:
        return arguments.run(arguments) or 0
    except BrokenPipeError:                     # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, IndexError, OSError, MemoryError) as error:
        if arguments.traceback:
            raise
        print(f"numpy-transformer {arguments.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"\nnumpy-transformer {arguments.command}: {str(stop) or 'interrupted'}", file=sys.stderr)
        return 130
