"""Running a lesson in a process of its own, with a mistake planted in the package first."""

import os
import re
import shutil
import subprocess
import sys

from helpers import ROOT
from helpers.pseudo_language import translated

from numpy_transformer.course.lessons.translation import write_translation

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


def translate(lesson, language):
    """Writes the lesson's file of a language with every text in wide letters, as a translator would. Returns its path."""
    file = lesson.parent / language / f"{lesson.stem}.md"
    write_translation(lesson, file)
    text = re.sub(r"(^<!-- .*?$\n(.*?)\n-->\n)", lambda entry: f"{entry[1]}{translated(entry[2])}\n",
                  file.read_text(encoding="utf-8"), flags=re.M | re.S)
    file.write_text(text, encoding="utf-8")
    return file


def run(folder, path, planted="", language=None):
    """Runs a copy of the lesson in folder/lessons, in English or in the language of a folder; the result knows the folder."""
    (folder / "lessons").mkdir(parents=True)
    copy = folder / "lessons" / path.name
    shutil.copy(path, copy)
    chosen = {}
    if language is not None:
        translate(copy, language.name)
        chosen = {"NUMPY_TRANSFORMER_LANGUAGE": str(language)}
    code = (f"{PREAMBLE}\n{planted}\nsys.argv = [{str(copy)!r}]\n"
            f"runpy.run_path({str(copy)!r}, run_name='__main__')")
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL, timeout=600,
        env={**os.environ, "PYTHONPATH": str(path.parents[1]), "PYTHONIOENCODING": "utf-8", **chosen}, cwd=folder)
    result.folder = folder
    return result


def planted_mistakes():
    """Returns {number of a lesson: its mistakes}, each the code that plants it. planted/05.txt has those of lesson 05."""
    folder = ROOT / "tests" / "course" / "lessons" / "planted"
    return {file.stem: [code.strip() for code in re.split(r"^# %%$", file.read_text(encoding="utf-8"), flags=re.M)]
            for file in sorted(folder.glob("*.txt"))}
