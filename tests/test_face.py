"""The face of the package: which names it offers, and that rooms that few need open on first use."""

import ast
import importlib
import inspect
import json
import types
from pathlib import Path

import pytest
from helpers.commands import python

import numpy_transformer as nt

ROOMS = ("module", "layers", "models", "training", "decoding", "checks", "inspection", "pretrained")


def names_after(code):
    """The modules of this package that are loaded after this code has run in a process of its own."""
    done = python("-c", f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))")
    assert done.returncode == 0, done.stderr
    return [name for name in json.loads(done.stdout) if name.split(".")[0] == "numpy_transformer"]


def test_an_import_loads_at_most_fifty_modules_and_a_name_opens_its_room():
    loaded = names_after("import numpy_transformer as nt")
    assert 30 < len(loaded) <= 50
    assert "numpy_transformer.training.trainer" not in loaded
    assert "numpy_transformer.training.trainer" in names_after("import numpy_transformer as nt; nt.Trainer")


def test_dir_offers_the_public_names_and_only_modules_that_are_meant():
    assert dir(nt) == sorted(nt.__all__) and len(nt.__all__) == len(set(nt.__all__))
    modules = {name for name in dir(nt) if isinstance(getattr(nt, name), types.ModuleType)}
    assert modules == {"zoo", "exercise"} and {"explore", "Linear", "Trainer", "gradcheck"} <= set(dir(nt))


def test_the_face_has_the_public_names_of_all_rooms_of_the_transformer():
    assert {"Module", "Parameter"} <= set(nt.__all__)
    for room in ROOMS[1:]:
        names = set(importlib.import_module(f"numpy_transformer.{room}").__all__)
        assert names & set(nt.__all__) if room == "pretrained" else names <= set(nt.__all__), room
    for name in nt.__all__:
        assert getattr(nt, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'numpy_transformer' has no attribute 'Transfromer'"):
        nt.Transfromer
    with pytest.raises(ImportError, match="Trainr"):
        from numpy_transformer.training import Trainr  # noqa: F401


@pytest.mark.parametrize("face", [nt, nt.layers, nt.training], ids=lambda face: face.__name__)
def test_editors_see_exactly_the_names_that_open_on_first_use(face):
    """Imports under TYPE_CHECKING, which only editors and mypy read, have the names of the table."""
    tree = ast.parse(Path(face.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = [alias.asname or alias.name for node in block.body for alias in node.names]
    opened = inspect.getclosurevars(face.__getattr__).nonlocals["places"]
    assert sorted(seen) == sorted(opened) and set(seen) <= set(nt.__all__)
