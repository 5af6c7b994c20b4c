"""numpy-transformer trace: forward and backward of a small model, number by number."""

import shutil
import sys

import numpy as np

from ..inspection.trace import KINDS, example, trace
from .parser import add_command

WIDTH, TOLERANCE = 120, 1e-6


def add(commands):
    parser = add_command(
        commands, "trace", run, help="print forward and backward of a tiny model side by side, with finite differences",
        description="Three tokens of width 4 through a tiny model: every component's inputs, parameters and output, "
                    "beside each its gradient, and beside that the gradient by finite differences of the loss.")
    parser.add_argument("--model", choices=KINDS, default="encoder", help="which kind of model")
    parser.add_argument("--only", metavar="TEXT", help="only the components whose name or class contains TEXT, such as "
                                                       "softmax (default: all)")


def run(arguments):
    about, model, inputs = example(arguments.model)
    width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
    print(f"{about}\nForward is read downwards, backward upwards: what stands last was computed first.")
    if width < WIDTH:
        print(f"The terminal has {width} columns; with {WIDTH} a gradient stands beside its array, not below it.")
    errors = []
    for text, error in trace(model, inputs, arguments.only or "", width):
        print(text, flush=True)
        errors.append(error)
    if not errors:
        raise ValueError(f"no component's name or class contains {arguments.only!r}; leave --only out to see them all")
    worst = np.max(errors)                      # NaN, if there is one
    agree = worst < TOLERANCE
    print(f"\n{'Backward and finite differences agree' if agree else 'Backward is WRONG'}: they differ by at most "
          f"{worst:.0e} (calls shown: {len(errors)}).")
    return 0 if agree else 1
