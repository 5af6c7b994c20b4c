"""What a stage is: a file of the reference program, what of it students write, and the parts that are checked."""

import ast
import functools
import inspect
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Callable

from ...texts import texts_of
from ..exercises.definition import Exercise
from . import drivers

PROGRAM = Path(__file__).parent / "program"
IN_THE_PACKAGE = f"{__package__}.program"
RELATIVE = re.compile(r"^(from )\.{1,2}(?:program\.)?(?=\w)", re.M)


def flat(source):
    """Returns the text of a file of the program as it stands in a student's folder, where files are imported by their names."""
    return RELATIVE.sub(r"\1", source)


def absolute(source):
    """Returns the text of a file of the program so that it can be run anywhere in the package."""
    return RELATIVE.sub(rf"\1{IN_THE_PACKAGE}.", source)


@functools.cache
def program_file(name):
    """Returns the text of a file of the reference program, such as "stage01_loss", as it stands in a student's folder."""
    return flat((PROGRAM / f"{name}.py").read_text(encoding="utf-8"))


@functools.cache
def driver_source(driver, own_file):
    """Returns the source of a driver with all that it uses, to be run after a file of the program.

    Parameters:
        driver : its name
        own_file : the file that it is run after; what the driver uses of other files of the program it imports
    """
    tree = ast.parse("\n".join(map(inspect.getsource, drivers.MODULES)))
    imported = {alias.asname or alias.name: (item, alias) for item in tree.body
                if isinstance(item, (ast.Import, ast.ImportFrom)) for alias in item.names if getattr(item, "level", 0) != 1}
    defined = {item.name: item for item in tree.body if isinstance(item, (ast.FunctionDef, ast.ClassDef))}
    defined |= {item.targets[0].id: item for item in tree.body if isinstance(item, ast.Assign)}
    used = [driver]
    for name in used:                           # the list grows meanwhile
        inside = {node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)} if name in defined else set()
        used += sorted(inside & (set(imported) | set(defined)) - set(used))
    lines = []
    for item, alias in (imported[name] for name in used if name in imported):
        if isinstance(item, ast.Import):
            lines.append(ast.unparse(ast.Import([alias])))
        elif not f"{item.module}".endswith(own_file):
            lines.append(ast.unparse(ast.ImportFrom(item.module, [alias], item.level)))
    parts = [ast.unparse(defined[name]) for name in reversed(used) if name in defined]
    return "\n\n\n".join(["\n".join(lines), *parts]) + "\n"


@dataclass(frozen=True, eq=False)
class StagePart(Exercise):
    """One thing that is checked in a stage: an exercise whose answer is what a driver makes of the student's file.

    Parameters: those of Exercise, and
        stage : number of the stage
        drives : function of drivers/, or None if the student's file has a function of the exercise's name
        checks : what it checks, such as "Linear.forward" and "Linear.backward"; names of what the student writes
        from_stage : True if the mistakes are edits of the stage's file; otherwise they are those of the exercise's solution
        wrong : names of outputs: the mistake is looked for in what leads to these; (): to all
    """

    stage: int = 0
    drives: Callable = None
    checks: tuple = ()
    from_stage: bool = False
    wrong: tuple = ()

    @property
    def texts(self):
        """{key: text} in the language of the moment."""
        return texts_of("stages/parts")[self.name] if self.from_stage else super().texts

    @property
    def most_steps(self):
        return 100_000                          # a driver generates many texts

    @property
    def entry(self):
        return self.drives.__name__ if self.drives else self.name

    @property
    def file(self):
        return f"{stage_files()[self.stage]}.py"

    @property
    def driver(self):
        return flat(driver_source(self.drives.__name__, stage_files()[self.stage])) if self.drives else ""

    @property
    def paths(self):
        """The outputs that are attributes; of what a driver returns, none, whatever their names are."""
        return super().paths if self.is_class else []

    @property
    def roots(self):
        if self.wrong and set(self.stored) == set(self.wrong):
            return ()
        return self.suspects

    @property
    def stored(self):
        return tuple(name for name in self.wrong if name.endswith(".grad"))

    @property
    def suspects(self):
        """The names in `checks` of what may be wrong: not of forward, if only gradients are."""
        if self.wrong and all(map(is_gradient, self.wrong)):
            return tuple(name for name in self.checks if not name.endswith(".forward")) or self.checks
        return self.checks

    @functools.cached_property
    def code(self):
        if not self.from_stage:
            return super().code
        name = stage_files()[self.stage]
        driver = driver_source(self.drives.__name__, name)
        return absolute(program_file_as_it_is(name)) + "\n\n" + absolute(driver)

    @functools.cached_property
    def given_code(self):
        return {} if self.from_stage else super().given_code


def is_gradient(name):
    """Returns True for the name of an output that a backward gives, such as "second dx" and "up.weight.grad"."""
    last = name.split()[-1]
    return "grad" in name or (last.startswith("d") and len(last) > 1)


def program_file_as_it_is(name):
    return (PROGRAM / f"{name}.py").read_text(encoding="utf-8")


@functools.cache
def stage_files():
    """Returns {number: name of the stage's file without its ending}."""
    return {int(path.stem[5:7]): path.stem for path in sorted(PROGRAM.glob("stage*.py"))}


def like(exercise, **changes):
    """Returns the StagePart that is an exercise of the course, with what is changed."""
    values = {entry.name: getattr(exercise, entry.name) for entry in fields(Exercise)}
    return StagePart(**{**values, **changes})
