"""Running a lesson in a process of its own, with a mistake planted in the package first."""

import os
import shutil
import subprocess
import sys

PREAMBLE = """
import inspect, runpy, sys, textwrap, numpy as np, numpy_transformer as nt
from numpy_transformer.layers import attention, fast, flash, multi_head, normalization, positions, softmax
from numpy_transformer.models import decoder, encoder_decoder

def edit(method, old, new):                 # in the source of FlashAttention
    source = textwrap.dedent(inspect.getsource(getattr(nt.FlashAttention, method)))
    assert source.count(old) == 1, old
    exec(source.replace(old, new), vars(flash))
    setattr(nt.FlashAttention, method, vars(flash)[method])
"""


def run(folder, path, planted=""):
    """Run a copy of the lesson in folder/lessons; the result knows the folder."""
    (folder / "lessons").mkdir(parents=True)
    copy = folder / "lessons" / path.name
    shutil.copy(path, copy)
    code = (f"{PREAMBLE}\n{planted}\nsys.argv = [{str(copy)!r}]\n"
            f"runpy.run_path({str(copy)!r}, run_name='__main__')")
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL, timeout=200,
        env={**os.environ, "PYTHONPATH": str(path.parents[1]), "PYTHONIOENCODING": "utf-8"}, cwd=folder)
    result.folder = folder
    return result
