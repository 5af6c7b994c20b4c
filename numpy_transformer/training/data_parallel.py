"""Data parallelism: every worker computes the gradients of its part of a batch, and the gradients are added."""

import contextvars
import copy
import math
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from ..module import is_frozen
from ..parameter import forget_grad
from ..threads import LARGE_MODEL, blas, cores, limited_blas_threads
from . import mpi

WORTHWHILE = 10 ** 8                            # tokens times parameters for which another worker is worthwhile
PIECE = 2000                                    # number of tokens whose activations fit into the processor's cache


class DataParallel:
    """A model and `workers` - 1 replicas of it, each in its own thread.

    The replicas share the weights of the model. They have their own gradients, saved values and random generators, which
    are seeded from the model's generators at every step. The same seed and number of workers therefore give exactly the
    same result. With a communicator `comm`, every rank has `workers` workers.
    """

    def __init__(self, model, criterion, workers=1, comm=None):
        self.workers, self.comm = workers, comm
        self.first = comm.rank * workers if comm else 0                 # number of the first worker of this process
        self.total = comm.size * workers if comm else workers
        self.replicas = [Replica(model.forget(), criterion.forget())]              # the others are made in the first step
        self.threads = [ThreadPoolExecutor(1) for _ in range(1, workers)]
        self.blas_threads = 1 if workers > 1 else mpi.cores_per_rank(comm)          # None: unchanged
        self.buffer = None                      # for all gradients, with MPI

    def gradients(self, batches):
        """Set the gradients of the model to those of the mean loss over all counted targets.

        Returns (mean loss, counted targets). The gradients are not valid if the loss is not finite or no target counts.
        """
        seeds = self.draw_seeds()
        results = mpi.gather(self.comm, lambda: self.compute(batches, seeds))
        loss, targets = (sum(column) for column in zip(*results))
        if targets and (self.total > 1 or len(batches) > 1):
            self.add_up(targets)
        return loss / max(targets, 1), targets

    def draw_seeds(self):
        """Seeds for all workers but the first, drawn from each generator of the model; rank 0 draws for all ranks."""
        seeds = [rng.bit_generator.random_raw(self.total - 1).tolist() for rng in self.replicas[0].generators()]
        return self.comm.bcast(seeds) if self.comm else seeds

    def compute(self, batches, seeds):
        """Let every worker compute the gradients of its summed loss; (summed loss, counted targets) of this process."""
        self.prepare_replicas()
        parts = [split(batch, self.total) for batch in batches]
        shares = [[piece for part in parts if n < len(part) for piece in self.pieces(part[n])]
                  for n in range(self.first, self.first + self.workers)]
        mean = self.total == 1 and len(batches) == 1        # then the mean that the loss computes is the right one
        self.seed(seeds)
        with limited_blas_threads(self.blas_threads):
            futures = [thread.submit(contextvars.copy_context().run, replica.gradients, share)     # contains np.errstate
                       for thread, replica, share in zip(self.threads, self.replicas[1:], shares[1:])]
            try:
                results = [self.replicas[0].gradients(shares[0], mean)]
            finally:
                wait(futures)                   # after an error here, no replica may still be running
            results += [future.result() for future in futures]
        return [sum(column) for column in zip(*results)]

    def pieces(self, part):
        """Split a worker's part into pieces of at most PIECE tokens; a single worker computes the whole batch at once."""
        if self.total == 1:
            return [part]
        return split(part, math.ceil(tokens_in(part) / PIECE))

    def prepare_replicas(self):
        """Make the replicas, or new ones if the model's weights are in other arrays now, and pass on train() and eval()."""
        model, *replicas = self.replicas
        if len(replicas) < self.workers - 1 or not all(replica.shares_weights(model) for replica in replicas):
            replicas = [model.copy() for _ in range(1, self.workers)]
            self.replicas = [model, *replicas]
        for replica in replicas:
            replica.copy_switches(model)

    def add_up(self, targets):
        """Set the gradients of the model to the sum over all workers, divided by the number of targets."""
        model, *others = (replica.parameters for replica in self.replicas)
        for parameter, *twins in zip(model, *others):
            for twin in twins:
                parameter.grad += twin.grad
        self.buffer = mpi.sum_gradients(self.comm, model, self.buffer)
        for parameter in model:
            parameter.grad *= 1 / targets

    def seed(self, seeds):
        """Seed the workers of this process. The first worker of all uses the model's own generators."""
        for number, replica in enumerate(self.replicas, self.first):
            if number:
                replica.seed([column[number - 1] for column in seeds])


