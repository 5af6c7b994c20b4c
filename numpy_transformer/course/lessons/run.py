"""Runs a lesson: straight through, or with --step cell by cell."""

import argparse
import os
import sys

from .stepper import Stepper
from .steps import Runner


def parse_arguments(arguments):
    """Returns True if a lesson's arguments ask for --step and there is a terminal for it."""
    parser = argparse.ArgumentParser(description="Run this lesson. It prints shapes, draws figures and checks its own "
                                                 "claims.")
    parser.add_argument("--step", action="store_true",
                        help="pause at each cell: read it, inspect variables, answer its questions, go back")
    step = parser.parse_args(arguments).step
    if step and not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        print("--step needs a terminal; the lesson runs straight through", file=sys.stderr)
        return False
    return step


def run_lesson(path, step):
    """Runs a lesson and returns its exit code: 0, 1 after an error, 130 after Ctrl-C, or 141 after `| head`.

    Parameters:
        path : path of the lesson's script
        step : if True, pauses at each cell and answers keys
    """
    runner = Stepper(path) if step else Runner(path)
    try:
        runner.run_all()
        sys.stdout.flush()
        return int(bool(runner.failed))
    except (EOFError, KeyboardInterrupt) as stop:
        print(f"\nstopped at cell {runner.at + 1} of {len(runner.cells)}")
        return 130 if isinstance(stop, KeyboardInterrupt) else int(bool(runner.failed))
    except BrokenPipeError:                     # whatever read the output has ended, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())      # Python does not try to write the rest at exit
        return 141                              # what a shell reports for a program that writes to a closed pipe
    finally:
        runner.close()
