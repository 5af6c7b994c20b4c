"""A recorder of every call of every component, of which the components know nothing."""

import contextlib
from dataclasses import dataclass

import numpy as np

from ..module import is_module, named_parts


@dataclass(eq=False, repr=False)
class Call:
    """One forward of one component, and the backward that answered it. Arrays are copies.

    name is dotted as in named_modules, "" the model itself; depth counts the calls around this one. Where no backward
    answered, dy and gradients are None; else gradients is the tuple of what it returned, in forward's order, and dy
    what it was given (1.0 for a loss's backward(), which takes nothing).
    """

    name: str
    module: object
    inputs: tuple
    named: dict
    depth: int
    output: object = None
    dy: object = None
    gradients: tuple = None


class Tape:
    """`calls` in the order in which they began; `tape[name]` is the latest one of that component."""

    def __init__(self):
        self.calls = []

    def __repr__(self):
        return f"Tape({len(self.calls)} calls)"

    def __getitem__(self, name):
        for call in reversed(self.calls):
            if call.name == name:
                return call
        known = list(dict.fromkeys(call.name for call in self.calls))
        known = [other for other in known if other.endswith(f".{name}")] or known       # perhaps one of these is meant
        known = ", ".join(other or "''" for other in known)
        raise LookupError(f"the tape has no call of {name!r}; it has {known or 'none at all'}")

    def of(self, *classes):
        """The calls of components of these classes."""
        return [call for call in self.calls if isinstance(call.module, classes)]


@contextlib.contextmanager
def record(model, change=None):
    """Record the inputs, the output and the gradients of every call of every component: `with record(model) as tape:`

    A backward answers the latest forward of its component that nothing has answered yet: last in, first out, as
    remember and recall do. Only calls inside the `with` are seen, and only those that end without an error; of a
    Trainer's workers only the first one. The model may not be copied meanwhile: the copy's calls would be the
    original's.

    Parameters:
        model : whatever has forward and backward, with components in its attributes
        change : function or None; called with each Call before its forward, when it has no output yet, and again
            behind it. It may assign other inputs, or another output, to ask what that changes further on
    Source: forward hooks, as in PyTorch's register_forward_hook.
    """
    tape, around, undo = Tape(), [], []
    for name, module in [(name, part) for name, part in named_parts(model) if is_module(part)]:
        undo.append((module, {key: vars(module)[key] for key in ("forward", "backward") if key in vars(module)}))
        module.forward, module.backward = listen(name, module, tape, around, change)
    try:
        yield tape
    finally:
        for module, own in undo:
            for key in ("forward", "backward"):
                vars(module).pop(key, None)
            vars(module).update(own)


def listen(name, module, tape, around, change):
    """The module's forward and backward, which also write on the tape."""
    forward, backward, open_calls = module.forward, module.backward, []

    def recorded_forward(*inputs, **named):
        call = Call(name, module, inputs, named, len(around))
        if change is not None:
            change(call)
        inputs, named, place = call.inputs, call.named, len(tape.calls)
        call.inputs, call.named = copies(inputs), dict(zip(named, copies(named.values())))
        tape.calls.append(call)
        around.append(call)
        try:
            output = forward(*inputs, **named)
        except BaseException:
            del tape.calls[place:]
            raise
        finally:
            around.pop()
        call.output = output
        if change is not None:
            change(call)
        output, (call.output,) = call.output, copies([call.output])
        if getattr(module, "remembering", True):
            open_calls.append(call)
        return output

    def recorded_backward(*dy, **named):
        kept = copies([*dy, *named.values(), 1.0])
        call = open_calls.pop() if open_calls else None     # first, as backward recalls first: it may raise
        gradients = backward(*dy, **named)
        if call is not None:
            call.dy = kept[0]
            call.gradients = copies(gradients if isinstance(gradients, tuple) else (gradients,))
        return gradients

    return recorded_forward, recorded_backward


def copies(values):
    return tuple(value.copy() if isinstance(value, np.ndarray) else copies(value) if isinstance(value, tuple) else value
                 for value in values)
