"""The README's example prints what the README says, its commands stand alone, and its files exist."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from helpers import ROOT

from numpy_transformer.cli import make_parser

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.M | re.S)


def plain(text):
    """Rounding differs from machine to machine: every error becomes one sign."""
    return re.sub(r"\b\d\.\de[-+]\d\d\b", "ERROR", text).strip()


def test_the_first_example_prints_its_output():
    (language, code), (_, output) = BLOCKS[:2]
    assert language == "python" and output.count("ok") == 9 and "zero" in output
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert plain(run.stdout) == plain(output), run.stderr


def test_the_recorder_prints_its_output():
    code, output = next((code, BLOCKS[n + 1][1]) for n, (_, code) in enumerate(BLOCKS) if "nt.record" in code)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout == output, run.stderr


def test_the_trace_prints_its_output():
    command, output = next((command, BLOCKS[n + 1][1]) for n, (_, command) in enumerate(BLOCKS)
                           if command.startswith("numpy-transformer trace"))
    words = shlex.split(command, comments=True)[1:]
    run = subprocess.run([sys.executable, "-m", "numpy_transformer", *words], capture_output=True, encoding="utf-8",
                         cwd=ROOT, env={**os.environ, "PYTHONIOENCODING": "utf-8"})
    assert re.sub(r"\de-\d\d", "", run.stdout) == re.sub(r"\de-\d\d", "", output), run.stderr


def test_the_gallery_shows_every_picture():
    shown = set(re.findall(r'src="(figures/[^"]+)"', README))
    assert shown == {f"figures/{path.name}" for path in (ROOT / "figures").glob("[0-9][0-9]_*.png")}
    assert sum((ROOT / path).stat().st_size for path in shown) < 3e6


def test_the_printed_errors_are_inside_the_targets():
    rows = re.findall(r"(\d\.\de-\d\d) +(\d\.\de-\d\d)  ok", BLOCKS[1][1])
    assert len(rows) == 9 and all(float(central) <= 1e-6 and float(exact) <= 1e-12 for central, exact in rows)


def test_the_sample_of_a_wrong_gradient_is_real(tmp_path):
    output = next(text for _, text in BLOCKS if text.startswith("built as MyLayerNorm"))
    (tmp_path / "mine.py").write_text("""
import numpy_transformer as nt

class MyLayerNorm(nt.LayerNorm):
    def backward(self, dy):                 # the path through the deviation is missing
        x_hat, inverse_std = self.recall()
        self.beta.grad += dy.sum((0, 1))
        self.gamma.grad += (dy * x_hat).sum((0, 1))
        g = dy * self.gamma.data
        return (g - g.mean(-1, keepdims=True)) * inverse_std
""")
    run = subprocess.run([sys.executable, "-m", "numpy_transformer", "gradcheck",
                          str(tmp_path / "mine.py") + ":MyLayerNorm", "--shape", "3,5,12"],
                         capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 1 and plain(run.stdout) == plain(output), run.stderr


def test_the_block_of_the_law_is_the_code():
    """The two methods are the pre-norm half of EncoderBlock's, but for the positions and the cache."""
    shown = next(code for _, code in BLOCKS if code.startswith("def forward(self, x, mask=None)"))
    source = (ROOT / "numpy_transformer/layers/blocks.py").read_text(encoding="utf-8").replace(", positions, cache", "")
    bodies = [[line.strip() for line in method.splitlines()[1:] if line] for method in shown.split("def ")[1:]]
    assert [len(body) for body in bodies] == [2, 2]
    for body in bodies:
        assert "\n".join("            " + line for line in body) in source


def test_the_commands_shown_are_commands():
    lines = [line for language, text in BLOCKS if language == "text" for line in text.splitlines()
             if line.startswith("numpy-transformer ")]
    assert len(lines) > 10
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        make_parser().parse_args(words[:words.index("<")] if "<" in words else words)


def test_the_training_example_runs(tmp_path):
    code = next(code for language, code in BLOCKS if language == "python" and "trainer.fit" in code)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
                         env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert run.returncode == 0 and (tmp_path / "reverse.npz").exists(), run.stderr
    texts = [line.rsplit(" ", 1) for line in run.stdout.splitlines()[-2:]]
    assert all(text.isalpha() and float(score) < 0 for text, score in texts)


def test_two_commands_stand_alone_in_shell_blocks():
    commands = [text for language, text in BLOCKS if language == "sh"]
    assert len(commands) == 2 and all(c.startswith("python3 -m venv") and c.count("\n") == 1 for c in commands)
    assert "numpy-transformer demo" in commands[0] and ".[test]" in commands[1] and "pytest" in commands[1]


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)]+)\)", README))))
def test_what_the_readme_links_to_is_there(target):
    assert (ROOT / target).exists()
