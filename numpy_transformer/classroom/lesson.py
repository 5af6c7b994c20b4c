"""Helpers of the lesson scripts: arrays are shown, claims are checked as they are made, figures saved."""

import re
import sys
from pathlib import Path

import numpy as np

from ..views import save


def show(**arrays):
    """Print name, shape, dtype and range of each array; the values too where there are at most 30."""
    for name, array in arrays.items():
        array = np.asarray(array)
        line = f"  {name} {array.shape} {array.dtype}"
        if array.size > 1 and array.dtype.kind == "f":
            line += f"  min {array.min():.3g}  mean {array.mean():.3g}  max {array.max():.3g}"
        print(line)
        if array.size <= 30:
            print("    " + np.array2string(array, precision=4, suppress_small=True).replace("\n", "\n    "))


def claim(text, condition, detail=""):
    """Print ✓ and the claim if it holds; else raise AssertionError with the detail, the numbers."""
    if not np.all(condition):
        raise AssertionError(f"claim does not hold: {text}. {detail}".rstrip())
    print(f"  ✓ {text}" + f"   ({detail})" * bool(detail))


def figure(name, picture):
    """Save the picture as figures/NN_name.png beside the lessons folder, NN being the lesson's number."""
    script = Path(sys.argv[0]).resolve()
    number = re.match(r"\d\d_", script.name)
    folder = script.parent.parent if number else Path.cwd()
    path = save(picture, folder / "figures", (number[0] if number else "") + name)
    print(f"  figure: {path}")
