"""What an entry of the zoo is, and how it is planted and judged."""

import difflib
import functools
import inspect
from dataclasses import dataclass

import numpy as np

from ..checks.registry import CHECKS, OPTIMIZER_SAMPLES, SAMPLES
from ..module import Module
from .models import MODELS

BUGS = {}                                       # by name; the files of the zoo fill it


@dataclass(frozen=True)
class Bug:
    """A mistake that sits in one class: `wrong` inherits from it, and overrides what is wrong.

    symptom : what one sees; training : what the loss of a small model does; seen : who published it, "" if nobody is
    known to have; caught_by : names of the checks that go red; samples : the components on which it is judged
    """

    name: str
    title: str
    wrong: type
    seen: str
    symptom: str
    training: str
    caught_by: tuple
    samples: tuple

    @property
    def target(self):
        """The class of the package that is changed."""
        return next(cls for cls in self.wrong.__mro__ if not cls.__module__.startswith(__package__))

    @property
    def topic(self):
        """What it is a mistake in: the first line of its file."""
        return inspect.getmodule(self.wrong).__doc__.splitlines()[0].removesuffix(".")

    @property
    def code(self):
        """The source of the wrong version, from its class statement on, without the docstring."""
        source = inspect.getsource(self.wrong)
        head, _, body = source[source.index("class "):].partition('"""\n')
        return head.partition("\n")[0] + "\n" + body.lstrip("\n")


def bug(name, seen="", *, symptom, training, caught_by, samples=()):
    """Put the class below into BUGS; the first line of its docstring is the title."""
    def enter(wrong):
        title = inspect.getdoc(wrong).splitlines()[0].rstrip(".")
        BUGS[name] = Bug(name, title, wrong, seen, symptom, training, tuple(caught_by), samples)
        return wrong
    return enter


def find(name):
    """The Bug of this name, or a Bug itself. Raises ValueError that says what is near it."""
    if isinstance(name, Bug):
        return name
    if not isinstance(name, str) or name not in BUGS:
        near = ", ".join(difflib.get_close_matches(str(name).lower(), BUGS, 3, 0.4))
        raise ValueError(f"there is no bug {name!r} in the zoo of {len(BUGS)}; "
                         f"{near and f'near it: {near}; '}nt.zoo.bugs() and numpy-transformer zoo have them all")
    return BUGS[name]


def apply(name, thing):
    """Plant a bug in a model, a loss, an optimizer or a schedule, in place; returns it.

    Every part whose class is the bug's target, or inherits from it, is changed: its weights stay, its methods become
    the wrong ones. In a subclass the wrong methods stand where the target's own did, so what the subclass overrides
    stays as it is: a bug of MultiHeadAttention works in SelfAttention too. So does what an earlier bug overrides.
    Like the code that had them, a few need queries as long as keys, or no grouped heads, and raise elsewhere.

    Raises: ValueError for an unknown name, or where `thing` has no such part.
    """
    bug = find(name)
    parts = [part for part in parts_of(thing) if isinstance(part, bug.target)]
    if not parts:
        raise ValueError(f"{bug.name!r} sits in {bug.target.__name__}, and this {type(thing).__name__} has none; "
                         "plant it in something that does")
    for part in parts:
        cls = type(part)
        if not isinstance(part, bug.wrong):
            part.__class__ = bug.wrong if cls is bug.target else type(bug.wrong.__name__, (cls, bug.wrong), {})
        if hasattr(bug.wrong, "build_tables"):
            part.build_tables(next((p.data.dtype for p in thing.parameters()), np.float32))
    return thing


def parts_of(thing):
    return [module for _, module in thing.named_modules()] if isinstance(thing, Module) else [thing]


@functools.cache
def kinds(sample):
    """Class of the whole, then those of its parts."""
    return list(dict.fromkeys(type(part) for part in parts_of(sample.make()[0])))


def holds(sample, target):
    return any(issubclass(cls, target) for cls in kinds(sample))


def samples_of(bug):
    """Those that the bug names; else its target alone, and the first model that holds one."""
    table = {sample.name: sample for sample in [*SAMPLES, *OPTIMIZER_SAMPLES, *MODELS]}
    if bug.samples:
        return [table[sample] if isinstance(sample, str) else sample for sample in bug.samples]
    alone = [sample for sample in [*SAMPLES, *OPTIMIZER_SAMPLES] if issubclass(kinds(sample)[0], bug.target)]
    return list(dict.fromkeys(alone[:1] + [sample for sample in MODELS if holds(sample, bug.target)][:1]))


def verdicts(name):
    """{check: None, or what it says} of all checks that apply where the bug is planted, alone and in a model."""
    bug, found = find(name), {}
    for sample in samples_of(bug):
        thing, inputs = sample.make()
        apply(bug, thing)
        for check in CHECKS.values():
            if check.applies(thing, *inputs) and not found.get(check.name):
                failure = check.failure(thing, inputs)
                found[check.name] = failure and f"{sample.name}: {failure}"
    return found
