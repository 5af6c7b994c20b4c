"""A student's Python files as a program: which of them run together with files of the reference, and what keeps one from it."""

import ast
import re
import sys

from ...texts import Message
from .definition import program_file
from .table import LAW, STAGES

ALLOWED = {"numpy", *sys.stdlib_module_names}
STAGE_FILES = {stage.file: stage for stage in STAGES.values()}


def unwritten(stage, content):
    """Returns the functions and methods of a stage's file that still raise NotImplementedError, found line by line."""
    found, scope = [], ["", ""]
    for line in content.decode("utf-8", "replace").splitlines():
        match = re.match(r"( *)(?:class|def) (\w+)", line)
        if match:
            scope = [match[2], ""] if not match[1] else [scope[0], match[2]]
        elif line.strip().startswith("raise NotImplementedError"):
            found.append(".".join(filter(None, scope)))
    return [name for name in stage.write if name in found]


def program_of(files, mine):
    """Returns {name: bytes} of a whole program: these stages and all helpers are the student's, other stages the reference's.

    Parameters:
        files : {name: bytes} of the student's Python files
        mine : the stages that are the student's
    """
    reference = {f"{LAW}.py": program_file(LAW), **{name: stage.solution for name, stage in STAGE_FILES.items()}}
    own = {name: content for name, content in files.items()
           if name not in STAGE_FILES or STAGE_FILES[name] in mine}
    return {name: text.encode() for name, text in reference.items()} | own


def imports(tree):
    """Yields (module, names, line) of every import; the names are those that `from module import` asks for."""
    for item in ast.walk(tree):
        if isinstance(item, ast.Import):
            yield from ((alias.name.split(".")[0], (), item.lineno) for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            yield (item.module or "").split(".")[0], tuple(alias.name for alias in item.names), item.lineno


def parsed(content):
    """Returns the tree of a file, an empty one if it cannot be parsed."""
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def reached_from(name, files):
    """Returns the names of a student's file and of the helpers that it imports, directly or by another helper."""
    reached = [name]
    for at in reached:                          # the list grows meanwhile
        modules = {f"{module}.py" for module, _, _ in imports(parsed(files[at]))}
        reached += sorted((modules & set(files)) - set(reached) - set(STAGE_FILES))
    return reached


def borrowed(stage, files):
    """Returns the stages from whose files a student's file imports a name that the reference does not have there."""
    wanted = [(f"{module}.py", part) for name in reached_from(stage.file, files) for module, parts, _ in imports(parsed(files[name])) for part in parts]
    return [STAGE_FILES[file] for file in dict.fromkeys(file for file, part in wanted if file in STAGE_FILES
            and file in files and part not in names_in(ast.parse(STAGE_FILES[file].solution)))]


def complaint(stage, files):
    """Returns a Message about what keeps a stage's file, or a helper that it imports, from being run at all; or None."""
    for name in reached_from(stage.file, files):
        try:
            tree = ast.parse(files[name])
        except SyntaxError as error:
            return Message("stages/words.state.syntax", file=name, line=error.lineno or 1, error=error.msg)
        except (ValueError, RecursionError, MemoryError) as error:
            return Message("stages/words.state.unreadable", file=name, error=str(error) or "it is nested too deeply")
        own = {path.removesuffix(".py") for path in (*files, f"{LAW}.py", *STAGE_FILES)}
        for module, _, line in imports(tree):
            if module not in ALLOWED | own:
                return Message("stages/words.state.imports", file=name, line=line, module=module or ".")
    tree = ast.parse(files[stage.file])
    own = [item.name for item in tree.body if isinstance(item, (ast.FunctionDef, ast.ClassDef))]
    for name in stage.names:
        if name not in names_in(tree):
            kind = "renamed" if own else "without_names"
            return Message(f"stages/words.state.{kind}", file=stage.file, name=name, defined=", ".join(own))
    return None


def look_at(stage, files):
    """Returns what `complaint` and, without a complaint, `borrowed` say of a stage."""
    said = complaint(stage, files)
    return said, [] if said else borrowed(stage, files)


def names_in(tree):
    """Returns the names of functions, classes and variables that a module defines or imports, in their order."""
    names = []
    for item in tree.body:
        if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
            names.append(item.name)
        elif isinstance(item, (ast.Assign, ast.AnnAssign)):
            targets = item.targets if isinstance(item, ast.Assign) else [item.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
        elif isinstance(item, (ast.Import, ast.ImportFrom)):
            names += [alias.asname or alias.name for alias in item.names]
    return names
