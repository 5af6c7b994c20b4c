"""What a replica of a model does, in a process or a thread of its own, and how one speaks with it."""

import contextlib
import os
import pickle
import select
import signal
import time
import traceback

import numpy as np

from .shares import accumulate

SWITCHES = ("training", "remembering")
PATIENCE = 3e-3                                 # seconds: about what an optimizer's step takes


def inside(model, criterion):
    """Modules, parameters, and of each random generator the (module, key) that hold it."""
    modules = [module for part in (model, criterion) for _, module in part.named_modules()]
    places = {}
    for module in modules:
        for key, value in vars(module).items():
            if isinstance(value, np.random.Generator):
                places.setdefault(id(value), []).append((module, key))
    return modules, model.parameters(), list(places.values())


def receive(pipe, patience):
    """The next message. So many seconds it waits busily: a process that sleeps wakes a tenth of a millisecond late."""
    if patience and hasattr(pipe, "fileno"):    # threads must let go of Python's lock
        waiting, end = select.poll(), time.perf_counter() + patience
        waiting.register(pipe, select.POLLIN)
        while not waiting.poll(0) and time.perf_counter() < end:
            pass
    return pipe.recv()


def work(model, criterion, pipe, others, asker, patience):
    """What a replica does: for each share the gradients, and an answer, until nobody asks any more."""
    if os.getpid() != asker:
        signal.signal(signal.SIGINT, signal.SIG_IGN)        # a Ctrl-C is for the process that asks
        for other in others:
            other.close()                       # the ends of that process, whose own end must end the pipe
    modules, parameters, generators = inside(model, criterion)
    with contextlib.suppress(EOFError, OSError):
        while job := receive(pipe, patience):
            share, switches, seeds, errors = job
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
    error.__notes__ = [*getattr(error, "__notes__", []), f"in a worker:\n{text}"]
    return error


@contextlib.contextmanager
def lost_workers_named():
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise RuntimeError("a worker has ended in the middle of a step, perhaps for want of memory; try fewer workers "
                           "or smaller batches") from error


def dismiss(replicas, asker):
    """Tell them that nobody will ask any more. A process forked from the one that asks must not say so."""
    for pipe, _ in replicas if asker == os.getpid() else []:
        with contextlib.suppress(OSError):      # it may have ended already
            pipe.send(None)
    replicas.clear()
