"""Whole training steps, ours, the floor and PyTorch's, timed in turns: a drifting machine then meets all alike."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import tracemalloc

from ..training import AdamW, Trainer
from ..training.machine import keep_freed_memory, set_blas_threads
from ..training.data_parallel import workers_for
from .floor import floors

TURN = 0.25                                     # seconds of each, in turns
REST = 0.15                                     # between them: idle threads of BLAS and OpenMP spin for so long
ROUNDS = 10


def trainer_of(config, threads):
    """(Trainer, batch) of one configuration: AdamW, clipping, and as many workers as the batch is worth."""
    model, batch = config.model(), config.batch_of_ids()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    workers = min(threads, workers_for(batch, model.parameters()))
    return Trainer(model, config.criterion(), optimizer, clip=1.0, workers=workers), batch


def measure(config, threads, rival=False, turn=TURN, rounds=ROUNDS, advance=lambda: None):
    """A row of figures for one configuration; with `rival` PyTorch's too."""
    keep_freed_memory()
    set_blas_threads(1)
    trainer, batch = trainer_of(config, threads)
    contestants = {"ours": timer(lambda: trainer.step([batch]))}
    contestants |= zip(("blas", "split"), map(timer, floors(config, threads)))
    child = None
    if rival:
        child = Rival(config.name, threads)
        contestants["torch"] = child.times
    times = {name: [] for name in contestants}
    try:
        counts = {name: max(1, round(turn * 1e3 / min(run(3)[1:]))) for name, run in contestants.items()}
        for n in range(rounds):
            for name, run in list(contestants.items())[::1 if n % 2 else -1]:       # nobody always follows the same one
                time.sleep(min(REST, turn))
                times[name] += run(1 + counts[name])[1:]        # the first one finds the caches full of others' numbers
            advance()
    finally:
        if child:
            child.close()
    ours = statistics.median(times["ours"])
    floor = min(statistics.median(times[name]) for name in ("blas", "split"))
    torch = statistics.median(times["torch"]) if rival else None
    return {"config": config.name, "ours_ms": ours, "torch_ms": torch, "floor_ms": floor,
            "ratio_torch": torch and ours / torch, "ratio_floor": ours / floor, "threads": threads,
            "workers": trainer.workers, "ours_quartiles_ms": quartiles(times["ours"]),
            "torch_quartiles_ms": quartiles(times["torch"]) if rival else None,
            "tokens_per_second": 1e3 * config.tokens / ours, "parameters": trainer.model.num_parameters(),
            "peak_mb": peak_memory(lambda: step_of(config)), "shares": shares(config)}


def step_of(config):
    """A function that does a step of a new model on one thread."""
    trainer, batch = trainer_of(config, 1)
    return lambda: trainer.step([batch])


def timer(step):
    """A function that does so many steps and returns the milliseconds of each."""
    def run(count):
        times = []
        for _ in range(count):
            started = time.perf_counter()
            step()
            times.append(1e3 * (time.perf_counter() - started))
        return times
    return run


def quartiles(times):
    return [statistics.quantiles(times, n=4)[i] for i in (0, 2)] if len(times) > 1 else times * 2


class Rival:
    """PyTorch in a process of its own, which works only when it is asked to."""

    def __init__(self, *arguments):
        free = {name: value for name, value in os.environ.items()      # it may use all the threads that it is given
                if name not in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        self.process = subprocess.Popen([sys.executable, "-m", f"{__package__}.rival", *map(str, arguments)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=free,
                                        start_new_session=True)             # a Ctrl-C is for us to answer

    def times(self, count):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{count}\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise OSError("the process that runs PyTorch has ended; see its message above, or leave out --vs torch")
        return json.loads(line)

    def close(self):
        self.process.kill()                     # it has nothing to save
        self.process.communicate()              # closes the pipes, and waits


def peak_memory(step_of_new):
    """Megabytes (10^6) of arrays at the peak of two steps: weights, gradients, optimizer and activations.

    step_of_new() makes a model and returns the function that does a step of it.
    """
    tracemalloc.start()
    step = step_of_new()
    step()
    step()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def shares(config, steps=3):
    """{class: share of the time of a step by one worker}, each without the parts that it calls, the largest first."""
    trainer, batch = trainer_of(config, 1)
    trainer.step([batch])
    spent, stack = {}, []

    def timed(name, function):
        def wrapper(*arguments, **named):
            stack.append(0.0)
            started = time.perf_counter()
            result = function(*arguments, **named)
            lasted = time.perf_counter() - started
            spent[name] = spent.get(name, 0) + lasted - stack.pop()
            if stack:
                stack[-1] += lasted
            return result
        return wrapper

    for part in (trainer.model, trainer.criterion):
        for _, module in part.named_modules():
            for verb in ("forward", "backward"):
                setattr(module, verb, timed(type(module).__name__, getattr(module, verb)))
    trainer.optimizer.step = timed(type(trainer.optimizer).__name__, trainer.optimizer.step)
    step = timed("the loop", trainer.step)
    for _ in range(steps):
        step([batch])
    total = sum(spent.values())
    return {name: lasted / total for name, lasted in sorted(spent.items(), key=lambda item: -item[1])}
