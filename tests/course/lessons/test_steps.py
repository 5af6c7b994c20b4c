"""Stepping through a lesson in a terminal: its keys, its errors, and what happens without a terminal."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import ROOT
from helpers.commands import python
from helpers.pages import document_of

from numpy_transformer.course.lessons.answers import closing_answers

PROMPTS = (b"all keys: ", b"?  ", b"for the answer:  ", b"Your answer:  ", b">>> ")
LESSON = '''# %% [markdown]
# # 07 Tiny
#
# A lesson of one page.

# %% Imports
import numpy as np
from numpy_transformer.course import claim, lesson, predict, show

lesson.start(__name__)
rng = np.random.default_rng(0)

# %% Numbers
x = rng.standard_normal((2, 3))
show(x=x)
predict("shape of x.T?", (3, 2))

# %% [markdown]
# The end is near.

# %% Claims
claim("x has six numbers", x.size == SIX, f"{x.size}")
'''


@pytest.fixture
def tiny(tmp_path):
    def write(six=6):
        (tmp_path / "lessons").mkdir(exist_ok=True)
        path = tmp_path / "lessons" / "07_tiny.py"
        path.write_text(LESSON.replace("SIX", str(six)), encoding="utf-8")
        return path
    return write


def step(path, *keys, arguments=("--step",), **environment):
    """(output, exit code) of a lesson in a terminal where these keys answer its questions, one after another."""
    pty = pytest.importorskip("pty")
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update({"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "TERM": "vt100", "NO_COLOR": "1",
                           **environment})
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execv(sys.executable, [sys.executable, str(path), *arguments])
    output, answers = b"", list(keys)
    while select.select([terminal], [], [], 60)[0]:
        try:
            output += os.read(terminal, 4096)
        except OSError:                         # the lesson has ended
            break
        if answers and output.endswith(PROMPTS):
            time.sleep(0.3 if answers[0] == "\x03" else 0)         # until the prompt waits for it
            os.write(terminal, answers.pop(0).encode())
            output += b"\n"                     # so that this prompt is not answered twice
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail(f"it waits for something else:\n{output.decode()}")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    assert not answers, output.decode()
    return output.decode().replace("\r\n", "\n"), code


@pytest.mark.slow
def test_each_cell_is_shown_run_and_waited_for(tiny):
    output, code = step(tiny(), "\n", "\n", "(3,2)\n", "\n", "\n", "\n")
    assert code == 0
    order = ["cell 1 of 5", "07 Tiny", "cell 2 of 5: Imports", "rng = np.random", "cell 3 of 5: Numbers",
             "  14  x = rng.standard_normal((2, 3))", "x (2, 3) float64", "? shape of x.T?", "correct: (3, 2)",
             "cell 4 of 5", "The end is near.", "cell 5 of 5: Claims", "✓ x has six numbers"]
    places = [output.index(text) for text in order]
    assert places == sorted(places) and 'predict("shape of x.T?", ...)' in output          # the answer comes later
    assert output.count("all keys: ") == 5


def test_the_keys(tiny):
    output, code = step(tiny(), "\n", "p 1 + \n", "\n", "(2, 3)\n", "\n", "p x.T @ x\n", "v\n", "r\n", "\n", "?\n", "i\n",
                        "print('here', x.size)\n", "\x04", "nonsense\n", "q * 2\n", "i\n", "exit()\n", "p exit()\n",
                        "p None\n", "c\n")
    assert code == 0 and "SyntaxError" in output and "Try again" in output and "the answer: (3, 2)" in output
    assert "x.T @ x (3, 3) float64" in output and "  x                (2, 3) float64" in output
    assert "here 6" in output and all(f"'{text}' is not one of these keys" in output for text in ("nonsense", "q * 2"))
    assert "  SystemExit: None\n" in output and "  None\n" not in output and "Traceback" not in output
    assert "The end is near" not in output and "✓ x has six numbers" in output     # c shows no more cells
    first, again = [block.split("? shape")[0].split("(Enter")[0] for block in output.split("  x (2, 3) float64  ")[1:3]]
    assert first == again                       # run again, the same numbers are drawn


@pytest.mark.slow
@pytest.mark.parametrize("key, code", [("\x03", 130), ("q\n", 0), ("\x04", 0)])
def test_stopping_is_one_line_and_no_traceback(tiny, key, code):
    output, ended = step(tiny(), "\n", key)
    assert ended == code and "stopped at cell 2 of 5; next time, g 2 goes there" in output and "Traceback" not in output


@pytest.mark.slow
def test_the_end_of_input_at_a_question_stops_too(tiny):
    output, ended = step(tiny(), "\n", "\n", "\x04")
    assert ended == 0 and "stopped at cell 3 of 5" in output


@pytest.mark.slow
def test_an_error_in_a_cell_shows_the_cell_and_not_the_stepper(tiny):
    path = tiny()
    path.write_text(path.read_text(encoding="utf-8").replace("show(x=x)", "x / y"), encoding="utf-8")
    output, ended = step(path, "c\n", "v\n", "q\n")
    assert ended == 1 and 'line 15, in <module>\n    x / y' in output and "NameError" in output
    assert "steps.py" not in output and "  x                (2, 3) float64" in output


@pytest.mark.slow
def test_answers_are_shown_with_their_questions_also_after_c(tiny):
    output, _ = step(tiny(), "c\n")
    assert "  ? shape of x.T?  (3, 2)\n" in output


@pytest.mark.slow
def test_a_false_claim_is_shown_and_the_variables_can_be_inspected(tiny):
    output, code = step(tiny(7), "c\n", "p x.shape\n", "\n")
    assert code == 1 and "claim does not hold: x has six numbers. 6 (07_tiny.py, line 22)" in output
    assert "  (2, 3)" in output and "Traceback" not in output


@pytest.mark.slow
def test_an_interrupted_cell_can_be_run_again(tiny):
    path = tiny()
    path.write_text(path.read_text(encoding="utf-8").replace(
        "x = rng", "import os, signal\nif 'x' not in globals():\n    x = 0\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "x = rng"), encoding="utf-8")
    output, code = step(path, "\n", "\n", "r\n", "\n", "c\n")
    assert code == 0 and "interrupted; r runs the cell again" in output and "✓ x has six numbers" in output


@pytest.mark.slow
@pytest.mark.parametrize("arguments, six, code", [(["--step"], 6, 0), ([], 7, 1), ([], 6, 0), (["--stop"], 6, 2)])
def test_without_a_terminal_it_never_pauses(tiny, arguments, six, code):
    run = python(tiny(six), *arguments, timeout=60)
    assert run.returncode == code and "Traceback" not in run.stderr and "all keys" not in run.stdout
    assert ("✓" in run.stdout) == (code == 0) and ("claim does not hold" in run.stderr) == (code == 1)
    if code == 0:
        assert "  ? shape of x.T?  (3, 2)" in run.stdout
        order = [run.stdout.index(text) for text in ("# 07 Tiny\n", "\nNumbers\n", "? shape", "\nClaims\n", "✓")]
        assert order == sorted(order) and "The end is near" not in run.stdout
        assert ("runs straight through" in run.stderr) == bool(arguments)


PAGE = '''# Answers to the closing questions of lesson 07 Tiny

1. It has six numbers, because 2 · 3 = 6. This sentence continues on the
   next line.
2. In code:

       x = 1

3. Yes.
'''


def write_answers(lesson):
    (lesson.parent / "answers").mkdir()
    (lesson.parent / "answers" / "07_tiny.md").write_text(PAGE, encoding="utf-8")


def test_the_answers_to_the_closing_questions_come_from_the_page_with_the_name_of_the_lesson(tiny):
    path = tiny()
    assert closing_answers(path) == {}
    write_answers(path)
    assert closing_answers(path) == {
        1: "It has six numbers, because 2 · 3 = 6. This sentence continues on the\nnext line.",
        2: "In code:\n\n    x = 1", 3: "Yes."}
    assert closing_answers(path.with_name("08_other.py")) == {}


@pytest.mark.slow
def test_a_unfolds_one_answer_after_another_at_the_last_cell(tiny):
    path = tiny()
    write_answers(path)
    output, code = step(path, "a\n", *"\n" * 2, "6\n", *"\n" * 3, "a\n", "a 3\n", "a\n", "a 1\n", "a\n", "a 4\n", "\n")
    assert code == 0 and "answers to the closing questions are shown at the last cell" in output
    assert output.count("[a] answers") == 7       # at the prompts of the last cell only
    texts = ["1. It has six numbers, because 2 · 3 = 6. This sentence continues", "3. Yes.",
             "these were all answers", "1. It has", "2. In code:\n\n    x = 1", "no answer '4'; choose one of 1, 2, 3"]
    places = [output.index(text) for text in texts[:3]]
    places += [output.index(text, places[-1]) for text in texts[3:]]
    assert places == sorted(places) and output.count("3. Yes.") == 1


@pytest.mark.slow
def test_a_straight_run_prints_no_answers(tiny):
    path = tiny()
    write_answers(path)
    run = python(path, timeout=60)
    assert run.returncode == 0 and "It has six" not in run.stdout


@pytest.mark.slow
def test_a_lesson_whose_output_is_cut_ends_without_a_traceback(tiny):
    """As in `lesson 05 | head -1`: the reader closes the pipe while the lesson still prints."""
    path = tiny()
    path.write_text(path.read_text(encoding="utf-8").replace("show(x=x)", "print('many lines\\n' * 99_999)"),
                    encoding="utf-8")
    child = subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={**os.environ, "PYTHONPATH": str(ROOT)})
    child.stdout.readline()
    child.stdout.close()
    error = child.stderr.read()
    child.stderr.close()
    assert child.wait(60) == 141 and error == b""          # 128 + SIGPIPE, as shells report it


@pytest.mark.slow
def test_straight_through_the_first_error_ends_it(tiny):
    path = tiny()
    path.write_text(path.read_text(encoding="utf-8").replace("show(x=x)", "x / y"), encoding="utf-8")
    run = python(path, timeout=60)
    assert run.returncode == 1 and "line 15, in <module>\n    x / y" in run.stderr and "NameError" in run.stderr
    assert "steps.py" not in run.stderr and "✓" not in run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("before", ["builtins.get_ipython = print", "sys.argv = ['kernel', '-f', 'x.json']"])
def test_in_an_editor_whose_cells_know_their_file_start_runs_nothing(tiny, before):
    code = (f"import builtins, sys\n__file__ = {str(tiny())!r}\nsys.argv = [__file__]\n{before}\n"
            "exec(compile(open(__file__, encoding='utf-8').read(), __file__, 'exec'))\nprint('x' in vars())")
    run = python("-c", code, timeout=60)
    assert run.returncode == 0 and run.stderr == "" and run.stdout.endswith("True\n")
    assert run.stdout.count("✓") == 1 and "Numbers" not in run.stdout


FIGURE = LESSON.replace("SIX", "6").replace("show(x=x)", """from matplotlib.figure import Figure
from numpy_transformer.course import figure
figure("empty", Figure())""")


@pytest.mark.slow
def test_the_path_of_a_figure_is_given_where_no_program_shows_it(tiny):
    path = tiny()
    path.write_text(FIGURE, encoding="utf-8")
    output, code = step(path, "\n", "\n", "6\n", "\n", "o\n", "q\n", DISPLAY="", WAYLAND_DISPLAY="")
    picture = path.parents[1] / "my-figures" / "07_empty.png"
    assert code == 0 and picture.exists() and f"the figure is {picture}" in output.replace("\n    ", " ")


MODULES = LESSON.replace('rng = np.random.default_rng(0)', '''import numpy_transformer as nt

rng = np.random.default_rng(0)
layer, criterion = nt.Linear(3, 4, rng=rng), nt.CrossEntropyLoss()
loss = criterion(layer(rng.standard_normal((2, 3))), np.array([1, 3]))''').replace("SIX", "6")


def page_named_in(output):
    path = Path(re.search(r"(?:The page is|Open)\s+(\S+\.html)", output)[1])
    return path, document_of(path.read_text(encoding="utf-8"))


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("BROWSER", "true")       # a program that does nothing


@pytest.mark.slow
def test_e_opens_the_arrays_of_the_lesson(tiny, temporary):
    output, code = step(tiny(), "\n", "\n", "\n", "?\n", "e\n", "q\n")
    path, document = page_named_in(output)
    assert code == 0
    assert [value["id"] for value in document["values"]] == ["x"]
    assert document["title"] == "Lesson 07"


@pytest.mark.slow
def test_e_opens_the_latest_step_of_a_module_with_its_loss(tiny, temporary):
    path = tiny()
    path.write_text(MODULES, encoding="utf-8")
    output, code = step(path, "\n", "\n", "?\n", "\n", "e layer\n", "e rng\n", "e nothing\n", "q\n")
    _, document = page_named_in(output)
    assert code == 0
    assert [op["class"] for op in document["ops"]] == ["Linear", "CrossEntropyLoss"]
    assert "TypeError: rng is a Generator; e takes the name of a module" in output
    assert "NameError: name 'nothing' is not defined" in output
