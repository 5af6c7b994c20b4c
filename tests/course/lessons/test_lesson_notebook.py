"""A lesson as a notebook: its cells, its answers, and its questions with and without a reader."""

import builtins
import json
import re

import pytest
from helpers import ROOT

from numpy_transformer.cli import main
from numpy_transformer.course import predict
from numpy_transformer.course.lessons import helpers
from numpy_transformer.course.lessons.cells import cells
from numpy_transformer.course.lessons.files import lessons_in
from numpy_transformer.course.lessons.notebook import notebook, write_notebook
from numpy_transformer.course.lessons.words import lesson_words

LESSON = '''# %% [markdown]
# # 07 Tiny

# %% Imports
from matplotlib.figure import Figure

from numpy_transformer.course import claim, figure, lesson, predict

lesson.start(__name__)

# %%
predict("one and one?", 2, "Count.")
claim("π is shown", True)
figure("empty", Figure())
'''
PAGE = "# Answers\n\n1. Two\n   lines.\n2. Yes.\n"


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "lessons" / "07_tiny.py"
    path.parent.mkdir()
    path.write_text(LESSON, encoding="utf-8")
    (path.parent / "answers").mkdir()
    (path.parent / "answers" / path.with_suffix(".md").name).write_text(PAGE, encoding="utf-8")
    return path


def test_cells_titles_and_answers_are_kept_and_start_receives_the_number(tiny):
    found = notebook(tiny)
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in found["cells"]] == [
        ("markdown", "# 07 Tiny"), ("markdown", lesson_words("notebook.questions")), ("markdown", "### Imports"),
        ("code", LESSON.split("Imports\n")[1].split("\n\n# %%\n")[0].replace("(__name__)", '(__name__, "07")')),
        ("code", 'predict("one and one?", 2, "Count.")'), ("code", 'claim("π is shown", True)\nfigure("empty", Figure())'),
        ("markdown", "<details><summary>Answers to the exercises of this lesson</summary>\n\n1. Two\n   lines.\n\n2. Yes.\n\n"
                     "</details>"),
        ("markdown", "This lesson prepares stage 6 of a Transformer of your own: numpy-transformer build start mine, then "
                     "numpy-transformer build check 6\n\nThat was the last lesson.")]
    assert (found["nbformat"], found["nbformat_minor"], found["metadata"]["kernelspec"]["name"]) == (4, 5, "python3")


@pytest.mark.parametrize("path", [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if i % 8 else [])
    for i, path in enumerate(lessons_in(ROOT / "lessons").values())])
def test_the_notebook_of_every_lesson_is_complete(path):
    found = notebook(path)["cells"]
    of_lesson = cells(path.read_text(encoding="utf-8"))
    code = ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]
    without_start = re.compile(r"\s|lesson\.start\(.*\)")
    assert without_start.sub("", "".join(code)) == without_start.sub("", "".join(c.text for c in of_lesson if c.prose is None))
    for cell in found:                          # neither an answer nor what follows it is seen with its question
        asks = cell["cell_type"] == "code" and "predict(" in "".join(cell["source"])
        assert asks == bool(cell["metadata"]) and (not asks or cell["source"][0].startswith("predict("))
    assert sum(f'lesson.start(__name__, "{path.name.split("_")[0]}")' in "".join(cell["source"]) for cell in found) == 1
    names = [cell["id"] for cell in found]
    assert len(set(names)) == len(names) and all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    for cell in found:
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set())
        assert all(line.endswith("\n") for line in cell["source"][:-1])


def test_the_command_writes_the_notebook(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["lesson", "notebook", "5"]) == 0 and "written: 05_attention.ipynb; open it" in capsys.readouterr().out
    written = json.loads((tmp_path / "05_attention.ipynb").read_text(encoding="utf-8"))
    assert written == notebook(ROOT / "lessons" / "05_attention.py")
    assert main(["lesson", "notebook", "05", "--out", "mine.ipynb"]) == 0 and (tmp_path / "mine.ipynb").exists()


@pytest.mark.parametrize("typed, printed", [("", "    the answer: 2\n    Count.\n"), ("2", "    correct: 2\n    Count.\n"),
                                            (NotImplementedError(), "  ? one and one?  2\n"), (EOFError(), "  ? one and one?  2\n")])
def test_a_notebook_asks_and_goes_on_without_a_reader(monkeypatch, capsys, typed, printed):
    def answer(question):
        assert question == "  ? one and one?  "
        if isinstance(typed, Exception):
            raise typed
        return typed

    monkeypatch.setattr(builtins, "get_ipython", lambda: None, raising=False)
    monkeypatch.setattr(builtins, "input", answer)
    monkeypatch.setattr(helpers, "ask", None)
    predict("one and one?", 2, "Count.")
    assert capsys.readouterr().out == printed


@pytest.mark.slow
def test_a_notebook_runs_without_a_front_end_and_its_figures_have_the_number(tiny, tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    opened = nbformat.read(write_notebook(tiny, tmp_path / "another name.ipynb"), as_version=4)
    nbformat.validate(opened)
    nbclient.NotebookClient(opened, timeout=100, resources={"metadata": {"path": str(tmp_path)}}).execute()
    code = [cell for cell in opened.cells if cell.cell_type == "code"]
    text = "".join(output.text for cell in code for output in cell.outputs if output.output_type == "stream")
    assert "  ? one and one?  2\n" in text and "✓ π is shown" in text and "my-figures/07_empty.png" in text.replace("\\", "/")
    assert [output for output in code[2].outputs if "image/png" in output.get("data", {})]
    assert (tmp_path / "my-figures" / "07_empty.png").exists()


@pytest.mark.slow
def test_the_notebook_of_a_real_lesson_runs(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    opened = nbformat.read(write_notebook(ROOT / "lessons" / "05_attention.py", tmp_path / "05.ipynb"), as_version=4)
    nbformat.validate(opened)
    nbclient.NotebookClient(opened, timeout=200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert {path.name[:3] for path in (tmp_path / "my-figures").iterdir()} == {"05_"}
