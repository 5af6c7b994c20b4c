"""Records one training step, forward and backward, with every call of every component.

The step is computed by a copy of the model in float64, in eval(remember=True): without dropout, so that every number
can be computed again.
"""

import copy
import functools
import inspect
import sys
from dataclasses import dataclass, field

import numpy as np

from ..layers import CrossEntropyLoss
from ..module import Module, Parameter, is_module, is_parameter, named_parts


@dataclass(eq=False)
class Call:
    """One forward of one component, and the backward that belongs to it.

    Attributes:
        number : the order of the calls; a call comes after the one that encloses it
        module : the component
        repeat : how many calls of this component came before
        parent : the enclosing Call, or None
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


class Recording:
    """A recorded step.

    Attributes:
        model, criterion : the copies in float64 that computed the step
        inputs, targets : as they were given, as arrays
        calls : all Calls in the order in which they began
        root, criterion_call : the Call of the model, and the one of the criterion or None
        loss : a float
        copies : the Copies of all arrays
    """

    def __init__(self, model, inputs, targets, criterion):
        self.model = model
        self.criterion = criterion
        self.inputs = inputs
        self.targets = targets
        self.calls = []
        self.copies = Copies()
        self.root = None
        self.criterion_call = None
        self.loss = None


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
        if known and known[1].shape == value.shape and known[1].tobytes() == value.tobytes():
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


def record_step(model, inputs, targets=None, criterion=None):
    """Returns the Recording of one training step.

    Parameters:
        model : any object with forward and backward, with components in its attributes; it is not changed
        inputs : one argument of its forward, or a tuple of several
        targets : the criterion's second argument. Without targets and criterion the loss is the sum of the outputs,
            which is the output itself if that is a scalar.
        criterion : a loss with forward(outputs, targets) and backward(); None: CrossEntropyLoss if there are targets
    Raises: TypeError without forward and backward; ValueError that names the component in which the step stopped.
    """
    check_step(model, targets, criterion)
    if criterion is None and targets is not None:
        criterion = CrossEntropyLoss()
    model, criterion = copy.deepcopy((model, criterion))
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    inputs = tuple(in_float64(value) for value in inputs)
    step = Recording(model, inputs, in_float64(targets), criterion)
    for part in (model, criterion):
        prepare(part)
    with Wrapped(step) as wrapped:
        outputs = wrapped.run(model.forward, *inputs)
        if criterion is not None:
            loss = wrapped.run(criterion.forward, outputs, step.targets)
            doutputs = wrapped.run(criterion.backward)
        else:
            loss = np.sum(outputs)
            doutputs = np.ones_like(outputs)
        wrapped.run(model.backward, doutputs)
    step.root = step.calls[0]
    if criterion is not None:
        step.criterion_call = next(call for call in step.calls if call.module is criterion)
    step.loss = float(np.real(loss))
    for part in (model, criterion):
        if isinstance(part, Module):
            part.eval()
    return step


def check_step(model, targets, criterion):
    """Raises an error if a step of this model cannot be recorded."""
    if not is_module(model):
        raise TypeError(f"the explorer shows an object with forward and backward, got {type(model).__name__}; "
                        "pass a model or one of its layers")
    if criterion is not None and not is_module(criterion):
        raise TypeError(f"criterion is a {type(criterion).__name__}: wanted an object with forward and backward, "
                        "such as CrossEntropyLoss()")
    if "forward" in vars(model):
        raise RuntimeError("the explorer copies the model, which is not possible inside `with nt.record`; "
                           "call it outside")
    if criterion is not None and targets is None:
        raise ValueError(f"{type(criterion).__name__} needs targets; pass them as the third argument")


def in_float64(value):
    """Returns numbers and lists of numbers as arrays, floats in float64; anything else unchanged."""
    if isinstance(value, (list, np.ndarray)):
        value = np.array(value)
        return value.astype(np.float64) if value.dtype.kind == "f" else value
    return value


def prepare(root):
    """Converts a copied module to float64, switches dropout off, and clears gradients and saved values."""
    if root is None:
        return
    for _, part in named_parts(root):
        if isinstance(part, Module):
            part.build_tables(np.float64)
            part.__dict__.pop("_saved", None)
            part.training = False
            part.remembering = True
        elif isinstance(part, Parameter):
            part.astype(np.float64)
            part.grad = 0
        elif is_parameter(part):
            part.data = np.array(part.data, np.float64)
            part.grad = np.zeros_like(part.data)
        elif hasattr(part, "training"):
            part.training = False


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
        for root in (self.step.model, self.step.criterion):
            for module in [part for _, part in named_parts(root) if is_module(part)] if root is not None else []:
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
            raise ValueError(f"the step stopped in {type(module).__name__}.{name}: {error}") from error

    def forward(self, module, forward, *inputs, **named):
        parent = self.open_calls[-1] if self.open_calls else None
        repeat = self.repeats.get(id(module), 0)
        self.repeats[id(module)] = repeat + 1
        call = Call(len(self.step.calls), module, repeat, parent)
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
        call.outputs = [copies.of(value) for value in (output if isinstance(output, tuple) else (output,))]
        self.waiting.setdefault(id(module), []).append(call)
        return output

    def backward(self, module, backward, *dy, **named):
        waiting = self.waiting.get(id(module))
        call = waiting.pop() if waiting else None
        given = [np.array(value) for value in (*dy, *named.values()) or (1.0,)]
        line = calling_line()
        own = {name: part for name, part in vars(module).items() if is_parameter(part)}
        before = {name: np.array(parameter.grad) for name, parameter in own.items()}
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
            call.parameter_gradients = {name: own[name].grad - before[name] for name in own}
        return gradients


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
