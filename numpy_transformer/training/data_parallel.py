"""Data parallelism: every worker computes the gradients of its part of a batch, and the gradients are added."""

import contextlib
import math
import os

import numpy as np

from ..module import is_frozen
from ..threads import LARGE_MODEL, blas, cores, limited_blas_threads
from . import mpi
from .workers import ProcessWorker, Replica, ThreadWorker, can_fork

WORTHWHILE = 10 ** 7                            # tokens times parameters for which another worker is worthwhile
PIECE = 2000                                    # number of tokens whose activations fit into the processor's cache


class DataParallel:
    """A model and `workers` - 1 replicas of it, each in its own process, or in a thread where processes cannot be forked.

    The replicas have the weights of the model. They have their own gradients, saved values and random generators, which
    are seeded from the model's generators at every step. The same seed and number of workers therefore give exactly the
    same result. With a communicator `comm`, every rank has `workers` workers, which are threads.
    """

    def __init__(self, model, criterion, workers=1, comm=None):
        self.workers, self.comm = workers, comm
        self.first = comm.rank * workers if comm else 0                 # number of the first worker of this process
        self.total = comm.size * workers if comm else workers
        self.blas_threads = 1 if workers > 1 else mpi.cores_per_rank(comm)          # None: unchanged
        self.set_model(model, criterion)

    def set_model(self, model, criterion):
        self.model = Replica(model.forget(), criterion.forget())
        self.others = []                        # they are made in the first step,
        self.process = None                     # which is done in this process
        self.buffer = None                      # for all gradients, with MPI

    def gradients(self, batches):
        """Sets the gradients of the model to those of the mean loss over all counted targets.

        Returns (mean loss, counted targets). The gradients are not valid if the loss is not finite or no target counts.
        """
        if self.model.frozen != self.model.find_frozen():
            self.set_model(self.model.model, self.model.criterion)
        seeds = self.draw_seeds()
        results = mpi.gather(self.comm, lambda: self.compute(batches, seeds))
        loss, targets = (sum(column) for column in zip(*results))
        if targets and (self.total > 1 or len(batches) > 1):
            self.add_up(targets)
        return loss / max(targets, 1), targets

    def draw_seeds(self):
        """Returns the seeds for all workers but the first, drawn from each generator of the model; rank 0 draws for all
        ranks.
        """
        columns = [rng.bit_generator.random_raw(self.total - 1).tolist() for rng in self.model.generators()]
        return self.comm.bcast(columns) if self.comm else columns

    def compute(self, batches, columns):
        """Lets every worker compute the gradients of its summed loss; (summed loss, counted targets) of this process."""
        parts = [split(batch, self.total) for batch in batches]
        numbers = range(self.first, self.first + self.workers)
        shares = [[piece for part in parts if n < len(part) for piece in self.pieces(part[n])] for n in numbers]
        seeds = [[column[n - 1] for column in columns] if n else None for n in numbers]
        mean = self.total == 1 and len(batches) == 1        # then the mean that the loss computes is the right one
        self.model.seed(seeds[0])
        with limited_blas_threads(self.blas_threads), self.started(shares[1:], seeds[1:]) as others:
            results = [self.model.gradients(shares[0], mean)]
        results += [worker.result() for worker in others]
        return [sum(column) for column in zip(*results)]

    @contextlib.contextmanager
    def started(self, shares, seeds):
        """The other workers compute their shares while the block runs; it ends when all have finished, also after an error.
        """
        if self.process != os.getpid() or not all(worker.fits() for worker in self.others):
            for worker in self.others:
                worker.end()
            self.others = [self.new_worker() for _ in range(1, self.workers)]
            self.process = os.getpid()          # a copy of it that is forked later has workers of its own
        running = []
        try:
            for worker, *share in zip(self.others, shares, seeds):
                worker.start(*share)
                running.append(worker)
            yield running
        finally:
            for worker in running:
                worker.wait()

    def new_worker(self):
        if self.comm is None and can_fork(self.model):      # a process that uses MPI must not be forked
            with contextlib.suppress(OSError):              # too many processes, or too little memory
                return ProcessWorker(self.model)
        return ThreadWorker(self.model)

    def pieces(self, part):
        """Splits a worker's part into pieces of at most PIECE tokens; a single worker computes the whole batch at once."""
        if self.total == 1:
            return [part]
        return split(part, math.ceil(tokens_in(part) / PIECE))

    def add_up(self, targets):
        """Sets the gradients of the model to the sum over all workers, divided by the number of targets."""
        for parameter, *others in zip(self.model.parameters, *(worker.gradients() for worker in self.others)):
            total = parameter.grad
            for grad in others:
                total += grad
            total *= 1 / targets
        self.buffer = mpi.sum_gradients(self.comm, self.model.parameters, self.buffer)


def split(batch, count):
    """Splits a batch into `count` parts, or fewer if it has fewer rows; every array as long as the targets is split."""
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
    """Returns the number of tokens in a batch: ids, or rows of features."""
    inputs, _ = batch
    x = np.asarray(as_tuple(inputs)[0])
    return x.size if x.dtype.kind in "iu" else math.prod(x.shape[:-1])


def workers_for(batch, parameters):
    """Returns the number of workers worthwhile for such a batch.

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
