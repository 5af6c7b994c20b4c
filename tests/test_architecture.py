"""Imports go one way, a bare import loads nothing slow, each backward follows its forward, and ids are np.intp."""

import ast
import re
from pathlib import Path

import pytest
from helpers.commands import python

import numpy_transformer

ROOT = Path(numpy_transformer.__file__).parent
LEVELS = {                                     # rooms in reading order: each may import those before it
    "the Transformer": ["first_use", "types", "argument_checks", "file_checks", "outputs", "threads", "markup", "parameter",
                        "tree", "display", "module", "layers", "models", "training", "decoding", "checks", "inspection"],
    "data, models and pictures": ["texts", "data", "views", "pretrained", "tasks", "zoo", "bench"],
    "the explorer": ["explorer"],
    "the course": ["course/lessons", "course/sandbox", "course/exercises", "course/checker", "course", "course/stages"],
    "teaching": ["grading"],
    "the command line": ["cli", "__main__"],
}
ROOMS = [room for rooms in LEVELS.values() for room in rooms]


def room_of(module):
    """The room of a module, such as course/checker for course.checker.verdict; "" for the face of the package."""
    parts = module.split(".")[1:]
    return next((room for room in ("/".join(parts[:2]), "/".join(parts[:1])) if room in ROOMS), "")


def modules():
    """All modules of the package, {dotted name: path}."""
    names = {".".join(path.relative_to(ROOT.parent).with_suffix("").parts): path for path in ROOT.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in names.items()}


def imported(name, path):
    """The package's modules that a module imports, at its top or inside a function."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = ".".join([*package[:len(package) - node.level + 1], *filter(None, [node.module])])
            whole = {f"{base}.{alias.name}" for alias in node.names} & MODULES.keys()
            yield from whole or {base}
        elif isinstance(node, (ast.ImportFrom, ast.Import)):        # the package imports its own modules with "from .."
            names = [getattr(node, "module", None)] + [alias.name for alias in node.names]
            assert not any(name and name.startswith("numpy_transformer") for name in names), path


TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")}
MODULES = modules()
IMPORTS = {name: set(imported(name, path)) - {name} for name, path in MODULES.items()}


def test_every_file_has_a_room():
    assert {room_of(name) for name in MODULES} - {""} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_down_only(room):
    above = ROOMS[ROOMS.index(room) + 1:]
    wrong = {(name, target) for name in MODULES if room_of(name) == room for target in IMPORTS[name] if room_of(target) in above}
    assert not wrong


@pytest.mark.parametrize("face", sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("__init__.py")
                                        if path.parent.name != "texts"))
def test_each_face_names_what_is_in_its_folder(face):
    """The file of a topic of exercises is found by its number; all others are named, each as NAME.py or FOLDER/."""
    text = ast.get_docstring(TREES[ROOT / face]) or ""
    inside = [path for path in (ROOT / face).parent.iterdir() if not path.name.startswith(("_", "."))]
    files = [path.name for path in inside if path.suffix == ".py" and "EXERCISES" not in path.read_text(encoding="utf-8")]
    missing = [name for name in files + [f"{path.name}/" for path in inside if path.is_dir()] if name not in text]
    assert not missing and set(re.findall(r"[\w/]+\.py\b", text)) <= {path.name for path in inside}


def test_pages_and_docstrings_name_files_that_exist():
    """Of the package; export.py and others like it are files of other projects or of readers, ex01_2.py those of students."""
    names = {path.name for path in ROOT.rglob("*.py")}
    elsewhere = {"export.py", "script.py", "FILE.py"}
    texts = {path: path.read_text(encoding="utf-8") for path in ROOT.rglob("*.md")}
    texts |= {path: ast.get_docstring(tree) or "" for path, tree in TREES.items()}
    missing = {(path.relative_to(ROOT).as_posix(), name) for path, text in texts.items()
               for name in re.findall(r"(?<![\w/.])[a-zA-Z_]\w*\.py\b", text)
               if name not in names | elsewhere and not re.search(r"ex(ercise_)?\d\d_", name)}
    assert not missing


def test_no_modules_import_each_other_in_a_circle():
    """Files are taken away as long as one of them imports none of the others; a circle would stay."""
    left = {name: targets - {"numpy_transformer"} for name, targets in IMPORTS.items()}
    while free := {name for name, targets in left.items() if not targets & left.keys()}:
        left = {name: targets for name, targets in left.items() if name not in free}
    assert not left


def test_no_two_classes_have_one_name():
    """Exercises and the program of the stages are left out: what a student writes has the name of the class that it re-creates."""
    places = {}
    for name, path in MODULES.items():
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.ClassDef) and room_of(name) != "course/exercises" and ".stages.program." not in name:
                places.setdefault(node.name, []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


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
    run = python("-c", code, cwd=ROOT.parent)
    assert run.stdout.strip() == "[]", run.stderr


def test_backward_stands_right_under_forward():
    for path in [*(ROOT / "layers").glob("*.py"), *(ROOT / "models").glob("*.py")]:
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.ClassDef):
                methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
                if "forward" in methods:
                    assert methods[methods.index("forward") + 1] == "backward", (path.name, node.name)


def test_ids_are_np_intp():
    """With int64 ids, bincount, take and repeat raise where np.intp has 32 bits. Two files number pairs of ids in int64."""
    sources = {path.name: path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")
               if "exercises" not in path.relative_to(ROOT).parts}
    assert {name for name, text in sources.items() if re.search(r"\bint64\b", text)} == {"bigrams.py", "baselines.py"}


OF_THE_TRANSFORMER = {"layers", "models", "decoding", "checks", "pretrained"}
OURS = [(path, node) for path, tree in TREES.items() if path.relative_to(ROOT).parts[0] in OF_THE_TRANSFORMER
        for node in ast.walk(tree)]


def test_no_object_changes_its_class():
    """Only a planted mistake and what a reader of the explorer switches off do, in a model that exists already."""
    found = {path.relative_to(ROOT).as_posix() for path, tree in TREES.items() for node in ast.walk(tree)
             if isinstance(node, ast.Attribute) and node.attr == "__class__" and isinstance(node.ctx, ast.Store)}
    assert found == {"zoo/bug.py", "explorer/switches.py", "explorer/possibilities.py"}


def test_calls_of_our_own_functions_name_their_fifth_argument():
    """Functions that take any number of arguments, such as remember, are called with as many as there are."""
    of_any_number = {node.name for tree in TREES.values() for node in ast.walk(tree)
                     if isinstance(node, ast.FunctionDef) and node.args.vararg}
    own = {node.name for _, node in OURS if isinstance(node, (ast.FunctionDef, ast.ClassDef))} - of_any_number
    wrong = {f"{path.relative_to(ROOT)}, line {node.lineno}: {name_of(node)}" for path, node in OURS
             if isinstance(node, ast.Call) and name_of(node) in own and len(node.args) > 4}
    assert not wrong


def name_of(call):
    """The name of what is called: f for f(x), module.f(x) and self.f(x)."""
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def test_positions_and_caches_are_not_handed_through_attention_blocks_and_stacks():
    taking = {(path.relative_to(ROOT).as_posix(), node.name, argument.arg) for path, tree in TREES.items()
              for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and path.parent.name in ("layers", "models")
              for argument in (*node.args.args, *node.args.kwonlyargs) if argument.arg in ("cache", "positions")}
    attention = {"attention.py", "grouped.py", "position_bias.py", "flash.py", "multi_head.py", "blocks.py", "stacks.py"}
    assert taking and not {place for place in taking if Path(place[0]).name in attention}
