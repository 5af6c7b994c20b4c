"""Whole training steps, ours, the floor and PyTorch's, timed in turns: a drifting machine then meets all alike."""

import contextlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

from ..training import AdamW, Trainer
from ..training.process import keep_freed_memory, limited_blas_threads, set_blas_threads
from ..training.data_parallel import workers_for
from .matmul_baseline import matmul_baselines

TURN = 0.25                                     # seconds of each, in turns
REST = 0.15                                     # between them: idle threads of BLAS and OpenMP spin for so long
ROUNDS = 10


def trainer_of(config, threads, comm=None):
    """(Trainer, batch) of one configuration: AdamW, clipping, and as many workers as the batch is worth."""
    model, batch = config.model(), config.batch_of_ids()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    workers = min(threads, workers_for(batch, model.parameters()))
    return Trainer(model, config.criterion(), optimizer, clip=1.0, workers=workers, comm=comm), batch


def measure(config, threads, with_torch=False, turn=TURN, rounds=ROUNDS, advance=lambda: None, ranks=None):
    """A row of figures for one configuration; `with_torch` adds PyTorch, `ranks` adds that many MPI ranks."""
    keep_freed_memory()
    trainer, batch = trainer_of(config, threads)
    step = timer(lambda: trainer.step([batch]))
    blas_threads = best_threads(step, set_blas_threads, threads, turn) if trainer.workers == 1 else 1
    set_blas_threads(1)

    def ours(count):
        with limited_blas_threads(blas_threads):
            return step(count)

    candidates = {"ours": ours} | dict(zip(("blas", "split"), map(timer, matmul_baselines(config, threads))))
    children = {}
    try:
        if with_torch:
            children["torch"] = python_process("torch_baseline", config.name, threads)
        if ranks:
            children["mpi"] = python_process("mpi_steps", config.name, launcher=[find_mpiexec(), "-n", str(ranks)])
        candidates |= {name: child.times for name, child in children.items()}
        times = in_turns(candidates, turn, rounds, advance)
    finally:
        for child in children.values():
            child.close()
    medians = {name: statistics.median(found) for name, found in times.items()}
    our_ms, torch, mpi = medians["ours"], medians.get("torch"), medians.get("mpi")
    matmul_ms = min(medians["blas"], medians["split"])
    return {"config": config.name, "ours_ms": our_ms, "torch_ms": torch, "floor_ms": matmul_ms, "mpi_ms": mpi,
            "ratio_torch": torch and our_ms / torch, "ratio_floor": our_ms / matmul_ms, "ratio_mpi": mpi and mpi / our_ms,
            "threads": threads, "workers": trainer.workers, "blas_threads": blas_threads, "ranks": ranks,
            "torch_threads": children["torch"].size if with_torch else None,
            "ours_quartiles_ms": quartiles(times["ours"]),
            "torch_quartiles_ms": quartiles(times["torch"]) if with_torch else None,
            "tokens_per_second": 1e3 * config.tokens / our_ms, "parameters": trainer.model.num_parameters(),
            "peak_mb": peak_memory(lambda: step_of(config)), "shares": shares(config)}


def in_turns(candidates, turn, rounds, advance):
    """{name: milliseconds of each step}: the candidates take turns, in reverse order in every second round."""
    times = {name: [] for name in candidates}
    counts = {name: max(1, round(turn * 1e3 / min(run(3)[1:]))) for name, run in candidates.items()}
    for n in range(rounds):
        for name in list(candidates)[::1 if n % 2 else -1]:
            time.sleep(min(REST, turn))
            times[name] += candidates[name](1 + counts[name])[1:]      # the first one finds others' numbers in the caches
        advance()
    return times


def best_threads(run, set_threads, threads, seconds=1.0, turns=3):
    """1 or `threads`, whichever gives the smaller median of the milliseconds that run(count) returns; they take turns."""
    times = {1: [], threads: []}
    count = max(2, round(seconds * 1e3 / min(run(3)[1:])))
    for _ in range(turns):
        for number in times:
            set_threads(number)
            times[number] += run(1 + count)[1:]
    return min(times, key=lambda number: statistics.median(times[number]))


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


def python_process(module, *arguments, launcher=()):
    return BenchmarkProcess([*launcher, sys.executable, "-m", f"{__package__}.{module}", *map(str, arguments)])


def find_mpiexec():
    """mpiexec, first that of the environment that this Python belongs to. Raises ValueError if there is none."""
    own = Path(sys.executable).with_name("mpiexec")
    found = str(own) if own.exists() else shutil.which("mpiexec")
    if found is None or importlib.util.find_spec("mpi4py") is None:
        raise ValueError("MPI needs mpi4py and mpiexec, which are not installed here; pip install 'numpy-transformer[mpi]'")
    return found


class BenchmarkProcess:
    """A process of its own that trains only when it is asked to: PyTorch, or MPI ranks. `size` is its threads or ranks."""

    def __init__(self, command):
        free = {name: value for name, value in os.environ.items()      # it may use all the threads that it is given
                if name not in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=free,
                                        start_new_session=True)             # a Ctrl-C is for us to answer

        try:
            self.size = self.read()
        except BaseException:                   # also for a Ctrl-C, as the caller does not have the process yet
            self.close()
            raise

    def times(self, count):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{count}\n")
            self.process.stdin.flush()
        return self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise OSError("the process of PyTorch or of MPI has ended; see its message above, or leave out --vs torch or "
                          "--mpi")
        return json.loads(line)

    def close(self):
        self.process.terminate()                # it has nothing to save; mpiexec ends its ranks
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
