"""Records one training step, forward and backward, with every call of every component.

The step is computed by a copy of the model in float64, in eval(remember=True): without dropout, so that every number
can be computed again.
"""

import copy

import numpy as np

from ..layers import CrossEntropyLoss
from ..module import Module, Parameter, is_module, is_parameter, named_parts
from ..tree import parts_with_loss
from .calls import Copies, Wrapped
from .wording import sentence


class StepRecording:
    """A recorded step.

    Attributes:
        model, criterion : the copies in float64 that computed the step
        inputs, targets : as they were given, as arrays
        calls : all Calls in the order in which they began
        root, criterion_call : the StepCall of the model, and the one of the criterion or None
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


def record_step(model, inputs, targets=None, criterion=None):
    """Returns the StepRecording of one training step.

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
    step = StepRecording(model, inputs, in_float64(targets), criterion)
    for part in (model, criterion):
        prepare(part)
    with Wrapped(step) as wrapped:
        outputs = wrapped.run(model.forward, *inputs)
        check_outputs(outputs, model, criterion)
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
    step.loss = float(np.real(loss)) + own_losses(model)
    for part in (model, criterion):
        if isinstance(part, Module):
            part.eval()
    return step


def own_losses(model):
    """Returns the sum of the losses whose gradients components of a model add themselves, of the latest forward."""
    return float(sum(part.auxiliary_loss for part in parts_with_loss(model)))


def check_step(model, targets, criterion):
    """Raises an error if a step of this model cannot be recorded."""
    if not is_module(model):
        raise TypeError(sentence("errors.recording.model", model=type(model).__name__))
    if criterion is not None and not is_module(criterion):
        raise TypeError(sentence("errors.recording.criterion", criterion=type(criterion).__name__))
    if "forward" in vars(model):
        raise RuntimeError(sentence("errors.recording.recording"))
    if criterion is not None and targets is None:
        raise ValueError(sentence("errors.recording.targets", criterion=type(criterion).__name__))


def check_outputs(outputs, model, criterion):
    """Raises ValueError if a loss cannot be computed from what forward returned."""
    several = isinstance(outputs, tuple)
    arrays = outputs if several else (outputs,)
    if not arrays or not all(isinstance(array, (np.ndarray, np.floating, float)) for array in arrays):
        raise ValueError(sentence("errors.recording.output", model=type(model).__name__, type=type(outputs).__name__))
    if several and criterion is None:
        raise ValueError(sentence("errors.recording.outputs", model=type(model).__name__, count=len(outputs)))


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
