"""Runs a lesson: straight through, or with --step cell by cell."""

import argparse
import os
import sys

from .files import what_is_next
from .stepper import Stepper
from .steps import Runner
from .words import lesson_words
from .wrapping import fill_lines


def parse_arguments(arguments):
    """Returns True if a lesson's arguments ask for --step and there is a terminal for it."""
    parser = argparse.ArgumentParser(description=lesson_words("run.description"))
    parser.add_argument("--step", action="store_true", help=lesson_words("run.step"))
    step = parser.parse_args(arguments).step
    if step and not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        print(lesson_words("run.no_terminal"), file=sys.stderr)
        return False
    return step


def run_lesson(path, step):
    """Runs a lesson and returns its exit code: 0, 1 after an error, 2 without its texts, 130 after Ctrl-C, or 141 after `| head`.

    Parameters:
        path : path of the lesson's script
        step : if True, pauses at each cell and answers keys
    """
    try:
        runner = Stepper(path) if step else Runner(path)
    except ValueError as error:                 # a language or a translation that cannot be read
        print(error, file=sys.stderr)
        return 2
    for sentence in runner.translation.problems():
        print(sentence, file=sys.stderr)
    try:
        runner.run_all()
        if not runner.failed:
            print(f"\n{what_is_next(path)}")
        sys.stdout.flush()
        return int(bool(runner.failed))
    except (EOFError, KeyboardInterrupt) as stop:
        print("\n" + fill_lines(lesson_words("run.stopped", cell=runner.at + 1, cells=len(runner.cells))))
        return 130 if isinstance(stop, KeyboardInterrupt) else int(bool(runner.failed))
    except BrokenPipeError:                     # whatever read the output has ended, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())      # Python does not try to write the rest at exit
        return 141                              # what a shell reports for a program that writes to a closed pipe
    finally:
        runner.close()
