"""Imports go one way, a bare import loads nothing slow, each backward follows its forward, and ids are np.intp."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import numpy_transformer

ROOT = Path(numpy_transformer.__file__).parent
FILES = {"parameter", "module", "argument_checks", "markup", "threads"}   # the parts that are one file
MAY_IMPORT = {
    "parameter": set(),
    "module": {"markup", "parameter"},
    "argument_checks": set(),
    "markup": set(),
    "threads": set(),
    "layers": {"module", "argument_checks", "threads"},
    "models": {"module", "argument_checks", "threads", "layers"},
    "training": {"module", "parameter", "argument_checks", "markup", "threads"},
    "decoding": {"argument_checks", "layers", "models"},
    "pretrained": {"module", "argument_checks", "layers", "models", "training"},
    "data": set(),
    "bench": {"module", "threads", "layers", "models", "training", "decoding", "explorer"},
    "views": {"module"},
    "inspection": {"module", "layers", "models", "markup"},
    "checks": {"module", "layers", "models", "training", "decoding", "markup"},
    "zoo": {"module", "layers", "models", "training", "checks"},
    "tasks": {"threads", "layers", "models", "module", "training", "decoding", "data", "pretrained"},
    "explorer": {"module", "argument_checks", "layers", "models", "inspection", "training", "data", "tasks", "zoo"},
    "cli": {"__version__", "explorer", "module", "threads", "layers", "models", "training", "decoding", "data", "views", "checks",
            "inspection", "classroom", "grading", "bench", "tasks", "zoo", "pretrained"},
    "grading": {"classroom"},
    "classroom": {"module", "threads", "layers", "models", "training", "decoding", "data", "views", "checks", "inspection",
                  "explorer", "markup"},
}


def imported_parts(path):
    """The package's own parts that a file imports."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        absolute = ([node.module] if isinstance(node, ast.ImportFrom) and not node.level else
                    [alias.name for alias in node.names] if isinstance(node, ast.Import) else [])
        yield from (name for name in absolute if name.startswith("numpy_transformer"))     # it says "from .." instead
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[:len(package) - node.level + 1], *(node.module or "").split(".")]
            base = [part for part in base if part]
            yield from [base[0]] if base else [alias.name for alias in node.names]


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_go_one_way(part):
    paths = [ROOT / f"{part}.py"] if part in FILES else sorted((ROOT / part).rglob("*.py"))
    assert paths
    found = {name for path in paths for name in imported_parts(path)} - {part}
    assert found <= MAY_IMPORT[part]


def test_every_package_has_its_allowed_imports():
    assert {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} | FILES == set(MAY_IMPORT)


def test_only_views_imports_matplotlib():
    users = {path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py")
             if re.search(r"^\s*(import|from) matplotlib", path.read_text(encoding="utf-8"), re.M)}
    assert users == {"views"}


@pytest.mark.parametrize("name", [
    "numpy_transformer", "numpy_transformer.cli",
    pytest.param("numpy_transformer.grading.grader", marks=pytest.mark.slow)])
def test_a_bare_import_loads_nothing_slow(name):
    slow = {"matplotlib", "pytest", "torch", "numpy_transformer.zoo", "numpy_transformer.explorer", "http.server"}
    code = f"import sys, {name}; print(sorted({slow} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent,
                         env={**os.environ, "PYTHONPATH": str(ROOT.parent)})
    assert run.stdout.strip() == "[]", run.stderr


def test_backward_stands_right_under_forward():
    for path in [*(ROOT / "layers").glob("*.py"), *(ROOT / "models").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
                if "forward" in methods:
                    assert methods[methods.index("forward") + 1] == "backward", (path.name, node.name)


def test_ids_are_np_intp():
    """With int64 ids, bincount, take and repeat raise where np.intp has 32 bits. Two files number pairs of ids in int64."""
    sources = {path.name: path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py") if "exercises" not in path.parts}
    assert {name for name, text in sources.items() if re.search(r"\bint64\b", text)} == {"bigrams.py", "baselines.py"}
