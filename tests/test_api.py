"""What an editor and the API pages show of the public names: docstrings, and type hints."""

import inspect
import subprocess
import sys

import pytest

import numpy_transformer as nt

ROOMS = ("training", "checks", "inspection", "pretrained", "tasks", "explorer")         # whose signatures are typed
DESCRIBED_BY_THEIR_CLASS = ("forward", "backward")


def public_callables():
    """(name, function or class) of all public names, and of the methods of typed rooms."""
    for name in nt.__all__:
        value = getattr(nt, name)
        if inspect.ismodule(value):
            continue
        yield name, value
        if inspect.isclass(value) and value.__module__.split(".")[1] in ROOMS:
            for key, method in vars(value).items():
                function = getattr(method, "__func__", method)
                if inspect.isfunction(function) and not key.startswith("_"):
                    yield f"{name}.{key}", getattr(value, key)


def test_every_public_name_has_a_docstring():
    names = [name for name, value in public_callables() if not inspect.getdoc(value)
             and name.rpartition(".")[2] not in DESCRIBED_BY_THEIR_CLASS]
    assert names == []


def test_public_callables_of_typed_rooms_have_type_hints():
    found = []
    for name, value in public_callables():
        if value.__module__.split(".")[1] not in ROOMS:
            continue
        signature = inspect.signature(value.__init__ if inspect.isclass(value) else value)
        kinds = [parameter.annotation for key, parameter in signature.parameters.items() if key != "self"]
        if signature.empty in (*kinds, signature.return_annotation):
            found.append(name)
    assert found == []


@pytest.mark.slow
def test_the_api_pages_are_built_and_have_every_public_name(tmp_path):
    pytest.importorskip("pdoc")
    done = subprocess.run([sys.executable, "-m", "pdoc", "--output-directory", tmp_path, "numpy_transformer"],
                          capture_output=True, text=True)
    page = (tmp_path / "numpy_transformer.html").read_text(encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert [name for name, _ in public_callables() if f'id="{name}"' not in page] == []
