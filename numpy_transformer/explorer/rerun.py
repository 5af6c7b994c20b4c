"""Runs the recorded step's forward again, with one entry of one value changed.

A value that a component returns is changed right after that call. A value that other code computes is changed at the
beginning of the first call that takes it. If other code uses it later, such as a residual, it is changed in place, so
that this code sees the change. (Code that made a copy before that call does not.)
"""

import numpy as np

from .recording import own_losses
from .wording import sentence


def handle_of(value, graph):
    """Returns how a value can be changed: a tuple that Rerun understands, or None if it has no numbers to change."""
    if value.array.dtype.kind != "f" or value.array.ndim == 0:          # a loss
        return None
    if value.parameter is not None:
        return ("parameter",)
    if value.kind == "input":
        return input_handle(value, graph.recording)
    producer = value.producer
    if producer is not None and producer.call is not None:
        return "after", producer.call, list(producer.outputs.values()).index(value)
    for call in graph.recording.calls:
        for name, array in call.inputs.items():
            if array is value.array:
                return before(call, name, value, graph)
    for call in reversed(graph.recording.calls):
        for index, array in enumerate(call.outputs):
            if array is value.array:
                return "after", call, index
    return None


def before(call, name, value, graph):
    """Returns the handle of a value that is an argument of a call.

    Where nothing else uses the value, the call gets a changed copy: a slice of an array can then be changed apart from
    that array. A slice that several parts use cannot.
    """
    if all(is_inside(op.call or op.enclosing, call) for op, _ in value.consumers):
        return "copy before", call, name
    copies = graph.recording.copies
    sources = [] if value.producer is None else value.producer.inputs.values()
    for source in sources:
        if copies.owner(source.array) == copies.owner(value.array) and len(source.consumers) > 1:
            return None
    return "before", call, name


def is_inside(call, outer):
    """Returns True if a call is another one, or made by it, directly or not."""
    while call is not None and call is not outer:
        call = call.parent
    return call is outer


def input_handle(value, recording):
    for name, array in recording.root.inputs.items():
        if array is value.array:
            return "before", recording.root, name
    return None


class Rerun:
    """Computes the loss of a recorded step again."""

    def __init__(self, recording):
        self.recording = recording

    def loss(self):
        """Returns the loss of one forward."""
        step = self.recording
        inputs = [np.array(x) if isinstance(x, np.ndarray) else x for x in step.inputs]     # they may be changed
        outputs = step.model.forward(*inputs)
        if step.criterion is None:
            return float(np.sum(outputs)) + own_losses(step.model)
        return float(step.criterion.forward(outputs, step.targets)) + own_losses(step.model)

    def loss_with(self, value, index, step):
        """Returns the loss if `step` is added to one entry of a value.

        Raises: ValueError if this value cannot be changed.
        """
        if value.handle is None:
            raise ValueError(sentence("errors.rerun.value", value=value.id))
        index = tuple(index)
        if value.handle[0] == "parameter":
            return self.with_parameter(value.parameter.data, index, step)
        place, call, slot = value.handle
        module = call.module
        own = vars(module).get("forward")
        forward = module.forward
        calls = 0

        def changed(*inputs, **named):
            nonlocal calls
            calls += 1
            if calls - 1 != call.repeat:
                return forward(*inputs, **named)
            if place != "after":
                inputs, named = changeable(place, call, slot, inputs, named)
                argument(call, slot, inputs, named)[index] += step
                return forward(*inputs, **named)
            outputs = forward(*inputs, **named)
            if not isinstance(outputs, tuple):
                return plus(outputs, index, step)
            return (*outputs[:slot], plus(outputs[slot], index, step), *outputs[slot + 1:])

        module.forward = changed
        try:
            return self.loss()
        finally:
            del module.forward
            if own is not None:
                module.forward = own

    def with_parameter(self, data, index, step):
        before = data[index]
        data[index] = before + step
        try:
            return self.loss()
        finally:
            data[index] = before


def changeable(place, call, name, inputs, named):
    """Returns the arguments, with a copy of the one of this name if it is to be changed in this call alone."""
    if place != "copy before":
        return inputs, named
    if name in named:
        return inputs, {**named, name: np.array(named[name])}
    at = call.positional.index(name)
    return (*inputs[:at], np.array(inputs[at]), *inputs[at + 1:]), named


def argument(call, name, inputs, named):
    """Returns the argument of this name."""
    return named[name] if name in named else inputs[call.positional.index(name)]


def plus(array, index, step):
    array = np.array(array)
    array[index] += step
    return array
