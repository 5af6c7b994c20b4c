"""The workers of a training step: each computes the gradients of its part of a batch, in a thread or in a process."""

import contextlib
import contextvars
import copy
import math
import mmap
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from ..module import is_frozen
from ..parameter import forget_grad
from ..threads import set_blas_threads
from ..tree import parts_with_loss

PATIENCE = 0.002                                # seconds of busy waiting


class Replica:
    """The model and the criterion of one worker."""

    def __init__(self, model, criterion):
        self.model, self.criterion = model, criterion
        self.modules = [module for part in (model, criterion) for _, module in part.named_modules()]
        self.all_parameters = model.parameters()
        self.parameters = model.parameters(trained=True)
        self.frozen = self.find_frozen()
        self.own_losses = parts_with_loss(model)
        holders_by_id: dict[int, list] = {}             # {id of a generator: list of the (module, key) that hold it}
        for module in self.modules:
            for key, value in vars(module).items():
                if isinstance(value, np.random.Generator):
                    holders_by_id.setdefault(id(value), []).append((module, key))
        self.holders = list(holders_by_id.values())

    def copy(self):
        """Returns a replica that shares the weights; frozen parameters, whose gradient is never written, are shared as a
        whole.
        """
        twins = {id(parameter): parameter for parameter in self.model.parameters()}
        twins |= {id(parameter): parameter.twin() for parameter in self.parameters}
        return Replica(*copy.deepcopy((self.model, self.criterion), twins))

    def find_frozen(self):
        return [is_frozen(parameter) for parameter in self.all_parameters]

    def generators(self):
        return [vars(module)[key] for (module, key), *_ in self.holders]

    def seed(self, seeds):
        """Gives each generator a seed. With None they stay as they are: the first worker uses the model's own generators."""
        for holders, seed in zip(self.holders, seeds or ()):
            rng = np.random.default_rng(seed)
            for module, key in holders:
                setattr(module, key, rng)

    def shares_weights(self, other):
        return all(mine.data is theirs.data for mine, theirs in zip(self.parameters, other.parameters))

    def switches(self):
        """Returns what train() and eval() have set in each module."""
        return [(getattr(module, "training", True), getattr(module, "remembering", True)) for module in self.modules]

    def set_switches(self, switches):
        for module, switch in zip(self.modules, switches):
            module.training, module.remembering = switch

    def work(self, batches, seeds, switches):
        """Does one step of a worker that is not the first and returns its result."""
        self.set_switches(switches)
        self.seed(seeds)
        return self.gradients(batches)

    def gradients(self, batches, mean=False):
        """Computes the gradients of the summed loss of the batches; returns (summed loss, counted targets).

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
            scale = 1.0 if mean else float(self.criterion.count)
            with self.scaled_losses(scale):
                self.model.backward(self.criterion.backward(scale))
        return total, targets

    @contextlib.contextmanager
    def scaled_losses(self, scale):
        """Multiplies the losses that parts of the model add themselves by the factor of the criterion's loss."""
        for part in self.own_losses:
            part.loss_scale = scale
        try:
            yield
        finally:
            for part in self.own_losses:
                part.loss_scale = 1.0


class ThreadWorker:
    """A replica in a thread of this process. It shares the weights of the model."""

    def __init__(self, model):
        self.model, self.replica = model, model.copy()
        self.thread = ThreadPoolExecutor(1)

    def end(self):
        self.thread.shutdown(wait=False)

    def fits(self):
        """Returns False if the model's weights are in other arrays now."""
        return self.replica.shares_weights(self.model)

    def start(self, batches, seeds):
        run = contextvars.copy_context().run    # the context contains np.errstate
        self.future = self.thread.submit(run, self.replica.work, batches, seeds, self.model.switches())

    def wait(self):
        wait([self.future])

    def result(self):
        """Returns what Replica.gradients returned, or raises the error that it raised."""
        return self.future.result()

    def gradients(self):
        return [parameter.grad for parameter in self.replica.parameters]


