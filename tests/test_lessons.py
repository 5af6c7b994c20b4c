"""Every lesson runs without a terminal, keeps its claims, draws its figures; a planted mistake makes a claim fail."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from numpy_transformer.classroom.steps import cells

LESSONS = sorted((Path(__file__).parents[1] / "lessons").glob("[0-9][0-9]_*.py"))
every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
MISTAKES = {                                # at least two for each lesson, in the component it is about
    "02": ["nt.Linear.backward = lambda self, dy: 2 * dy @ self.weight.data.T if self.recall() is not None else 0",
           "nt.Module.recall = lambda self: (lambda v: v[0] if len(v) == 1 else v)(self._memory.pop(0))"],
    "04": ["positions.sinusoid = lambda n, d: np.sin(np.arange(n)[:, None] / 10000 ** (np.arange(d) / d))",
           "nt.SinusoidalPositionalEncoding.backward = lambda self, dy: 2 * self.dropout.backward(dy)"],
    "05": ["nt.Softmax.backward = lambda self, dy: dy * self.recall()",
           "attention.math = type('m', (), {'sqrt': staticmethod(lambda d: 1.0)})"],
}


def run(path, folder, planted=""):
    """Run a copy of the lesson in folder/lessons, with a mistake planted first."""
    (folder / "lessons").mkdir(parents=True)
    copy = folder / "lessons" / path.name
    shutil.copy(path, copy)
    code = ("import runpy, sys, math, numpy as np, numpy_transformer as nt\n"
            "from numpy_transformer.layers import attention, positions\n"
            f"{planted}\nsys.argv = [{str(copy)!r}]\nrunpy.run_path({str(copy)!r}, run_name='__main__')")
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL, timeout=200,
        env={**os.environ, "PYTHONPATH": str(path.parents[1]), "PYTHONIOENCODING": "utf-8"}, cwd=folder)


def test_there_are_lessons():
    assert {path.name[:2] for path in LESSONS} == set(MISTAKES)
    assert all(len(planted) >= 2 for planted in MISTAKES.values())


@every_lesson
def test_a_lesson_keeps_its_claims_and_draws_its_figures(path, tmp_path):
    result = run(path, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("✓") >= 5
    figures = re.findall(r"figure: (.*)", result.stdout)
    assert figures and sorted(figures) == sorted(f"figures/{file.name}" for file in (tmp_path / "figures").iterdir())
    for name in figures:
        assert Path(name).name[:3] == path.name[:3]
        pixels = imread(tmp_path / name)[::2, ::2, :3].reshape(-1, 3)
        assert np.ptp(pixels, 0).max() > 0.5 and len(np.unique(pixels, axis=0)) > 20        # not blank


PLANTED = [pytest.param(path, planted, id=f"{path.stem}-{n}") for path in LESSONS
           for n, planted in enumerate(MISTAKES.get(path.name[:2], []))]


@pytest.mark.parametrize("path, planted", PLANTED)
def test_a_planted_mistake_makes_a_claim_fail(path, planted, tmp_path):
    result = run(path, tmp_path, planted)
    assert result.returncode == 1 and "AssertionError: claim does not hold" in result.stderr, result.stderr


@pytest.mark.slow
@every_lesson
def test_two_runs_print_and_draw_the_same(path, tmp_path):
    first, second = (run(path, tmp_path / name) for name in "ab")
    assert first.stdout == second.stdout and first.returncode == 0
    for file in (tmp_path / "a" / "figures").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / "figures" / file.name).read_bytes(), file.name


@every_lesson
def test_cells_are_marked_for_editors(path):
    text = path.read_text(encoding="utf-8")
    titles = [cell.title for cell in cells(text)]
    assert text.startswith(f"# %% [markdown]\n# # {path.name[:2]} ") and titles.count("[markdown]") >= 4
    assert len(titles) - titles.count("[markdown]") >= 4 and all(titles)
    assert max(map(len, text.splitlines())) <= 120
    assert "\n# ## Exercises\n" in text and re.search(r"\d+\s+(# )?minutes", text.split("\n# %% ")[0])


@every_lesson
def test_jupytext_makes_the_same_cells_of_it(path):
    jupytext = pytest.importorskip("jupytext")
    text = path.read_text(encoding="utf-8")
    notebook = jupytext.reads(text, fmt="py:percent")
    assert [(cell.cell_type == "markdown", cell.source) for cell in notebook.cells] == [
        (cell.prose is not None, cell.prose or cell.text) for cell in cells(text)]
    assert jupytext.writes(notebook, fmt="ipynb")
