"""The code on the pages prints what they show, their commands are commands, and their links lead somewhere."""

import os
import re
import shlex

import pytest
from helpers import ROOT
from helpers.commands import python

import numpy_transformer as nt
from numpy_transformer.cli import make_parser
from numpy_transformer.course.lessons.files import lessons_in
from numpy_transformer.course.stages.folder import start_folder
from numpy_transformer.course.stages.table import STAGES

PAGES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "lessons").glob("*.md"), ROOT / "figures/README.md", ROOT / "tests/README.md",
    ROOT / "numpy_transformer/bench/README.md", ROOT / "numpy_transformer/explorer/README.md"]}
BLOCKS = {name: re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S) for name, text in PAGES.items()}
README = BLOCKS["README.md"]
LESSONS = [block for name, blocks in BLOCKS.items() if name.startswith("lessons/") for block in blocks]
FIRST_OUTPUT = next(text for language, text in README if language == "text")


def plain(text):
    """Rounding differs from machine to machine: every error becomes one sign."""
    return re.sub(r"\b\d\.\de[-+]\d\d\b", "ERROR", text).strip()


def test_the_first_example_prints_its_output_and_its_page_is_saved(tmp_path):
    code, more = (code for language, code in README if language == "python")   # the second continues the first
    assert FIRST_OUTPUT.count("ok") == 9 and "zero" in FIRST_OUTPUT and "nt.explore(" in more
    code += more
    run = python("-c", code, cwd=tmp_path)
    assert plain(run.stdout) == plain(FIRST_OUTPUT), run.stderr
    assert "SelfAttention" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_recorder_prints_its_output():
    code, output = next((code, LESSONS[n + 1][1]) for n, (_, code) in enumerate(LESSONS) if "nt.record" in code)
    run = python("-c", code, cwd=ROOT)
    assert run.stdout == output, run.stderr


NOTES = BLOCKS["lessons/NOTES.md"]


@pytest.mark.slow
@pytest.mark.parametrize("code, output", [(code, output) for (_, code), (_, output) in zip(NOTES[::2], NOTES[1::2])])
def test_the_demonstrations_of_what_was_found_wrong_print_their_output(code, output):
    run = python("-c", f"import numpy_transformer\nnumpy_transformer.threads.set_blas_threads(1)\n{code}", cwd=ROOT)
    assert run.stdout == output, run.stderr


@pytest.mark.slow
def test_the_trace_prints_its_output():
    command, output = next((command, LESSONS[n + 1][1]) for n, (_, command) in enumerate(LESSONS)
                           if command.startswith("numpy-transformer trace"))
    words = shlex.split(command, comments=True)[1:]
    run = python("-m", "numpy_transformer", *words, cwd=ROOT)
    assert re.sub(r"\de-\d\d", "", run.stdout) == re.sub(r"\de-\d\d", "", output), run.stderr


def test_the_gallery_shows_every_picture():
    shown = set(re.findall(r'src(?:set)?="([^"]+)"', PAGES["figures/README.md"]))
    assert shown == {path.name for path in (ROOT / "figures").glob("[0-9][0-9]*_*.png")}
    assert sum((ROOT / "figures" / name).stat().st_size for name in shown) < 4e6


def test_the_first_picture_is_one_of_the_explorer():
    assert re.search(r"!\[.{50,}?\]\((.*?)\)", PAGES["README.md"], re.S)[1] == "figures/explorer.png"
    header = (ROOT / "figures/explorer.png").read_bytes()[:24]
    assert [int.from_bytes(header[n:n + 4], "big") for n in (16, 20)] == [1280, 800]
    assert (ROOT / "figures/explorer.png").stat().st_size < 300e3
    assert "explorer.png" in PAGES["figures/README.md"]


def test_a_loop_of_the_explorer_is_short():
    assert '<img src="figures/explorer.gif"' in PAGES["README.md"] and "explorer.gif" in PAGES["figures/README.md"]
    assert (ROOT / "figures/explorer.gif").read_bytes()[:6] == b"GIF89a" and (ROOT / "figures/explorer.gif").stat().st_size < 800e3


def test_the_printed_errors_are_inside_the_targets():
    rows = re.findall(r"(\d\.\de-\d\d) +(\d\.\de-\d\d)  ok", FIRST_OUTPUT)
    assert len(rows) == 9 and all(float(central) <= 1e-6 and float(exact) <= 1e-12 for central, exact in rows)


@pytest.mark.slow
def test_the_sample_of_a_wrong_gradient_is_real(tmp_path):
    output = next(text for _, text in LESSONS if text.startswith("built as MyLayerNorm"))
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
    run = python("-m", "numpy_transformer", "gradcheck", str(tmp_path / "mine.py") + ":MyLayerNorm", "--shape", "3,5,12", cwd=ROOT)
    assert run.returncode == 1 and plain(run.stdout) == plain(output), run.stderr


def test_the_block_of_the_law_is_the_code():
    """The two methods are the pre-norm half of Block's."""
    shown = next(code for _, code in BLOCKS["CONTRIBUTING.md"] if code.startswith("def forward(self, x, mask=None)"))
    source = (ROOT / "numpy_transformer/layers/blocks.py").read_text(encoding="utf-8")
    bodies = [[line.strip() for line in method.splitlines()[1:] if line] for method in shown.split("def ")[1:]]
    assert [len(body) for body in bodies] == [3, 3]
    for *body, result in bodies:
        assert "\n".join("            " + line for line in body) in source and f"        {result}\n" in source


def test_the_formulas_of_a_linear_layer_are_the_code():
    (_, code), = BLOCKS["numpy_transformer/explorer/README.md"]
    assert code.count("yield") == 4
    assert code in (ROOT / "numpy_transformer/explorer/formulas/layers.py").read_text(encoding="utf-8")


