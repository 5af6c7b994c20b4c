"""What an entry of the bug zoo is, how it is planted in a model, and which checks it fails."""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..checks.registry import CHECKS, OPTIMIZER_SAMPLES, SAMPLES
from ..module import Module
from .models import MODELS

Thing = TypeVar("Thing")

BUGS = {}                                       # {name: Bug}, filled by the other files of the zoo
HOBBY = "a published NumPy Transformer"         # one person's project, which is not named


@dataclass(frozen=True)
class Source:
    """Where a well-known project contained a bug. Every field that is given has been verified.

    Attributes:
        project : organization/repository, or only the project's name if a person's account owns it
        commit : abbreviated hash of a commit that contains the bug
        path : file
        place : line, function or class in the file
        reference : an issue or pull request about the bug
    """

    project: str
    commit: str = ""
    path: str = ""
    place: str = ""
    reference: str = ""

    def __str__(self) -> str:
        commit = f"commit {self.commit}" if self.commit else ""
        return ", ".join(filter(None, [self.project, commit, self.path, self.place, self.reference]))


@dataclass(frozen=True)
class Bug:
    """A mistake in one class.

    Attributes:
        name : short name with hyphens
        title : what is wrong
        wrong : subclass of the correct class that overrides what is wrong
        seen : Source, or a description of the published code that had the bug; "" if none is known
        symptom : what one notices
        training : how the loss of a small model behaves
        caught_by : names of the checks that fail
        samples : components on which it is judged; empty: chosen by `samples_of`
    """

    name: str
    title: str
    wrong: type
    seen: "Source | str"
    symptom: str
    training: str
    caught_by: tuple
    samples: tuple

    @property
    def target(self) -> type:
        """The correct class, which the bug replaces."""
        return next(cls for cls in self.wrong.__mro__ if not cls.__module__.startswith(__package__))

    @property
    def topic(self) -> str:
        """The kind of mistake: the first line of the file that defines the bug."""
        return inspect.getmodule(self.wrong).__doc__.splitlines()[0].removesuffix(".")

    @property
    def code(self) -> str:
        """The source of the wrong class without its decorator and docstring."""
        source = inspect.getsource(self.wrong)
        head, _, body = source[source.index("class "):].partition('"""\n')
        return head.partition("\n")[0] + "\n" + body.lstrip("\n")


def bug(name: str, seen: Source | str = "", *, symptom: str, training: str, caught_by: Iterable[str],
        samples: tuple[Any, ...] = ()) -> Callable[[type], type]:
    """Adds the decorated class to BUGS. The first line of its docstring is the bug's title."""
    def enter(wrong):
        title = inspect.getdoc(wrong).splitlines()[0].rstrip(".")
        BUGS[name] = Bug(name, title, wrong, seen, symptom, training, tuple(caught_by), samples)
        return wrong
    return enter


def find(name: str | Bug) -> Bug:
    """Returns the Bug with this name; a Bug is returned as it is. Raises ValueError that suggests similar names."""
    if isinstance(name, Bug):
        return name
    if not isinstance(name, str) or name not in BUGS:
        similar = ", ".join(difflib.get_close_matches(str(name).lower(), BUGS, 3, 0.4))
        hint = f"similar names: {similar}; " if similar else ""
        raise ValueError(f"there is no bug {name!r} among the {len(BUGS)} in the zoo; "
                         f"{hint}nt.zoo.bugs() and numpy-transformer zoo list all of them")
    return BUGS[name]


def apply(name: str | Bug, thing: Thing) -> Thing:
    """Plants a bug in a model, a loss, an optimizer or a schedule, in place, and returns it.

    Every part that is an instance of the bug's target is changed: it keeps its weights, and the wrong methods replace
    the target's own. In a subclass, methods that the subclass overrides stay as they are, so a bug of
    MultiHeadAttention also works in SelfAttention. The same holds for methods that an earlier bug overrides. Like the
    code that contained them, a few bugs require queries as long as keys, or heads that are not grouped, and otherwise
    raise an error.

    Parameters:
        name : name of the bug, or a Bug
        thing : Module, loss, optimizer or schedule
    Raises:
        ValueError for an unknown name, or if `thing` has no part of the bug's target class
    """
    bug = find(name)
    parts = [part for part in modules_of(thing) if isinstance(part, bug.target)]
    if not parts:
        raise ValueError(f"{bug.name!r} is a bug of {bug.target.__name__}, and this {type(thing).__name__} contains "
                         "none; plant it in something that does")
    for part in parts:
        cls = type(part)
        if cls is bug.target:
            part.__class__ = bug.wrong
        elif not isinstance(part, bug.wrong):
            part.__class__ = type(bug.wrong.__name__, (cls, bug.wrong), {})
        if hasattr(bug.wrong, "build_tables"):
            part.build_tables(next((p.data.dtype for p in thing.parameters()), np.float32))
    return thing


def modules_of(thing: Any) -> list[Any]:
    """Returns a model and all modules inside it, or anything else by itself."""
    return [module for _, module in thing.named_modules()] if isinstance(thing, Module) else [thing]


@functools.cache
def classes_in(sample: Any) -> list[type]:
    """Returns the classes of a sample's component and of its parts, the component's first."""
    return list(dict.fromkeys(type(part) for part in modules_of(sample.make()[0])))


def contains(sample: Any, target: type) -> bool:
    """Whether the sample's component has a part of class `target`."""
    return any(issubclass(cls, target) for cls in classes_in(sample))


def samples_of(bug: Bug) -> list[Any]:
    """Returns the samples that the bug names, or else one of its target alone and the first model that contains it."""
    table = {sample.name: sample for sample in [*SAMPLES, *OPTIMIZER_SAMPLES, *MODELS]}
    if bug.samples:
        return [table[sample] if isinstance(sample, str) else sample for sample in bug.samples]
    alone = [sample for sample in [*SAMPLES, *OPTIMIZER_SAMPLES] if issubclass(classes_in(sample)[0], bug.target)]
    models = [sample for sample in MODELS if contains(sample, bug.target)]
    return list(dict.fromkeys(alone[:1] + models[:1]))


def verdicts(name: str | Bug) -> dict[str, str | None]:
    """Returns {check: None or what is wrong} for all checks that apply to the samples with the bug planted in them."""
    bug = find(name)
    failures = {}
    for sample in samples_of(bug):
        thing, inputs = sample.make()
        apply(bug, thing)
        for check in CHECKS.values():
            if check.applies(thing, *inputs) and not failures.get(check.name):
                failure = check.failure(thing, inputs)
                failures[check.name] = failure and f"{sample.name}: {failure}"
    return failures
