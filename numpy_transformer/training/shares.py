"""The parts of a batch, and what a worker does with its own."""

import contextlib
import math
import os
import pickle
import signal
import traceback

import numpy as np

from .machine import FORKS, blas, cores

SWITCHES = ("training", "remembering")
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


def inside(model, criterion):
    """Modules, parameters, and of each random generator the (module, key) that hold it."""
    modules = [module for part in (model, criterion) for _, module in part.named_modules()]
    places = {}
    for module in modules:
        for key, value in vars(module).items():
            if isinstance(value, np.random.Generator):
                places.setdefault(id(value), []).append((module, key))
    return modules, model.parameters(), list(places.values())


def work(model, criterion, pipe, replicas, asker):
    """What a replica does: for each share the gradients, and an answer, until nobody asks any more."""
    if os.getpid() != asker:
        signal.signal(signal.SIGINT, signal.SIG_IGN)        # a Ctrl-C is for the process that asks
        for other, _ in replicas:
            other.close()                       # the ends of that process, whose own end must end the pipe
    modules, parameters, generators = inside(model, criterion)
    with contextlib.suppress(EOFError, OSError):
        for share, switches, seeds, errors in iter(pipe.recv, None):
            for switch, values in zip(SWITCHES, switches):
                for module, value in zip(modules, values):
                    setattr(module, switch, value)
            for places, seed in zip(generators, seeds):
                rng = np.random.default_rng(seed)
                for module, key in places:
                    setattr(module, key, rng)
            try:
                with np.errstate(**errors):
                    answer = accumulate(model, criterion, share, False, modules, parameters)
            except BaseException as error:
                answer = portable(error)
            pipe.send(answer)


def portable(error):
    """The error as another process can read it, with its traceback as a note."""
    text = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.__notes__ = [f"in a worker:\n{text}"]
    return error
