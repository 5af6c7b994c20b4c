"""The command line: `numpy-transformer COMMAND`, or `python -m numpy_transformer COMMAND`."""

import contextlib
import os
import sys

import numpy as np

from .. import __version__
from ..training.process import CLOSED_PIPE, drop_output, keep_freed_memory
from ..training.mpi import RankError, silence_other_ranks, world
from . import (bench, demo, evaluate, exercise, explore, figures, generate, grade, gradcheck, importing, info, lesson, plot,
               predict, trace, train, zoo)
from .matmul_threads import start_with_one
from .parser import Parser

COMMANDS = (demo, train, importing, generate, predict, evaluate, info, gradcheck, lesson, exercise, grade, trace, explore, plot,
            figures, bench, zoo)


def make_parser():
    parser = Parser(prog="numpy-transformer", description="A Transformer in pure NumPy for learning.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return parser


def main(argv=None):
    """Run one command and return its exit code; bad input is reported in one line on standard error, with exit code 2."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:          # closed by the calling process
            setattr(sys, name, open(os.devnull, mode))
    try:
        silence_other_ranks(world())
    except ValueError as error:
        print(f"numpy-transformer: {error}", file=sys.stderr)
        return 2
    arguments, unknown = make_parser().parse_known_args(argv)
    if unknown:
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    start_with_one()
    keep_freed_memory()
    try:
        with np.errstate(all="ignore"):         # values that are not finite are reported where they matter
            code = arguments.run(arguments) or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:                     # whatever reads standard output has closed it
        drop_output()
        return CLOSED_PIPE
    except (ValueError, TypeError, IndexError, OSError, MemoryError, RankError) as error:
        if arguments.traceback:
            raise
        if isinstance(error, UnicodeDecodeError):           # files report it themselves, so this is standard input
            error = (f"standard input is not UTF-8 (byte {error.object[error.start]:#04x}); convert it, for instance "
                     "with iconv -t UTF-8")
        if isinstance(error, MemoryError):
            error = f"not enough memory ({error}); use smaller sizes, a smaller batch or shorter sequences"
        print(f"{arguments.parser.prog}: {' '.join(str(error).splitlines())}", file=sys.stderr)
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            return 2
        drop_output()
        return 2
    except KeyboardInterrupt as stop:
        print(f"\n{arguments.parser.prog}: {str(stop) or 'interrupted'}", file=sys.stderr)
        return 130
