"""A recorder of every call of every component. The components themselves contain no code for it."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..module import is_module, named_parts

MOST_ROWS = 200                                 # calls that a notebook shows


@dataclass(eq=False, repr=False)
class Call:
    """One forward of one component, and the backward that belongs to it. Arrays are copies.

    Attributes:
        name : dotted as in `named_modules`; "" is the model itself
        module : the component
        inputs, named : positional arguments of forward as a tuple, keyword arguments as a dict
        depth : number of recorded calls that enclose this one
        output : what forward returned; None until it has returned
        dy : argument of backward, 1.0 for a loss whose backward takes none; None if backward was not called
        gradients : tuple of what backward returned, in forward's order; None if backward was not called
    """

    name: str
    module: object
    inputs: tuple
    named: dict
    depth: int
    output: object = None
    dy: object = None
    gradients: tuple = None

    def __repr__(self):
        shapes = ", ".join(map(shape_of, self.inputs))
        backward = "without backward" if self.gradients is None else "with backward"
        return f"Call({self.name!r}, {type(self.module).__name__}: {shapes} -> {shape_of(self.output)}, {backward})"


class Tape:
    """The recorded calls: `calls` lists them in the order in which they began; `tape[name]` is a component's latest."""

    def __init__(self):
        self.calls = []

    def __repr__(self):
        return f"Tape({len(self.calls)} calls)"

    def _repr_html_(self):
        from .. import markup
        rows = [[call.name or "(model)", type(call.module).__name__, ", ".join(map(shape_of, call.inputs)),
                 shape_of(call.output), "no" if call.gradients is None else "yes"] for call in self.calls[:MOST_ROWS]]
        more = f", the first {MOST_ROWS} of them" if len(self.calls) > MOST_ROWS else ""
        return markup.html_table(["name", "component", "inputs", "output", "backward"], rows, f"{self!r}{more}")

    def __getitem__(self, name):
        for call in reversed(self.calls):
            if call.name == name:
                return call
        recorded = list(dict.fromkeys(call.name for call in self.calls))
        similar = [other for other in recorded if other.endswith(f".{name}")]
        names = ", ".join(other or "''" for other in similar or recorded)
        raise LookupError(f"the tape has no call of {name!r}; it has {names or 'none at all'}")

    def of(self, *classes):
        """Returns the calls of components of these classes, as a list."""
        return [call for call in self.calls if isinstance(call.module, classes)]


@contextlib.contextmanager
def record(model: Any, change: Callable[[Call], None] | None = None) -> Iterator[Tape]:
    """Records inputs, output and gradients of every call of every component: `with record(model) as tape:`

    Each backward is matched with the latest forward of its component that had none yet: last in, first out, like
    `remember` and `recall`. The tape holds the calls made inside the `with` block that ended without an error. If a
    Trainer runs several workers, only the first one's calls are recorded. Do not copy the model inside the block: the
    copy's calls would be recorded as the original's.

    Parameters:
        model : any object with forward and backward, with components in its attributes
        change : function or None. It is called with each Call twice: before forward, when the call has no output yet,
            and after it. To find out what depends on a value, assign other inputs before or another output after.
    Source: forward hooks, as in PyTorch's register_forward_hook.
    """
    tape = Tape()
    open_calls = []
    originals = []
    for name, module in [(name, part) for name, part in named_parts(model) if is_module(part)]:
        own = {key: vars(module)[key] for key in ("forward", "backward") if key in vars(module)}
        originals.append((module, own))
        module.forward, module.backward = recorded_methods(name, module, tape, open_calls, change)
    try:
        yield tape
    finally:
        for module, own in originals:
            for key in ("forward", "backward"):
                vars(module).pop(key, None)
            vars(module).update(own)


def recorded_methods(name, module, tape, open_calls, change):
    """Returns the module's forward and backward, wrapped so that they write to the tape."""
    forward, backward = module.forward, module.backward
    without_backward = []                       # calls whose backward is still to come

    def recorded_forward(*inputs, **named):
        call = Call(name, module, inputs, named, len(open_calls))
        if change is not None:
            change(call)
        inputs, named = call.inputs, call.named
        call.inputs, call.named = copied(inputs), {key: copied(value) for key, value in named.items()}
        start = len(tape.calls)
        tape.calls.append(call)
        open_calls.append(call)
        try:
            output = forward(*inputs, **named)
        except BaseException:
            del tape.calls[start:]
            raise
        finally:
            open_calls.pop()
        call.output = output
        if change is not None:
            change(call)
        output = call.output
        call.output = copied(output)
        if getattr(module, "remembering", True):
            without_backward.append(call)
        return output

    def recorded_backward(*dy, **named):
        given = copied((*dy, *named.values(), 1.0))[0]
        call = without_backward.pop() if without_backward else None     # before backward, which may raise
        gradients = backward(*dy, **named)
        if call is not None:
            call.dy = given
            call.gradients = copied(gradients if isinstance(gradients, tuple) else (gradients,))
        return gradients

    return recorded_forward, recorded_backward


def copied(value):
    """Returns a copy of an array or of the arrays in a tuple, and anything else unchanged."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, tuple):
        return tuple(copied(item) for item in value)
    return value


def shape_of(value):
    """Returns an array's shape as text, or the class name of any other value."""
    return str(value.shape) if isinstance(value, np.ndarray) else type(value).__name__
