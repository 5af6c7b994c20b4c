"""Helpers of the lesson scripts: arrays are shown, claims are checked as they are made, figures saved."""

import builtins
import contextlib
import os
import re
import sys
from pathlib import Path

import numpy as np

from ..training.process import set_blas_threads

NAME = re.compile(r"\d\d_\w+\.py")
running = False                                 # whether a lesson's cells are being run, one after the other
ask = None                                      # while a lesson is stepped through: asks a question in the terminal


def start(name):
    """The first call of every lesson, `lesson.start(__name__)`: in a script it runs all cells, with --step one by one.

    In an editor's cell or a notebook it only makes every run print the same, with one BLAS thread.
    """
    from ..views import large_fonts             # matplotlib takes a third of a second: only lessons wait for it
    set_blas_threads(1)
    large_fonts()
    path = script()
    by_itself = path is not None and Path(sys.argv[0]).name == path.name and not hasattr(builtins, "get_ipython")
    if name != "__main__" or not by_itself or running:
        return
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")            # a terminal that knows no ✓ shows a ?
    from . import steps                         # steps uses this module
    sys.exit(steps.through(path, steps.wanted(sys.argv[1:])))


def script():
    """The path of the lesson that runs as a script; None in a notebook."""
    path = Path(getattr(sys.modules["__main__"], "__file__", None) or "")
    return path if NAME.fullmatch(path.name) else None


def show(**arrays):
    """Print name, shape, dtype and range of each array; the values too where there are at most 30."""
    for name, array in arrays.items():
        array = np.asarray(array)
        line = f"  {name} {array.shape} {array.dtype}"
        if array.size > 1 and array.dtype.kind == "f":
            line += f"  min {array.min():.3g}  mean {array.mean():.3g}  max {array.max():.3g}"
            if array.shape[-1] > 1 and np.allclose(array.sum(-1), 1, atol=1e-6):
                line += "  rows sum to 1"
        print(line)
        if array.size <= 30:
            print("    " + np.array2string(array, precision=4, suppress_small=True).replace("\n", "\n    "))


def claim(text, condition, detail=""):
    """Print ✓ and the claim if it holds; else raise AssertionError with the detail, the numbers."""
    if not np.all(condition):
        raise AssertionError(f"claim does not hold: {text}. {detail}".rstrip())
    print(f"  ✓ {text}" + f"   ({detail})" * bool(detail))


def slopes(loss, x):
    """The gradient of loss(x) in every entry of x by the complex step (lesson 02): it asks the function alone."""
    gradient = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        z = x.astype(complex)
        z[at] += 1e-100j
        gradient[at] = loss(z).imag / 1e-100
    return gradient


def predict(question, answer):
    """Ask, and then tell: while stepping the reader answers first; else question and answer are printed."""
    guess = ask(f"  ? {question}  ") if ask is not None else None
    if guess is None:
        print(f"  ? {question}  {answer}")
    else:
        print("    as you say:" if plain(guess) == plain(answer) else "    the answer:", answer)


def plain(text):
    """The words and numbers of an answer: (2, 1, 8), "2 1 8.0" and "2, 1 and 8" are the same."""
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", str(text).lower())         # thousands
    parts = re.findall(r"-?(?:\d+\.?\d*|\.\d+)|[^\W\d_]+", text)
    return [float(part) if part[-1] in "0123456789." else part for part in parts if part != "and"]


def figure(name, picture):
    """Save the picture as figures/NN_name.png beside the lessons folder, NN being the lesson's number."""
    from ..views import save
    path = script()
    if path is None:                            # a notebook, which shows it as well
        path = save(picture, "../figures" if Path.cwd().name == "lessons" else "figures", name)
        with contextlib.suppress(ImportError):
            from IPython.display import Image, display
            display(Image(filename=str(path)))
    else:
        path = save(picture, path.resolve().parents[1] / "figures", f"{path.name[:3]}{name}")
    print(f"  figure: {os.path.relpath(path)}")
