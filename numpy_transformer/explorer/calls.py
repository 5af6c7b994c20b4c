"""Records the calls of components: what each forward and each backward was given, and what it returned.

Unlike `nt.record`, this also keeps which call made which, from which line, and which inputs are the same array.
"""

import functools
import inspect
import sys
from dataclasses import dataclass, field

import numpy as np

from ..module import is_frozen, is_module, is_parameter, named_parts
from .wording import sentence


@dataclass(eq=False, repr=False)
class StepCall:
    """One forward of one component, and the backward that belongs to it.

    Attributes:
        number : the order of the calls; a call comes after the one that encloses it
        module : the component
        repeat : how many calls of this component came before
        parent : the enclosing StepCall, or None
        children : the calls that forward made, in order
        inputs : what forward was given, by the names of its signature; arrays are copies
        outputs : a list of copies of what forward returned
        output_gradients : a list of the arguments of backward; None if backward was not called
        input_gradients : what backward returned, by the names of the inputs
        parameter_gradients : what backward added to the gradients of the component's own parameters, by name
        lines : {"forward": (file, line, first line of the function), "backward": ...}: the code that called the two
        positional : the names of the arguments that were given by position
    """

    number: int
    module: object
    repeat: int
    parent: object
    children: list = field(default_factory=list)
    inputs: dict = field(default_factory=dict)
    outputs: list = None
    output_gradients: list = None
    input_gradients: dict = field(default_factory=dict)
    parameter_gradients: dict = field(default_factory=dict)
    lines: dict = field(default_factory=dict)
    positional: list = field(default_factory=list)

    def __repr__(self):
        return f"StepCall({self.number}, {type(self.module).__name__})"


class Copies:
    """Copies of arrays, made when they are seen. The same array, if it has not changed, gives the same copy.

    `owner(copy)` tells from which memory a copy was made, so that views of one array can be told from equal arrays.
    """

    def __init__(self):
        self.seen = {}                          # id of an array -> (the array, its copy); the array keeps its id
        self.owners = {}

    def of(self, value):
        """Returns the copy of an array, and anything else unchanged."""
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if not isinstance(value, np.ndarray):
            return value
        known = self.seen.get(id(value))
        if known and is_unchanged(*known):
            return known[1]
        duplicate = np.array(value)
        self.seen[id(value)] = (value, duplicate)
        owner = value
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        self.owners[id(duplicate)] = id(owner)
        return duplicate

    def owner(self, duplicate):
        return self.owners.get(id(duplicate))


class Wrapped:
    """While it is open, forward and backward of every component write to the recording."""

    def __init__(self, step):
        self.step = step
        self.open_calls = []
        self.waiting = {}                       # id of a module -> its calls without a backward
        self.repeats = {}                       # id of a module -> number of its calls
        self.originals = []
        self.stopped_in = None                  # (module, name of the method) in which an error arose

    def __enter__(self):
        roots = [root for root in (self.step.model, self.step.criterion) if root is not None]
        parts = [part for root in roots for _, part in named_parts(root) if is_module(part)]
        for module in {id(part): part for part in parts}.values():          # each once, even if both roots hold it
            own = {key: vars(module)[key] for key in ("forward", "backward") if key in vars(module)}
            self.originals.append((module, own))
            forward, backward = module.forward, module.backward
            module.forward = functools.partial(self.forward, module, forward)
            module.backward = functools.partial(self.backward, module, backward)
        return self

    def __exit__(self, *error):
        for module, own in self.originals:
            for key in ("forward", "backward"):
                vars(module).pop(key, None)
            vars(module).update(own)

    def run(self, method, *arguments):
        """Calls a method; an error names the component in which it arose."""
        try:
            return method(*arguments)
        except Exception as error:
            if self.stopped_in is None:
                raise
            module, name = self.stopped_in
            raise ValueError(sentence("errors.calls.stopped", module=type(module).__name__, name=name, error=error)) from error

    def forward(self, module, forward, *inputs, **named):
        parent = self.open_calls[-1] if self.open_calls else None
        repeat = self.repeats.get(id(module), 0)
        self.repeats[id(module)] = repeat + 1
        call = StepCall(len(self.step.calls), module, repeat, parent)
        if parent is not None:
            call.lines["forward"] = calling_line()
        copies = self.step.copies
        arguments = arguments_of(forward, inputs, named)
        call.inputs = {name: copies.of(value) for name, value in arguments.items() if value is not None}
        call.positional = list(arguments)[:len(inputs)]
        self.step.calls.append(call)
        if parent is not None:
            parent.children.append(call)
        self.open_calls.append(call)
        try:
            output = forward(*inputs, **named)
        except Exception:
            self.stopped_in = self.stopped_in or (module, "forward")
            raise
        finally:
            self.open_calls.pop()
        several = output if isinstance(output, tuple) else (output,)
        call.outputs = [copies.of(np.asarray(value) if isinstance(value, float) else value) for value in several]
        self.waiting.setdefault(id(module), []).append(call)
        return output

    def backward(self, module, backward, *dy, **named):
        waiting = self.waiting.get(id(module))
        call = waiting.pop() if waiting else None
        given = [np.array(value) for value in (*dy, *named.values()) or (1.0,)]
        line = calling_line()
        own = {name: parameter for name, parameter in own_parameters(module).items() if not is_frozen(parameter)}
        before = {name: np.array(parameter.grad) for name, parameter in own.items() if np.any(parameter.grad)}
        try:
            gradients = backward(*dy, **named)
        except Exception:
            self.stopped_in = self.stopped_in or (module, "backward")
            raise
        if call is not None:
            call.output_gradients = given
            if call.parent is not None:
                call.lines["backward"] = line
            call.input_gradients = gradients_by_name(call.inputs, gradients)
            call.parameter_gradients = {name: parameter.grad - before.get(name, 0) for name, parameter in own.items()}
        return gradients


def own_parameters(module):
    """Returns {name: parameter} of those that a module holds itself, also in lists ("weights.0")."""
    parts = {}
    for name, part in vars(module).items():
        several = enumerate(part) if isinstance(part, (list, tuple)) else ()
        parts.update({f"{name}.{index}": item for index, item in several}, **{name: part})
    return {name: part for name, part in parts.items() if is_parameter(part)}


def is_unchanged(array, duplicate):
    """Returns True if an array still holds what was copied, NaN included."""
    if array.shape != duplicate.shape:
        return False
    return np.array_equal(array, duplicate) or array.tobytes() == duplicate.tobytes()


def arguments_of(function, inputs, named):
    """Returns the arguments of a call by the names in the function's signature, positional ones first."""
    arguments = {}
    positional = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional.extend(f"{parameter.name}{index}" for index in range(len(positional), len(inputs)))
        elif parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            positional.append(parameter.name)
    if len(inputs) <= len(positional):          # otherwise forward raises its own error
        arguments.update(zip(positional, inputs))
    return {**arguments, **named}


def gradients_by_name(inputs, gradients):
    """Returns copies of the gradients that a backward returned, by the names of the inputs they belong to."""
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    arrays = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
    floats = [name for name, value in arrays.items() if value.dtype.kind == "f"]
    names = list(arrays) if len(gradients) == len(arrays) else floats
    return {name: np.array(gradient) for name, gradient in zip(names, gradients) if gradient is not None}


def calling_line():
    """Returns (file, line, first line of the function) of the code that called a component's forward or backward."""
    frame = sys._getframe(2)
    while frame.f_code.co_name == "__call__" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_firstlineno