def test_the_commands_shown_are_commands():
    lines = [line for blocks in BLOCKS.values() for language, text in blocks if language == "text"
             for line in text.splitlines() if re.match(r"(mpiexec -n \d )?numpy-transformer ", line)]
    lines += re.findall(r"`(numpy-transformer [^`]+)`", PAGES["README.md"])
    assert len(lines) > 60
    parser = make_parser()
    for line in lines:
        line = line.partition("numpy-transformer ")[1] + line.partition("numpy-transformer ")[2]
        words = shlex.split(line, comments=True)[1:]
        parser.parse_args(words[:words.index("<")] if "<" in words else words)


@pytest.mark.slow
def test_the_training_example_runs(tmp_path):
    code = next(code for language, code in LESSONS if language == "python" and "trainer.fit" in code)
    run = python("-c", code, cwd=tmp_path)
    assert run.returncode == 0 and (tmp_path / "reverse.npz").exists(), run.stderr
    texts = [line.rsplit(" ", 1) for line in run.stdout.splitlines()[-2:]]
    assert all(text.isalpha() and float(score) < 0 for text, score in texts)


@pytest.fixture
def built(tmp_path):
    """A folder in which a student has written the first seven stages, and has not checked them yet."""
    start_folder(tmp_path, 7, {stage: stage.solution for stage in STAGES.values()})
    return tmp_path


BUILD = BLOCKS["lessons/BUILD.md"]


@pytest.mark.slow
def test_the_layers_of_a_student_work_with_our_tools(built):
    code, = (code for language, code in BUILD if language == "python")
    (built / "look.py").write_text(code, encoding="utf-8")
    run = python("look.py", cwd=built)
    assert run.stdout.count("ok") == 17 and "norm1.gamma" in run.stdout, run.stderr
    assert "Block" in (built / "block.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_checks_of_stages_print_their_output(built):
    wrong, right = (text for language, text in BUILD if text.startswith("Stage 5"))
    for number in "1234":
        assert python("-m", "numpy_transformer", "build", "check", number, cwd=built).returncode == 0
    file = built / STAGES[5].file
    factor = " / math.sqrt(q.shape[-1])"
    correct = file.read_text(encoding="utf-8")
    file.write_text("".join(correct.rsplit(factor, 1)), encoding="utf-8")          # the one in backward
    run = python("-m", "numpy_transformer", "build", "check", "5", cwd=built)
    assert run.returncode == 1 and run.stdout.startswith(wrong), run.stdout + run.stderr
    file.write_text(correct, encoding="utf-8")
    run = python("-m", "numpy_transformer", "build", "check", "5", cwd=built)
    shown = re.sub(r"\de-\d\d", "", run.stdout)
    assert run.returncode == 0 and shown.startswith(re.sub(r"\de-\d\d", "", right)), run.stdout + run.stderr


def test_the_page_of_the_stages_shows_all_of_them():
    rows = re.findall(r"^\| (\d+) \| (.*?) \| `(.*?)` \| (\d+) \| (\d+) \| (.*?) \|$", PAGES["lessons/BUILD.md"], re.M)
    assert [row[:5] for row in rows] == [(str(stage.number), stage.title, stage.file, str(stage.minutes), str(stage.points))
                                         for stage in STAGES.values()]
    for (*_, lessons), stage in zip(rows, STAGES.values()):
        ranges = [(part.split(" to ")[0], part.split(" to ")[-1]) for part in lessons.split(", ")]
        assert list(stage.lessons) == [number for number in lessons_in(ROOT / "lessons")
                                       if any(first <= number <= last for first, last in ranges)]


def test_two_commands_stand_alone_in_shell_blocks():
    commands = [text for blocks in BLOCKS.values() for language, text in blocks if language == "sh"]
    assert len(commands) == 2 and all(c.startswith("python3 -m venv") and c.count("\n") == 1 for c in commands)
    assert commands[0].strip() in PAGES["README.md"]
    assert "-e . &&" in commands[0] and "numpy-transformer demo" in commands[0]
    assert '-e ".[test]"' in commands[1] and "pytest" in commands[1]


def test_the_readme_can_be_read_in_five_minutes():
    text = re.sub(r"^```.*?^```$", "", PAGES["README.md"], flags=re.M | re.S)
    assert len(text.split()) < 1100 and PAGES["README.md"].count("\n") <= 150       # 220 words a minute


def test_the_files_of_the_project_agree_with_its_version_and_name_no_host():
    """No address of this project is known, so none may be made up."""
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in (
        "CHANGELOG.md", "CITATION.cff", "setup.cfg", ".github/workflows/tests.yml")}
    assert all(nt.__version__ in texts[name] for name in ("CHANGELOG.md", "CITATION.cff"))
    assert not [name for name, text in texts.items() if re.search(r"https?://", text)]
    assert "run: .ci/run" in texts[".github/workflows/tests.yml"] and os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_and_a_heading(page):
    targets = {target for pair in re.findall(r"\]\(([^)]+)\)|(?:src|href|srcset)=\"([^\"]+)\"", PAGES[page]) for target in pair if target}
    assert [target for target in sorted(targets) if not leads_somewhere(page, target)] == []


def leads_somewhere(page, target):
    """Whether the file of a link is there, and in it the heading that the link names."""
    path, _, anchor = target.partition("#")
    found = (ROOT / page).parent / path if path else ROOT / page
    if not found.exists() or not anchor:
        return found.exists()
    headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), re.M)
    return anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_a_link_to_nowhere_is_found():
    assert not leads_somewhere("README.md", "lessons/README.md#nothing") and not leads_somewhere("README.md", "nothing.md")
    assert leads_somewhere("README.md", "lessons/README.md#syllabus")
