"""numpy-transformer trace: forward and backward of a small model, number by number."""

import numpy as np

from ..inspection.trace import KINDS, example, trace
from .parser import add_command
from .terminal import WIDEST, output_columns, wrap

NARROW = 90                                     # below this, most gradients are printed below their arrays
TOLERANCE = 1e-6


def add_to_parser(commands):
    parser = add_command(
        commands, "trace", run, help="print every number of a tiny model's forward and backward pass",
        description="Sends three tokens of width 4 through a tiny model and prints the inputs, parameters and output "
                    "of every component, each with its gradient and with finite differences of the loss.")
    parser.add_argument("--model", choices=KINDS, default="encoder", help="kind of model")
    parser.add_argument("--only", metavar="TEXT", help="show only components whose name or class contains TEXT, such "
                                                       "as softmax (default: all)")


def run(arguments):
    task, model, inputs = example(arguments.model)
    width = output_columns()
    print(wrap(f"{task}\nRead forward from top to bottom and backward from bottom to top."))
    if width < NARROW:
        print(wrap(f"The terminal has {width} columns. In {WIDEST}, all gradients fit next to their arrays."))
    errors = []
    for text, error in trace(model, inputs, arguments.only or "", width):
        print(text, flush=True)
        errors.append(error)
    if not errors:
        raise ValueError(f"no component's name or class contains {arguments.only!r}; leave out --only to see them all")
    worst = np.max(errors)                      # NaN if one of them is
    agree = worst < TOLERANCE
    verdict = "Backward and finite differences agree" if agree else "Backward is WRONG"
    print("\n" + wrap(f"{verdict}: they differ by at most {worst:.0e} (calls shown: {len(errors)})."))
    return 0 if agree else 1
