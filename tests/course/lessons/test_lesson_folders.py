"""Where lessons are found, `lesson start`, where figures go, and lessons that come with an installed package."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from helpers import ROOT

from numpy_transformer.cli import main, make_parser
from numpy_transformer.course.lessons import environment, files
from numpy_transformer.course.lessons.files import find_lessons

SCRIPT = "from numpy_transformer.course import lesson\n\nlesson.start(__name__)\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def script(path, text=SCRIPT):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def refused(capsys, *arguments):
    """The sentence of a call that is refused."""
    assert main(list(arguments)) == 2
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1 and "Traceback" not in printed.err
    return printed.err


def test_lessons_are_looked_for_from_near_to_far(here, tmp_path, monkeypatch):
    installed, checkout = tmp_path / "installed", tmp_path / "checkout"
    monkeypatch.setattr(files, "CHECKOUT", checkout)
    monkeypatch.setattr(files, "installed_lessons", lambda: installed if installed.is_dir() else None)
    with pytest.raises(ValueError, match="no lessons in lessons/ here, and none were installed"):
        find_lessons()
    script(here / "plots" / "03_plot.py", "print('not a lesson')\n")
    for name in ("installed/05_a.py", "checkout/04_a.py", "here/b-lessons/03_a.py", "here/a-lessons/02_a.py", "here/01_a.py",
                 "here/lessons/00b_a.py"):
        script(tmp_path / name)
        found, = find_lessons().values()
        assert found.resolve() == tmp_path / name
    monkeypatch.chdir(here / "lessons")
    assert list(find_lessons()) == ["00b"]


def test_start_copies_the_lessons_and_changes_no_file_that_exists(here, capsys):
    assert main(["lesson", "start", "my-lessons"]) == 0
    out = capsys.readouterr().out
    lessons = ROOT / "lessons"
    names = sorted(path.relative_to(lessons) for path in lessons.rglob("*.*") if path.suffix in (".py", ".md"))
    assert f"{len(names)} files written to my-lessons\n" in out and "Start with: numpy-transformer lesson 00 --step" in out
    assert sorted(path.relative_to("my-lessons") for path in Path("my-lessons").rglob("*.*")) == names
    assert Path("my-lessons/05_attention.py").read_bytes() == (ROOT / "lessons/05_attention.py").read_bytes()
    Path("my-lessons/05_attention.py").write_text("mine")
    Path("my-lessons/06_masks.py").unlink()
    assert main(["lesson", "start", "my-lessons"]) == 0
    assert f"1 file written to my-lessons; {len(names) - 1} existed already" in capsys.readouterr().out
    assert Path("my-lessons/05_attention.py").read_text() == "mine"
    assert find_lessons()["06"] == Path("my-lessons/06_masks.py")
    assert main(["lesson", "start", "a/b"]) == 0 and "Start with: cd a/b, then numpy" in capsys.readouterr().out


@pytest.mark.parametrize("folder, figures", [("my-lessons", "my-lessons/my-figures"), ("lessons", "my-figures")])
def test_the_links_of_copied_pages_lead_to_files_that_are_there_or_will_be_drawn(here, folder, figures):
    assert main(["lesson", "start", folder]) == 0
    original = re.findall(r"\]\(\.\./figures/(\w+\.png)\)", (ROOT / "lessons" / "README.md").read_text(encoding="utf-8"))
    drawn = []
    for page in Path(folder).rglob("*.md"):
        for link in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text(encoding="utf-8")):
            target = Path(os.path.normpath(page.parent / link))
            assert target.exists() or target.parent == Path(figures), (page, link)
            drawn += [target.name] if page.name == "README.md" and target.parent == Path(figures) else []
    assert drawn == original and len(drawn) > 20


@pytest.mark.parametrize("arguments, words", [
    (["start"], "name a folder for the lessons, as in numpy-transformer lesson start my-lessons"),
    (["start", ""], "name a folder for the lessons"), (["start", "05"], "'05' looks like the number of a lesson"),
    (["start", "a-file"], "a-file is a file; name a folder"), (["start", "a-file/b/c"], "a-file is a file; name a folder"),
    (["start", str(ROOT / "lessons")], "contains the lessons themselves"),
    (["start", "new", "--step"], "start runs none"), (["list", "--step"], "list runs none"),
    (["05", "new"], "'new' would have no effect after '05'"), (["start", "new", "--out", "x.ipynb"], "--out is the file of a notebook"),
    (["notebook"], "name a lesson, as in"), (["notebook", "99"], "there is no lesson '99'"),
    (["notebook", "05", "--out", "x.txt"], "not the name of a notebook; use one that ends in .ipynb"),
    (["notebook", "05", "--out", "nowhere/x.ipynb"], "there is no folder 'nowhere'"),
    (["notebook", "05", "--out", "old.ipynb"], "exists already and may contain your work")])
def test_bad_targets_are_refused_with_one_sentence(here, capsys, arguments, words):
    Path("a-file").touch()
    Path("old.ipynb").write_text("mine")
    assert words in refused(capsys, "lesson", *arguments)
    assert sorted(path.name for path in Path().iterdir()) == ["a-file", "old.ipynb"]
    assert Path("old.ipynb").read_text() == "mine"


@pytest.mark.parametrize("main_file, folder, current, figures", [
    ("lessons/05_a.py", None, ".", "my-figures"), ("my-lessons/05_a.py", None, ".", "my-lessons/my-figures"),
    ("share/lessons/05_a.py", "share/lessons", "work", "work/my-figures"), (None, None, "lessons", "my-figures"),
    (None, None, "work", "work/my-figures")])
def test_figures_go_next_to_the_lessons_or_to_the_current_folder(here, monkeypatch, main_file, folder, current, figures):
    (here / current).mkdir(exist_ok=True)
    monkeypatch.chdir(here / current)
    module = ModuleType("__main__")
    if main_file is not None:
        module.__file__ = str(here / main_file)
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.setattr(environment, "installed_lessons", lambda: folder and here / folder)
    assert environment.figure_folder().resolve() == here / figures


def test_what_a_reader_draws_in_a_checkout_goes_to_a_folder_that_git_ignores(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(environment, "script", lambda: ROOT / "lessons" / "05_attention.py")
    assert environment.figure_folder().resolve() == ROOT / make_parser().parse_args(["demo"]).figures
    assert f"{environment.figure_folder().name}/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert make_parser().parse_args(["figures"]).out == "figures"               # the author's command


@pytest.mark.parametrize("given, names, variables, number", [
    ("19", {}, {}, "19"), (None, {"__file__": "/a/lessons/00b_x.py"}, {}, "00b"),
    (None, {"__vsc_ipynb_file__": "/a/08_norm.ipynb"}, {}, "08"), (None, {}, {"JPY_SESSION_NAME": "/a/19_opt.ipynb"}, "19"),
    ("07", {"__vsc_ipynb_file__": "/a/my own.ipynb"}, {}, "07"), (None, {"__vsc_ipynb_file__": "/a/mine.ipynb"}, {}, None)])
def test_the_number_of_the_lesson_is_known_in_notebooks_too(monkeypatch, given, names, variables, number):
    module = ModuleType("__main__")
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.setattr(environment, "given_number", given)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert environment.running_lesson() == number


@pytest.mark.skipif(os.name == "nt", reason="os.kill ends the process there")
def test_ctrl_c_while_a_lesson_imports_its_modules_is_no_traceback(here, capfd):
    script(here / "lessons" / "05_a.py", "import os, sys\nprint(sys.argv == [__file__], sys.path[0], __name__, flush=True)\n"
                                         "os.kill(os.getpid(), 2)\nprint('after')\n")
    assert main(["lesson", "05"]) == 130
    printed = capfd.readouterr()
    assert printed.out.strip() == f"True {here / 'lessons'} __main__" and printed.err == ""


@pytest.mark.slow
def test_lessons_come_with_an_installed_package(here, tmp_path):
    pytest.importorskip("setuptools", minversion="70.1")    # older ones need another package to build wheels
    source, target = tmp_path / "source", tmp_path / "venv"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".git", "*.egg-info", "__pycache__", "tests", "figures"))
    for kind in ("sdist", "wheel"):
        build = f"from setuptools import build_meta; build_meta.build_{kind}({str(tmp_path)!r})"
        subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    wheel, sdist = *tmp_path.glob("*.whl"), *tmp_path.glob("*.tar.gz")
    wanted = {path.name for path in (ROOT / "lessons").glob("*.py")} | {"README.md"}
    with tarfile.open(sdist) as archive:
        assert wanted <= {Path(name).name for name in archive.getnames() if Path(name).parent.name == "lessons"}
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if Path(name).parent.name == "lessons"]
    assert wanted <= {Path(name).name for name in names if not name.startswith("numpy_transformer/")}
    assert any(name.endswith("lessons/answers/02_backward_by_hand.md") for name in zipfile.ZipFile(wheel).namelist())
    assert not any(files.lesson_number(name) for name in names if name.startswith("numpy_transformer/"))

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", target], check=True)
    python = target / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index",
           "--ignore-installed", wheel]
    if subprocess.run(pip, capture_output=True).returncode:
        pytest.skip("pip cannot install into another environment here")
    packages, = target.rglob("numpy_transformer/__init__.py")
    others = "\n".join(path for path in sys.path if "site-packages" in path)              # NumPy and matplotlib
    (packages.parents[1] / "others.pth").write_text(others)
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    environment.pop("PYTHONPATH", None)

    def lesson(*arguments):
        return subprocess.run([python, "-m", "numpy_transformer", "lesson", *arguments], capture_output=True, text=True,
                              encoding="utf-8", env=environment, cwd=here)
    before = {path for path in target.rglob("*") if "__pycache__" not in path.parts}
    assert "\n00  Why attention" in lesson().stdout
    run = lesson("02")
    assert run.returncode == 0 and "figure: my-figures/02_" in run.stdout.replace(os.sep, "/"), run.stderr
    assert list((here / "my-figures").glob("02_*.png"))
    assert {path for path in target.rglob("*") if "__pycache__" not in path.parts} == before
    assert lesson("start", "my-lessons").returncode == 0
    assert lesson("02").stdout.replace(os.sep, "/").count("figure: my-lessons/my-figures/02_") == run.stdout.count("figure: ")