class ProcessWorker:
    """A forked process, whose replica is the model as it was then. Weights and gradients are in memory that both share.

    Processes are faster than threads, which wait for each other between their matmuls: only one thread of a process can
    run Python code. A forked process ends when the process that has made it ends or drops this object.
    """

    def __init__(self, model):
        self.model = model
        self.weights, self.grads = ([shared_array(p.data) for p in model.parameters] for _ in range(2))
        fork = multiprocessing.get_context("fork")
        self.connection, theirs = fork.Pipe()
        self.process = fork.Process(target=serve_parent, args=(model, self.weights, self.grads, theirs, os.getpid()),
                                    daemon=True)
        with warnings.catch_warnings():         # newer versions of Python warn of fork if there are other threads
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        theirs.close()
        self.end = weakref.finalize(self, stop, self.process, os.getpid())
        self.ready = True

    def fits(self):
        """Returns False if an answer is missing, as after an interrupt, or if the weights have another dtype now."""
        return self.ready and all(p.data.dtype == array.dtype for p, array in zip(self.model.parameters, self.weights))

    def start(self, batches, seeds):
        self.ready = False
        for parameter, array in zip(self.model.parameters, self.weights):
            np.copyto(array, parameter.data)
        with contextlib.suppress(ConnectionError):          # result() reports that the process has ended
            self.connection.send((np.geterr(), batches, seeds, self.model.switches()))

    def wait(self):
        try:
            self.answer = pickle.loads(receive(self.connection, self.process.is_alive))
            self.ready = True
        except (EOFError, ConnectionError):
            self.answer = None, RuntimeError("a worker process has ended unexpectedly, perhaps because memory ran out; "
                                             "train with workers=1, or with smaller batches"), None

    def result(self):
        """Returns what Replica.gradients returned, or raises the error that it raised."""
        result, error, where = self.answer
        if error is not None:
            raise error from where and RuntimeError(f"the error was raised in a worker process:\n{where}")
        return result

    def gradients(self):
        return self.grads


def can_fork(model):
    """Returns whether the workers of a model can be forked processes.

    Frozen weights are not copied at every step, so a process would not notice that they have changed. Outside the main
    thread, the others may hold locks, which stay locked in a forked process.
    """
    daemon = multiprocessing.current_process().daemon       # such a process is not allowed to start others
    main = threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and main and not daemon and not any(model.frozen)


def shared_array(like):
    """Returns an array of zeros in memory that forked processes share."""
    return np.frombuffer(mmap.mmap(-1, max(like.nbytes, 1)), like.dtype, like.size).reshape(like.shape)


def serve_parent(replica, weights, grads, connection, parent):
    """The main loop of a worker process: answers each part of a batch with (result, error, traceback)."""
    close_files(connection.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)            # Ctrl-C reaches the parent process too, which handles it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    set_blas_threads(1)
    for parameter, data, grad in zip(replica.parameters, weights, grads):
        parameter.move(data, grad)
    with contextlib.suppress(EOFError):
        while True:
            connection.send(attempt(replica, receive(connection, lambda: os.getppid() == parent)))


def close_files(kept):
    """Closes the files and pipes of the parent process: as long as a worker has them open, no one sees that they end."""
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number != kept:
            with contextlib.suppress(OSError):              # listdir has closed its own already
                os.close(number)


def attempt(replica, message):
    """Returns (result, None, None), or (None, error, traceback)."""
    try:
        errstate, *work = pickle.loads(message)
        with np.errstate(**errstate):
            return replica.work(*work), None, None
    except BaseException as error:
        where = traceback.format_exc()
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:                       # an error of a kind that cannot be sent
            error = RuntimeError(f"{type(error).__name__}: {error}")
        return None, error, where


def receive(connection, is_alive):
    """Returns the bytes of the next message, or raises EOFError if the other process is not alive.

    It waits busily at first, because a process that sleeps needs long to wake up.
    """
    end = time.perf_counter() + PATIENCE
    while not connection.poll() and time.perf_counter() < end:
        os.sched_yield()
    while not connection.poll(1):               # the end of a pipe is no sign: other forked processes may hold it open
        if not is_alive():
            raise EOFError
    return connection.recv_bytes()


def stop(process, parent):
    """Ends a worker process. A forked copy of its parent, in which the ProcessWorker is dropped too, must not end it."""
    if os.getpid() == parent:
        process.kill()
        process.join()
