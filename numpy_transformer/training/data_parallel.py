"""Data parallelism: every worker computes the gradients of its part of a batch, and the gradients are added."""

import contextvars
import copy
import math
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from . import mpi
from .process import blas, cores, limited_blas_threads

WORTHWHILE = 10 ** 8                            # tokens times parameters that are worth a worker
PIECE = 2000                                    # tokens whose activations stay in the processor's cache


class DataParallel:
    """A model and `workers` - 1 replicas of it, each in a thread of its own.

    The replicas share the model's weights. Their gradients, memory and random generators are their own, and the
    generators are seeded by the model's at every step. The same seed and the same number of workers therefore give
    the same bits. With a communicator `comm`, every rank of it has that many workers.
    """

    def __init__(self, model, criterion, workers=1, comm=None):
        self.workers, self.comm = workers, comm
        self.first = comm.rank * workers if comm else 0                 # number of this process's first worker
        self.total = comm.size * workers if comm else workers
        self.replicas = [Replica(model.forget(), criterion.forget())]              # the others are made when needed
        self.threads = [ThreadPoolExecutor(1) for _ in range(1, workers)]
        self.blas_threads = 1 if workers > 1 else mpi.cores_per_rank(comm)          # None: as they are
        self.buffer = None                      # of all gradients, for MPI

    def gradients(self, batches):
        """Set the model's gradients to those of the mean loss over all counted targets.

        Returns (mean loss, counted targets). If the loss is not finite, or no target counts, the gradients are not valid.
        """
        seeds = self.draw_seeds()
        results = mpi.gather(self.comm, lambda: self.compute(batches, seeds))
        loss, targets = (sum(column) for column in zip(*results))
        if targets and (self.total > 1 or len(batches) > 1):
            self.add_up(targets)
        return loss / max(targets, 1), targets

    def draw_seeds(self):
        """Seeds for all workers but the first one, drawn from each generator of the model; on all ranks those of rank 0."""
        seeds = [rng.bit_generator.random_raw(self.total - 1).tolist() for rng in self.replicas[0].generators()]
        return self.comm.bcast(seeds) if self.comm else seeds

    def compute(self, batches, seeds):
        """Each worker's gradients of its summed loss; (summed loss, counted targets) of this process."""
        self.prepare_replicas()
        parts = [split(batch, self.total) for batch in batches]
        shares = [[piece for part in parts if n < len(part) for piece in self.pieces(part[n])]
                  for n in range(self.first, self.first + self.workers)]
        mean = self.total == 1 and len(batches) == 1        # then backward's own mean is the one that is wanted
        self.seed(seeds)
        with limited_blas_threads(self.blas_threads):
            futures = [thread.submit(contextvars.copy_context().run, replica.gradients, share)     # and its errstate
                       for thread, replica, share in zip(self.threads, self.replicas[1:], shares[1:])]
            try:
                results = [self.replicas[0].gradients(shares[0], mean)]
            finally:
                wait(futures)                   # an error here must not leave a replica at work
            results += [future.result() for future in futures]
        return [sum(column) for column in zip(*results)]

    def pieces(self, part):
        """A worker's part, in pieces of at most PIECE tokens; a single worker computes the whole batch at once."""
        return split(part, -(-tokens_in(part) // PIECE)) if self.total > 1 else [part]

    def prepare_replicas(self):
        """Make the replicas, anew if the model's weights have moved to other arrays; hand on train() and eval()."""
        model, *replicas = self.replicas
        if len(replicas) < self.workers - 1 or not all(replica.shares_weights(model) for replica in replicas):
            replicas = [model.copy() for _ in range(1, self.workers)]
            self.replicas = [model, *replicas]
        for replica in replicas:
            replica.copy_switches(model)

    def add_up(self, targets):
        """The sum of all workers' gradients over the number of targets, into the model's."""
        model, *others = (replica.parameters for replica in self.replicas)
        for parameter, *twins in zip(model, *others):
            for twin in twins:
                parameter.grad += twin.grad
        self.buffer = mpi.sum_gradients(self.comm, model, self.buffer)
        for parameter in model:
            parameter.grad *= 1 / targets

    def seed(self, seeds):
        """Give the seeds to the workers of this process. The very first one draws from the model's own generators."""
        for number, replica in enumerate(self.replicas, self.first):
            if number:
                replica.seed([column[number - 1] for column in seeds])


class Replica:
    """A model and its criterion, as one worker uses them."""

    def __init__(self, model, criterion):
        self.model, self.criterion = model, criterion
        self.modules = [module for part in (model, criterion) for _, module in part.named_modules()]
        self.parameters = model.parameters()
        found = {}                              # the (module, key) that hold a generator, by the generator
        for module in self.modules:
            for key, value in vars(module).items():
                if isinstance(value, np.random.Generator):
                    found.setdefault(id(value), []).append((module, key))
        self.holders = list(found.values())

    def copy(self):
        """Another replica with the same weights."""
        twins = {id(parameter): parameter.twin() for parameter in self.parameters}
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
        """Take over what train() and eval() have set."""
        for mine, theirs in zip(self.modules, other.modules):
            for switch in ("training", "remembering"):
                setattr(mine, switch, getattr(theirs, switch, True))

    def gradients(self, batches, mean=False):
        """Gradients of the summed loss of the batches, or of the mean over a single one; (summed loss, counted targets).

        Stops at a loss that is not finite.
        """
        for module in self.modules:
            vars(module).pop("_saved", None)
        for parameter in self.parameters:
            parameter.grad.fill(0)
        total = targets = 0
        for inputs, wanted in batches:
            output, self.criterion.count = self.model(*inputs), None
            try:
                loss = float(self.criterion(output, wanted))
            except ValueError:
                if self.criterion.count != 0:
                    raise
                self.model.forget()             # all its targets are ignored: it contributes nothing
                continue
            total, targets = total + loss * self.criterion.count, targets + self.criterion.count
            if not math.isfinite(loss):
                break
            self.model.backward(self.criterion.backward(1.0 if mean else float(self.criterion.count)))
        return total, targets


def split(batch, count):
    """The batch in `count` parts, fewer if it has fewer rows: every array that is as long as the targets is cut."""
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
    """Number of tokens that the model reads: ids, or rows of features."""
    inputs, _ = batch
    x = np.asarray(as_tuple(inputs)[0])
    return x.size if x.dtype.kind in "iu" else math.prod(x.shape[:-1])


def workers_for(batch, parameters):
    """Number of workers that such a batch is worth here: one for little work, or for a sequence without a batch axis."""
    inputs, targets = batch
    x = np.asarray(as_tuple(inputs)[0])
    axes = x.ndim if x.dtype.kind in "iu" else x.ndim - 1
    if axes < 2 or np.ndim(targets) == 0 or len(x) != len(targets) or blas() is None:
        return 1
    work = tokens_in(batch) * sum(parameter.data.size for parameter in parameters)
    return max(1, min(cores(), len(targets), work // WORTHWHILE))


def as_tuple(inputs):
    return inputs if isinstance(inputs, tuple) else (inputs,)
