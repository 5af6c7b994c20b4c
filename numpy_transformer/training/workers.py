"""Data-parallel threads: replicas of a model that share its weights, each with a part of every batch.

NumPy lets go of Python's lock in its loops and matmuls, so threads do run at once. A thread a core, each with one BLAS
thread, beats BLAS threads alone where a batch is large: all of a step runs side by side, not only its matmuls.
"""

import copy
import os
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context

import numpy as np

from .machine import set_blas_threads

WORTHWHILE = 2 * 10 ** 8                        # inputs times parameters of a step that is worth a second thread


class Workers:
    """`count` replicas of a model and its criterion, each in a thread; the first are the originals.

    They share the weights; memory, gradients and random generators (children of the seeds of the model's) are their
    own. The same seed and count give the same numbers, bit by bit.
    """

    def __init__(self, model, criterion, count):
        model.forget(), criterion.forget()
        self.pairs = [(model, criterion), *(copy.deepcopy((model, criterion)) for _ in range(1, count))]
        for number, (replica, _) in enumerate(self.pairs[1:], 1):
            spawn_generators(replica, number)
        self.modules = [[module for part in pair for _, module in part.named_modules()] for pair in self.pairs]
        self.parameters = [replica.parameters() for replica, _ in self.pairs]
        self.pool = ThreadPoolExecutor(count)

    def gradients(self, batches, check):
        """Put the gradient of the mean loss over all targets of the batches into the model; (mean loss, targets).

        check(what, value) is called with each loss before its backward. Without targets the result is (0, 0).
        """
        self.begin()
        count = len(self.pairs)
        parts = [split(batch, count) for batch in batches]
        shares = [[part[n] for part in parts if n < len(part)] for n in range(count)]
        alone = sum(map(len, shares)) == 1      # then backward's own mean is the one that is wanted
        before = set_blas_threads(1) if count > 1 else None
        jobs = [self.pool.submit(copy_context().run, accumulate, *pair, share, check, alone)
                for pair, share in zip(self.pairs[1:], shares[1:])]
        try:
            totals = [accumulate(*self.pairs[0], shares[0], check, alone)]
        finally:
            wait(jobs)
            if before:
                set_blas_threads(before)
        loss, targets = (sum(column) for column in zip(*totals, *(job.result() for job in jobs)))
        if not targets:
            return 0, 0
        if not alone:
            list(self.pool.map(lambda same: add_up(*same, factor=1 / targets), zip(*self.parameters)))
        return loss / targets, targets

    def begin(self):
        """Empty memories and gradients; weights and switches of every replica are those of the model."""
        for modules, parameters in zip(self.modules, self.parameters):
            for module, original in zip(modules, self.modules[0]):
                module.__dict__.pop("_memory", None)
                if module is not original:
                    module.training, module.remembering = original.training, original.remembering
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


def add_up(parameter, *replicas, factor):
    for replica in replicas:
        parameter.grad += replica.grad
    parameter.grad *= factor


def split(batch, count):
    """The batch in `count` parts, fewer if it has fewer rows: whatever is as long as the targets is cut."""
    inputs, targets = batch
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    rows = len(targets) if count > 1 else 1
    cuts = [rows * n // min(count, rows) for n in range(min(count, rows) + 1)]
    if len(cuts) == 2:
        return [(inputs, targets)]
    return [(tuple(x[a:b] if np.ndim(x) and len(x) == rows else x for x in inputs), targets[a:b])
            for a, b in zip(cuts, cuts[1:])]


def spawn_generators(model, number):
    """Give each random generator in the tree the stream of its seed's child of this number."""
    children = {}
    for _, module in model.named_modules():
        for key, value in list(vars(module).items()):
            if isinstance(value, np.random.Generator):
                child = children.setdefault(id(value), (value, value.spawn(number)[-1]))[1]
                setattr(module, key, child)


def workers_for(batch, parameters):
    """How many threads such a batch is worth here: one for little work, or for a sequence without a batch axis."""
    inputs, targets = batch
    x = np.asarray(inputs[0] if isinstance(inputs, tuple) else inputs)
    tokens = x.size if x.dtype.kind in "iu" else x.size // x.shape[-1] if x.ndim else 1
    if np.ndim(targets) == 0 or x.ndim < (2 if x.dtype.kind in "iu" else 3) or len(x) != len(targets):
        return 1
    work = tokens * sum(parameter.data.size for parameter in parameters)
    return max(1, min(cores(), len(targets), work // (WORTHWHILE // 2)))


def cores():
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
