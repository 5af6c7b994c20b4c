"""What an editor and the API pages show of the public names: docstrings, and type hints."""

import ast
import importlib
import html
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import numpy_transformer as nt
from numpy_transformer import layers, models

ROOT = Path(nt.__file__).parent
OPEN_ROOMS = ("training", "checks", "inspection", "pretrained", "tasks", "explorer")   # whose public names have type hints
TYPED = ["module", "parameter", "tree", "display", "argument_checks", "first_use", "layers", "models", "decoding/cache",
         "course/exercise", "zoo/__init__", "zoo/bug"]      # files and rooms in which every public callable has them
DESCRIBED_BY_THEIR_CLASS = ("forward", "backward")


def public_callables():
    """(name, function or class) of all public names, and of the methods of typed rooms."""
    for name in nt.__all__:
        value = getattr(nt, name)
        if inspect.ismodule(value):
            continue
        yield name, value
        if inspect.isclass(value) and value.__module__.split(".")[1] in OPEN_ROOMS:
            for key, method in vars(value).items():
                function = getattr(method, "__func__", method)
                if inspect.isfunction(function) and not key.startswith("_"):
                    yield f"{name}.{key}", getattr(value, key)


def test_every_public_name_has_a_docstring():
    names = [name for name, value in public_callables() if not inspect.getdoc(value)
             and name.rpartition(".")[2] not in DESCRIBED_BY_THEIR_CLASS]
    assert names == []


@pytest.mark.parametrize("name", [f"{room.__name__}.{info.name}" for room in (layers, models)
                                  for info in pkgutil.iter_modules(room.__path__)])
def test_every_public_function_and_method_of_layers_and_models_has_a_docstring(name):
    """A method may have that of its base class."""
    module = importlib.import_module(name)
    own = {key: value for key, value in vars(module).items() if getattr(value, "__module__", None) == name}
    for cls in [value for value in own.values() if inspect.isclass(value)]:
        own |= {f"{cls.__name__}.{key}": getattr(cls, key) for key in vars(cls) if key not in DESCRIBED_BY_THEIR_CLASS}
    public = {key: value for key, value in own.items() if "_" not in (key[0], key.rpartition(".")[2][0])}
    described = {key: inspect.getdoc(value) for key, value in public.items() if callable(value) or isinstance(value, property)}
    assert [key for key, text in described.items() if not text] == []


def test_public_names_have_type_hints():
    found = []
    for name, value in public_callables():
        if value.__module__.split(".")[1] not in OPEN_ROOMS:
            continue
        signature = inspect.signature(value.__init__ if inspect.isclass(value) else value)
        kinds = [parameter.annotation for key, parameter in signature.parameters.items() if key != "self"]
        if signature.empty in (*kinds, signature.return_annotation):
            found.append(name)
    assert found == []


def functions_in(body, prefix=""):
    """(name, node) of the public functions, constructors and methods of public classes in this part of a file."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and (node.name == "__init__" or not node.name.startswith("_")):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions_in(node.body, f"{prefix}{node.name}.")


def is_typed(function):
    """Whether all parameters, but for self or cls, and the result have a type hint."""
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs, function.args.vararg,
                  function.args.kwarg]
    return function.returns is not None and all(p.annotation or p.arg in ("self", "cls") for p in parameters if p)


@pytest.mark.parametrize("room", TYPED)
def test_every_public_callable_of_a_file_has_type_hints(room):
    paths = [ROOT / f"{room}.py"] if (ROOT / f"{room}.py").exists() else [*(ROOT / room).rglob("*.py")]
    found = [(path.name, name, is_typed(function)) for path in paths
             for name, function in functions_in(ast.parse(path.read_text(encoding="utf-8")).body)]
    assert found and [item for item in found if not item[-1]] == []


@pytest.mark.parametrize("name", [name for name in models.__all__ if name not in ("make_model", "transformer_2017")])
def test_the_signature_of_a_model_shows_the_types_of_its_settings(name):
    parameters = inspect.signature(getattr(nt, name)).parameters.values()
    assert parameters and [p.name for p in parameters if p.annotation is p.empty] == []


def test_names_of_faces_are_written_out_so_that_editors_can_read_them():
    """With a computed __all__, `from .layers import *` gives mypy no names, and everything in nt has type Any."""
    for path in ROOT.rglob("__init__.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                assert ast.literal_eval(node.value), path


SCRIPT = """
import numpy as np
import numpy_transformer as nt

class Own(nt.Module):
    def forward(self, x: np.ndarray) -> np.ndarray:
        return x
    def backward(self, dout: np.ndarray) -> np.ndarray:
        return dout

model = nt.freeze(nt.CausalLanguageModel(11, 8, 2, 1, rng=np.random.default_rng(0))).eval()
model.decoder.blocks.append(nt.Block(Own(), Own(), Own(), Own()))
model.embedding.weight.grad = 0
reveal_type(model)
reveal_type(nt.Linear(3, 4, rng=1).weight.grad)
nt.Linear("3", 4)
"""


@pytest.mark.slow
def test_mypy_understands_what_a_script_does(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", "--check-untyped-defs",
                           "--cache-dir", tmp_path, tmp_path / "script.py"], capture_output=True, text=True, cwd=ROOT.parent)
    model, grad, *errors, _ = done.stdout.splitlines()
    assert model.endswith('type is "numpy_transformer.models.decoder.CausalLanguageModel"') and "numpy.ndarray" in grad
    assert len(errors) == 1 and 'Argument 1 to "Linear" has incompatible type "str"; expected "int"' in errors[0]


@pytest.mark.slow
def test_the_api_pages_are_built_and_have_every_public_name(tmp_path):
    pytest.importorskip("pdoc")
    done = subprocess.run([sys.executable, "-m", "pdoc", "-t", ".ci/pdoc", "--output-directory", tmp_path,
                           "numpy_transformer"],
                          capture_output=True, text=True, cwd=ROOT.parent)
    page = (tmp_path / "numpy_transformer.html").read_text(encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert [name for name, _ in public_callables() if f'id="{name}"' not in page] == []
    layout = html.escape(inspect.getdoc(nt.SelfAttention)).replace("&#x27;", "&#39;")
    assert layout.count("\n") > 5 and f'<pre class="docstring">{layout}</pre>' in page
