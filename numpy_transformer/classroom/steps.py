"""A lesson, cell by cell in a terminal."""

import argparse
import code
import re
import sys
import traceback
from pathlib import Path

import numpy as np

from . import lesson

MARK = re.compile(r"^# %%(.*)$", re.M)
HELP = "[Enter] next   p EXPR print   v variables   r run again   i Python prompt   c to the end   q quit"


def wanted(arguments):
    """Whether the lesson's arguments ask to step through it; anything unknown ends with exit code 2."""
    parser = argparse.ArgumentParser(description="A lesson: it prints shapes and checks its own claims.")
    parser.add_argument("--step", action="store_true", help="pause at each cell, where there is a terminal")
    return parser.parse_args(arguments).step


def explain(kind, error, trace):
    """An excepthook: a claim that does not hold is one line, anything else Python's traceback."""
    if kind is AssertionError and str(error).startswith("claim does not hold"):
        frame = traceback.extract_tb(trace)[0]
        print(f"AssertionError: {error}\n  {Path(frame.filename).name}, line {frame.lineno}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
