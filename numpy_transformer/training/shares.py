"""The parts of a batch, and the gradients of one part."""

import math

import numpy as np

from .machine import FORKS, blas, cores

WORTHWHILE = 10 ** 7 if FORKS else 10 ** 8      # inputs times parameters that are worth a worker


def split(batch, count):
    """The batch in `count` parts, fewer if it has fewer rows: whatever is as long as the targets is cut."""
    inputs, targets = batch
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    count = min(count, len(targets)) if np.ndim(targets) and np.ndim(inputs[0]) > 1 else 1
    if count <= 1:
        return [(inputs, targets)]
    cuts = [slice(len(targets) * n // count, len(targets) * (n + 1) // count) for n in range(count)]
    return [(tuple(x[cut] if np.ndim(x) and len(x) == len(targets) else x for x in inputs), targets[cut])
            for cut in cuts]


def workers_for(batch, parameters):
    """How many workers such a batch is worth here: one for little work, or for a sequence without a batch axis."""
    inputs, targets = batch
    x = np.asarray(inputs[0] if isinstance(inputs, tuple) else inputs)
    tokens = x if x.dtype.kind in "iu" else x[..., 0] if x.ndim else x      # (B, T)
    if tokens.ndim < 2 or np.ndim(targets) == 0 or len(x) != len(targets) or blas() is None:
        return 1
    work = tokens.size * sum(parameter.data.size for parameter in parameters)
    return max(1, min(cores(), len(targets), work // WORTHWHILE))


def accumulate(model, criterion, batches, alone, modules, parameters):
    """Gradients of the summed loss of the batches, or of the mean over one alone; (summed loss, targets).

    At a loss that is not finite it stops.
    """
    for module in modules:
        vars(module).pop("_memory", None)
    for parameter in parameters:
        parameter.grad.fill(0)
    total = targets = 0
    for inputs, wanted in batches:
        output, criterion.count = model(*inputs), None
        try:
            loss = float(criterion(output, wanted))
        except ValueError:
            if criterion.count != 0:
                raise
            model.forget()                      # all its targets are ignored: it weighs nothing
            continue
        total, targets = total + loss * criterion.count, targets + criterion.count
        if not math.isfinite(loss):
            break
        model.backward(criterion.backward(1.0 if alone else float(criterion.count)))
    return total, targets
