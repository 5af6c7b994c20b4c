"""Every lesson runs without a terminal, keeps its claims, draws its figures; a planted mistake makes a claim fail."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from numpy_transformer.classroom import claim, show

LESSONS = sorted((Path(__file__).parents[1] / "lessons").glob("[0-9][0-9]_*.py"))
every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
MISTAKES = {                                # two for each lesson, in the component it is about
    "02": ["nt.Linear.backward = lambda self, dy: 2 * dy @ self.weight.data.T if self.recall() is not None else 0",
           "nt.Module.recall = lambda self: (lambda v: v[0] if len(v) == 1 else v)(self._memory.pop(0))"],
    "04": ["positions.sinusoid = lambda n, d: np.sin(np.arange(n)[:, None] / 10000 ** (np.arange(d) / d))",
           "nt.SinusoidalPositionalEncoding.backward = lambda self, dy: 2 * self.dropout.backward(dy)"],
    "05": ["nt.Softmax.backward = lambda self, dy: dy * self.recall()",
           "attention.math = type('m', (), {'sqrt': staticmethod(lambda d: 1.0)})"],
}


def run(path, folder, planted=""):
    """Run a copy of the lesson in folder/lessons, with a mistake planted first."""
    (folder / "lessons").mkdir()
    copy = folder / "lessons" / path.name
    shutil.copy(path, copy)
    code = ("import runpy, sys, numpy as np, numpy_transformer as nt\n"
            "from numpy_transformer.layers import attention, positions\n"
            f"{planted}\nsys.argv = [{str(copy)!r}]\nrunpy.run_path({str(copy)!r}, run_name='__main__')")
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL, timeout=100,
        env={**os.environ, "PYTHONPATH": str(path.parents[1]), "PYTHONIOENCODING": "utf-8"}, cwd=folder)


def test_there_are_lessons():
    assert {path.name[:2] for path in LESSONS} == set(MISTAKES)


@every_lesson
def test_a_lesson_keeps_its_claims_and_draws_its_figures(path, tmp_path):
    result = run(path, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("✓") >= 5
    figures = [Path(line) for line in re.findall(r"figure: (.*)", result.stdout)]
    assert figures and all(f.parent == tmp_path / "figures" and f.name[:3] == path.name[:3] and f.stat().st_size > 5000
                           for f in figures)


@every_lesson
@pytest.mark.parametrize("which", [0, 1])
def test_a_planted_mistake_makes_a_claim_fail(path, which, tmp_path):
    result = run(path, tmp_path, MISTAKES[path.name[:2]][which])
    assert result.returncode == 1 and "AssertionError: claim does not hold" in result.stderr, result.stderr


@every_lesson
def test_cells_are_marked_for_editors(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n# %% [markdown]") >= 4 and len(re.findall(r"^# %% \w", text, re.M)) >= 4
    assert max(map(len, text.splitlines())) <= 120


def test_a_claim_prints_what_holds_and_raises_with_the_numbers(capsys):
    claim("two is two", 2 == 2, "2")
    assert "✓ two is two   (2)" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="claim does not hold: all are. 1 of 2"):
        claim("all are", [True, False], "1 of 2")


def test_show_prints_shape_and_values(capsys):
    show(ones=[[1.0, 1.0, 4.0]])
    assert "ones (1, 3) float64  min 1  mean 2  max 4" in capsys.readouterr().out
