"""The command line: `numpy-transformer COMMAND`, or `python -m numpy_transformer COMMAND`.

greeting.py, parser.py, terminal.py                      no command; what all have in common
demo.py, lesson.py, exercise.py, build.py                to learn
figures.py, explore.py
gradcheck.py, gradcheck_own.py, trace.py, zoo.py, bench.py      to check and to measure
train.py, train_files.py, train_film.py, settings.py     to train
generate.py, predict.py, evaluate.py, importing.py, info.py     to use what was trained or published
plot.py, plot_examples.py, plotted_run.py                to draw
grade.py, grade_options.py, grade_places.py              to grade a class
grade_outputs.py, gradebook_options.py, policy_options.py
"""

import contextlib
import importlib
import os
import sys
import textwrap

import numpy as np

from .. import __version__
from ..threads import start_with_one_thread
from ..training.memory import keep_freed_memory
from ..training.mpi import RankError, silence_other_ranks, world
from .greeting import greet
from .parser import CommandParser, option
from .terminal import CLOSED_PIPE, drop_output, plain_output

LONGEST_ERROR = 2000                            # characters

MODULES = {"demo": ("demo",), "train": ("train",), "importing": ("import", "export"), "generate": ("generate", "translate"),
           "predict": ("classify", "tag", "fill", "embed", "similar"), "evaluate": ("evaluate",), "info": ("info",),
           "gradcheck": ("gradcheck",), "lesson": ("lesson",), "exercise": ("exercise",), "build": ("build",), "grade": ("grade",),
           "trace": ("trace",), "explore": ("explore",), "plot": ("plot",), "figures": ("figures",), "bench": ("bench",),
           "zoo": ("zoo",)}                     # the commands that each module adds


def make_parser(command=None):
    """The parser of all commands, or of those in the module of one `command`: importing all modules takes longer."""
    parser = CommandParser(prog="numpy-transformer", description="A Transformer in pure NumPy for learning.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    modules = [module for module, added in MODULES.items() if command in added]
    for module in modules or MODULES:
        importlib.import_module(f".{module}", __name__).add_to_parser(commands)
    return parser


def parse(argv):
    """Returns the arguments of one command; what it does not know ends the program, like other mistakes in the arguments."""
    arguments, unknown = make_parser(*argv[:1]).parse_known_args(argv)
    if unknown:
        arguments.parser.error(f"unrecognized arguments: {textwrap.shorten(' '.join(unknown), 200)}")
    return arguments


def main(argv=None):
    """Runs one command and returns its exit code; bad input is reported in one line on standard error, with exit code 2.

    Without a command, it says where to begin.
    """
    argv = sys.argv[1:] if argv is None else argv
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:          # closed by the calling process
            setattr(sys, name, open(os.devnull, mode))
    try:
        silence_other_ranks(world())
    except ValueError as error:
        print(f"numpy-transformer: {error}", file=sys.stderr)
        return 2
    with plain_output():
        return run(argv)


def run(argv):
    """Runs a command, or says where to begin, and reports its errors. Returns the exit code."""
    arguments = None
    try:
        if argv:
            arguments = parse(argv)
            start_with_one_thread()
            keep_freed_memory()
            with np.errstate(all="ignore"):     # values that are not finite are reported where they matter
                code = arguments.run(arguments) or 0
        else:
            code = greet()
        sys.stdout.flush()
        return code
    except BrokenPipeError:                     # whatever reads standard output has closed it
        drop_output()
        return CLOSED_PIPE
    except (ValueError, TypeError, IndexError, OSError, MemoryError, RankError) as error:
        if arguments is None or arguments.traceback:
            raise
        print(f"{arguments.parser.prog}: {' '.join(error_sentence(error).splitlines())[:LONGEST_ERROR]}", file=sys.stderr)
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            return 2
        drop_output()
        return 2
    except KeyboardInterrupt as stop:
        command = arguments.parser.prog if arguments else "numpy-transformer"
        print(f"\n{command}: {str(stop) or 'interrupted'}", file=sys.stderr)
        return 130


def error_sentence(error):
    """The sentence that says what is wrong; settings have the names of their options."""
    if isinstance(error, UnicodeDecodeError):               # files report it themselves, so this is standard input
        return (f"standard input is not UTF-8 (byte {error.object[error.start]:#04x}); convert it, for instance with "
                "iconv -t UTF-8")
    if isinstance(error, MemoryError):
        return f"not enough memory ({error}); use smaller sizes, a smaller batch or shorter sequences"
    from ..tasks.settings import SettingError, with_names  # only the commands for models have loaded them
    return with_names(error.sentence, option) if isinstance(error, SettingError) else str(error)