class Replica:
    """The model and the criterion of one worker."""

    def __init__(self, model, criterion):
        self.model, self.criterion = model, criterion
        self.modules = [module for part in (model, criterion) for _, module in part.named_modules()]
        self.parameters = model.parameters(trained=True)
        found = {}                              # {id of a generator: list of the (module, key) that hold it}
        for module in self.modules:
            for key, value in vars(module).items():
                if isinstance(value, np.random.Generator):
                    found.setdefault(id(value), []).append((module, key))
        self.holders = list(found.values())

    def copy(self):
        """A replica that shares the weights; frozen parameters, whose gradient is never written, are shared as a whole."""
        twins = {id(parameter): parameter for parameter in self.model.parameters()}
        twins |= {id(parameter): parameter.twin() for parameter in self.parameters}
        return Replica(*copy.deepcopy((self.model, self.criterion), twins))

    def generators(self):
        return [vars(module)[key] for (module, key), *_ in self.holders]

    def seed(self, seeds):
        for holders, seed in zip(self.holders, seeds):
            rng = np.random.default_rng(seed)
            for module, key in holders:
                setattr(module, key, rng)

    def shares_weights(self, other):
        return all(mine.data is theirs.data for mine, theirs in zip(self.parameters, other.parameters))

    def copy_switches(self, other):
        """Copy what train() and eval() have set."""
        for mine, theirs in zip(self.modules, other.modules):
            for switch in ("training", "remembering"):
                setattr(mine, switch, getattr(theirs, switch, True))

    def gradients(self, batches, mean=False):
        """Compute the gradients of the summed loss of the batches; returns (summed loss, counted targets).

        With mean=True they are those of the mean loss of a single batch. Stops at a loss that is not finite.
        """
        for module in self.modules:
            vars(module).pop("_saved", None)
        for parameter in self.parameters:
            forget_grad(parameter)
        total = targets = 0
        for inputs, wanted in batches:
            self.criterion.count = None
            try:                                # the output has no name here, so that its memory is free for backward
                loss = float(self.criterion(self.model(*inputs), wanted))
            except ValueError:
                if self.criterion.count != 0:
                    raise
                self.model.forget()             # all targets are ignored, so the batch contributes nothing
                continue
            total += loss * self.criterion.count
            targets += self.criterion.count
            if not math.isfinite(loss):
                break
            self.model.backward(self.criterion.backward(1.0 if mean else float(self.criterion.count)))
        return total, targets


def split(batch, count):
    """Split a batch into `count` parts, or fewer if it has fewer rows; every array as long as the targets is split."""
    inputs, targets = batch
    inputs = as_tuple(inputs)
    rows = len(targets) if np.ndim(targets) and np.ndim(inputs[0]) > 1 else 1
    count = min(count, rows)
    if count <= 1:
        return [(inputs, targets)]
    parts = []
    for n in range(count):
        part = slice(rows * n // count, rows * (n + 1) // count)
        parts.append((tuple(x[part] if np.ndim(x) and len(x) == rows else x for x in inputs), targets[part]))
    return parts


def tokens_in(batch):
    """Number of tokens in a batch: ids, or rows of features."""
    inputs, _ = batch
    x = np.asarray(as_tuple(inputs)[0])
    return x.size if x.dtype.kind in "iu" else math.prod(x.shape[:-1])


def workers_for(batch, parameters):
    """Number of workers worthwhile for such a batch.

    It is one for little work, for a sequence without a batch axis, and for a large model, because each worker has its own
    gradients: several BLAS threads then compute as fast in less memory.
    """
    inputs, targets = batch
    x = np.asarray(as_tuple(inputs)[0])
    axes = x.ndim if x.dtype.kind in "iu" else x.ndim - 1
    if axes < 2 or np.ndim(targets) == 0 or len(x) != len(targets) or blas() is None:
        return 1
    if sum(parameter.data.size for parameter in parameters if not is_frozen(parameter)) >= LARGE_MODEL:
        return 1
    work = tokens_in(batch) * sum(parameter.data.size for parameter in parameters)
    return max(1, min(cores(), len(targets), work // WORTHWHILE))


def as_tuple(inputs):
    return inputs if isinstance(inputs, tuple) else (inputs,)
