"""Data-parallel workers: replicas of a model that share its weights, each with a part of every batch.

They live in forked processes: threads wait for Python's lock a sixth of the time (nanogpt-cpu, two threads).
"""

import copy
import math
import multiprocessing.dummy
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .machine import FORKS, cores, is_shared, set_blas_threads, shared_copy
from .replica import PATIENCE, SWITCHES, dismiss, inside, lost_workers_named, receive, work
from .shares import accumulate, split


class Workers:
    """A model, its criterion, and `count` - 1 replicas of both. They share the weights; memory, gradients and random
    generators, which the model's seed at each step, are their own. The same seed and count give the same numbers, bit
    by bit. New weights and switches reach the replicas; for a model with other parts make new workers.
    """

    def __init__(self, model, criterion, count):
        self.model, self.criterion, self.count = model.forget(), criterion.forget(), count
        self.modules, self.parameters, self.generators = inside(model, criterion)
        self.replicas, self.weights = [], []    # (pipe, gradients) of each; the arrays that all share
        self.asker, self.patience = os.getpid(), PATIENCE if count <= cores() else 0
        large = count > 1 and sum(parameter.data.size for parameter in self.parameters) >= 2 ** 19
        self.map = ThreadPoolExecutor(count).map if large else map      # for the blocks of an optimizer's step
        weakref.finalize(self, dismiss, self.replicas, self.asker)

    def gradients(self, batches):
        """Gradients of the mean loss over all targets, into the model; (mean loss, targets)."""
        parts = [split(batch, self.count) for batch in batches]
        own, *others = ([part[n] for part in parts if n < len(part)] for n in range(self.count))
        alone = len(own) == 1 and not any(others)           # then backward's own mean is the one that is wanted
        before = set_blas_threads(1) if self.count > 1 else 0
        try:
            asked = self.ask([share for share in others if share])
            answers = [accumulate(self.model, self.criterion, own, alone, self.modules, self.parameters)]
            with lost_workers_named():
                answers += [receive(pipe, self.patience) for pipe, _ in asked]
            for error in answers:
                if isinstance(error, BaseException):
                    raise error
        except BaseException:                   # who knows where the replicas are: the next step makes new ones
            dismiss(self.replicas, self.asker)
            raise
        finally:
            if before:
                set_blas_threads(before)
        loss, targets = (sum(column) for column in zip(*answers))
        if targets and not alone and math.isfinite(loss):
            for parameter, *gradients in zip(self.parameters, *(gradients for _, gradients in asked)):
                for gradient in gradients:
                    parameter.grad += gradient
                parameter.grad *= 1 / targets
        return loss / max(targets, 1), targets

    def ask(self, shares):
        """Give each share to a replica, as many as there are; those that have one."""
        if shares and not (self.replicas and self.asker == os.getpid() and all(
                parameter.data is array for parameter, array in zip(self.parameters, self.weights))):
            self.start()                        # for the first time, or an optimizer has moved the weights
        switches = [[getattr(module, switch, True) for module in self.modules] for switch in SWITCHES]
        seeds = [vars(module)[key].bit_generator.random_raw(self.count - 1).tolist()
                 for (module, key), *_ in self.generators]
        for n, ((pipe, _), share) in enumerate(zip(self.replicas, shares)):
            with lost_workers_named():
                pipe.send((share, switches, [seed[n] for seed in seeds], np.geterr()))
        return self.replicas[:len(shares)]

    def share(self):
        """Move the weights into memory that forked processes see."""
        for parameter in self.parameters:
            if not is_shared(parameter.data):
                parameter.move(shared_copy(parameter.data), parameter.grad)

    def start(self):
        dismiss(self.replicas, self.asker)
        main = threading.current_thread() is threading.main_thread()        # others may hold a lock, for ever in a fork
        forks = FORKS and main and not multiprocessing.current_process().daemon             # else threads
        context = multiprocessing.get_context("fork") if forks else multiprocessing.dummy
        self.share()
        self.weights, self.asker = [parameter.data for parameter in self.parameters], os.getpid()
        for _ in range(1, self.count):
            replica = copy.deepcopy((self.model, self.criterion))
            for parameter, data in zip(replica[0].parameters(), self.weights):
                parameter.move(data, shared_copy(parameter.grad))
            ours, theirs = context.Pipe()
            self.replicas.append((ours, [parameter.grad for parameter in replica[0].parameters()]))
            others = [pipe for pipe, _ in self.replicas]
            process = context.Process(target=work, args=(*replica, theirs, others, self.asker, self.patience))
            process.daemon = True
            process.start()
            if forks:
                theirs.close()
