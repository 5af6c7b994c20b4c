"""Data-parallel threads: replicas of a model that share its weights, each with a part of every batch.

NumPy lets go of Python's lock in its loops, so all of a step runs side by side, and not its matmuls alone.
"""

import copy
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context

import numpy as np

from .machine import blas, cores, set_blas_threads

SWITCHES = ("training", "remembering")
WORTHWHILE = 2 * 10 ** 8                        # inputs times parameters of a step that is worth a second thread


class Workers:
    """`count` replicas of a model and its criterion, the originals first, each in a thread. They share the weights;
    memory, gradients and random generators, seeded by the model's, are their own. The same seed and count give the
    same numbers, bit by bit.
    """

    def __init__(self, model, criterion, count):
        original = model.forget(), criterion.forget()
        self.pairs = [original, *(copy.deepcopy(original) for _ in range(1, count))]
        for number, (replica, _) in enumerate(self.pairs[1:], 1):
            spawn_generators(replica, number)
        self.modules = [[module for part in pair for _, module in part.named_modules()] for pair in self.pairs]
        self.parameters = [replica.parameters() for replica, _ in self.pairs]
        self.pool = ThreadPoolExecutor(count)

    def gradients(self, batches, check):
        """Gradients of the mean loss over all targets, into the model; (mean loss, targets). check("loss", each)."""
        self.begin()
        parts = [split(batch, len(self.pairs)) for batch in batches]
        shares = [[part[n] for part in parts if n < len(part)] for n in range(len(self.pairs))]
        alone = sum(map(len, shares)) == 1      # then backward's own mean is the one that is wanted
        jobs, before = [], set_blas_threads(1) if len(self.pairs) > 1 else 0
        try:
            jobs += [self.pool.submit(copy_context().run, accumulate, *pair, share, check, alone)
                     for pair, share in zip(self.pairs[1:], shares[1:])]
            totals = [accumulate(*self.pairs[0], shares[0], check, alone)]
        finally:
            wait(jobs)
            if before:
                set_blas_threads(before)
        loss, targets = (sum(column) for column in zip(*totals, *(job.result() for job in jobs)))
        if targets and not alone:
            list(self.pool.map(lambda same: self.add_up(*same, factor=1 / targets), zip(*self.parameters)))
        return loss / max(targets, 1), targets

    def add_up(self, parameter, *replicas, factor):
        for replica in replicas:
            parameter.grad += replica.grad
        parameter.grad *= factor

    def begin(self):
        """Empty memories and gradients; weights and switches of every replica are those of the model."""
        for modules, parameters in zip(self.modules, self.parameters):
            for module, original in zip(modules, self.modules[0]):
                vars(module).pop("_memory", None)
                if module is not original:
                    vars(module).update({key: vars(original)[key] for key in SWITCHES if key in vars(original)})
            for parameter, original in zip(parameters, self.parameters[0]):
                if parameter is not original:
                    parameter.move(original.data, parameter.grad)
                parameter.grad.fill(0)


def accumulate(model, criterion, batches, check, alone):
    """Add up the gradients of the summed loss of the batches, or of the mean over one alone; (summed loss, targets)."""
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
        check("loss", loss)
        model.backward(criterion.backward(1.0 if alone else float(criterion.count)))
        total, targets = total + loss * criterion.count, targets + criterion.count
    return total, targets


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


def spawn_generators(model, number):
    """Give each random generator in the tree a stream that follows from its state and this number."""
    children = {}                               # a generator may be shared
    for _, module in model.named_modules():
        for key, value in list(vars(module).items()):
            if isinstance(value, np.random.Generator):
                new = np.random.default_rng([number, *value.integers(2 ** 32, size=4)])
                child = children.setdefault(id(value), (value, new))[1]
                setattr(module, key, child)


def workers_for(batch, parameters):
    """How many threads such a batch is worth here: one for little work, or for a sequence without a batch axis."""
    inputs, targets = batch
    x = np.asarray(inputs[0] if isinstance(inputs, tuple) else inputs)
    tokens = x if x.dtype.kind in "iu" else x[..., 0] if x.ndim else x      # (B, T)
    if tokens.ndim < 2 or np.ndim(targets) == 0 or len(x) != len(targets) or blas() is None:
        return 1
    work = tokens.size * sum(parameter.data.size for parameter in parameters)
    return max(1, min(cores(), len(targets), 2 * work // WORTHWHILE))
