"""Times whole training steps of ours, the matmuls alone, the rivals and MPI ranks.

The candidates take turns, so that a machine whose speed changes affects all of them alike.
"""

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

from ..threads import limited_blas_threads, set_blas_threads
from ..training import AdamW, Trainer
from ..training.data_parallel import workers_for
from ..training.memory import keep_freed_memory
from .matmul_baseline import matmul_baselines
from .other_libraries import RIVALS

TURN = 0.25                                     # seconds of a turn
REST = 0.15                                     # seconds between turns: idle threads of BLAS and OpenMP spin for that long
ROUNDS = 10                                     # turns of each candidate


def trainer_of(config, threads, comm=None):
    """Returns (Trainer, batch) of a configuration: AdamW, gradient clipping, and as many workers as the batch justifies."""
    model, batch = config.model(), config.batch_of_ids()
    optimizer = AdamW(model.parameters(), lr=1e-3)
    workers = min(threads, workers_for(batch, model.parameters()))
    return Trainer(model, config.criterion(), optimizer, clip=1.0, workers=workers, comm=comm), batch


def measure_config(config, threads, rivals=(), turn=TURN, rounds=ROUNDS, advance=lambda: None, ranks=None):
    """Returns a row of results for one configuration.

    Parameters:
        config : Config
        threads : number of threads that each candidate may use
        rivals : names in RIVALS that are timed, too
        turn : seconds of a turn
        rounds : number of turns of each candidate
        advance : function called after each round
        ranks : also time this number of MPI ranks; None: no MPI
    """
    keep_freed_memory()
    trainer, batch = trainer_of(config, threads)
    step = timer(lambda: trainer.step([batch]))
    blas_threads = best_threads(step, set_blas_threads, threads, turn) if trainer.workers == 1 else 1
    set_blas_threads(1)

    def ours(count):                            # several workers multiply on one thread each; AdamW may use more
        with limited_blas_threads(blas_threads if trainer.workers == 1 else threads):
            return step(count)

    candidates = {"ours": ours}
    for name, multiply_all in zip(("blas", "split"), matmul_baselines(config, threads)):
        candidates[name] = timer(multiply_all)
    children = {}
    try:
        for name in rivals:
            children[name] = best_process(RIVALS[name].module, config.name, threads, turn)
        if ranks:
            children["mpi"] = python_process("mpi_steps", config.name, launcher=[find_mpiexec(), "-n", str(ranks)])
        candidates |= {name: child.times for name, child in children.items()}
        times = in_turns(candidates, turn, rounds, advance)
    finally:
        for child in children.values():
            child.close()
    medians = {name: statistics.median(milliseconds) for name, milliseconds in times.items()}
    our_ms = medians["ours"]
    matmul_ms = min(medians["blas"], medians["split"])
    row = {"config": config.name, "job": "step", "ours_ms": our_ms, "ours_quartiles_ms": quartiles(times["ours"]),
           "floor_ms": matmul_ms, "ratio_floor": our_ms / matmul_ms,
           "threads": threads, "workers": trainer.workers, "blas_threads": blas_threads, "rivals": list(rivals),
           "tokens_per_second": 1e3 * config.tokens / our_ms, "parameters": trainer.model.num_parameters(),
           "peak_mb": peak_memory(lambda: step_of(config)), "shares": time_shares(config)}
    for name in rivals:
        row |= {f"{name}_ms": medians[name], f"{name}_quartiles_ms": quartiles(times[name]),
                f"{name}_threads": children[name].size, f"ratio_{name}": our_ms / medians[name]}
    if rivals:
        row["ratio_best"] = our_ms / min(medians[name] for name in rivals)
    if ranks:
        row |= {"mpi_ms": medians["mpi"], "ratio_mpi": medians["mpi"] / our_ms, "ranks": ranks}
    return row


def in_turns(candidates, turn, rounds, advance):
    """Returns {name: milliseconds of each step}. The candidates take turns, in reverse order in every second round."""
    times = {name: [] for name in candidates}
    counts = {name: max(1, round(turn * 1e3 / min(run(3)[1:]))) for name, run in candidates.items()}
    for n in range(rounds):
        order = list(candidates) if n % 2 else list(candidates)[::-1]
        for name in order:
            time.sleep(min(REST, turn))
            times[name] += candidates[name](1 + counts[name])[1:]       # the first step finds the caches full of other data
        advance()
    return times


def best_threads(run, set_threads, threads, seconds=1.0, turns=3):
    """Returns 1 or `threads`, whichever gives the smaller median of the milliseconds that run(count) returns."""
    times = {1: [], threads: []}
    count = max(2, round(seconds * 1e3 / min(run(3)[1:])))
    for _ in range(turns):
        for number in times:
            set_threads(number)
            times[number] += run(1 + count)[1:]
    return min(times, key=lambda number: statistics.median(times[number]))


def step_of(config):
    """Returns a function that runs a training step of a new model on one thread."""
    trainer, batch = trainer_of(config, 1)
    return lambda: trainer.step([batch])


def timer(step):
    """Returns a function of a count, which runs `step` that often and returns the milliseconds of each run."""
    def run(count):
        times = []
        for _ in range(count):
            started = time.perf_counter()
            step()
            times.append(1e3 * (time.perf_counter() - started))
        return times
    return run


def quartiles(times):
    """Returns the first and the third quartile; a single value is both."""
    if len(times) == 1:
        return times * 2
    first, _, third = statistics.quantiles(times, n=4)
    return [first, third]


def python_process(module, *arguments, launcher=()):
    """Starts a module of this package in another process, with `launcher` (such as mpiexec) before the command."""
    return BenchmarkProcess([*launcher, sys.executable, "-m", f"{__package__}.{module}", *map(str, arguments)])


def best_process(module, name, threads, turn=TURN, rounds=3):
    """Starts a rival with one thread and with `threads`, and returns the faster process."""
    children = {}
    try:
        for count in sorted({1, threads}):
            children[count] = python_process(module, name, count)
        times = in_turns({count: child.times for count, child in children.items()}, turn, rounds, lambda: None)
        return children.pop(min(times, key=lambda count: statistics.median(times[count])))
    finally:
        for child in children.values():         # those that are left
            child.close()


def find_mpiexec():
    """Returns the path of mpiexec, preferably of this Python's environment. Raises ValueError if MPI is not installed."""
    own = Path(sys.executable).with_name("mpiexec")
    path = str(own) if own.exists() else shutil.which("mpiexec")
    if path is None or importlib.util.find_spec("mpi4py") is None:
        raise ValueError("MPI needs mpi4py and mpiexec, which are not installed here; pip install 'numpy-transformer[mpi]'")
    return path


class BenchmarkProcess:
    """A child process that runs steps on request, of a rival or on MPI ranks. `size` is its number of threads or ranks."""

    def __init__(self, command):
        limits = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")    # the child sets its own number
        environment = {name: value for name, value in os.environ.items() if name not in limits}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment, start_new_session=True)    # Ctrl-C reaches only the parent
        try:
            self.size = self.read()
        except BaseException:                   # also after Ctrl-C, because the caller cannot close the process yet
            self.close()
            raise

    def times(self, count):
        """Runs `count` steps in the child and returns the milliseconds of each."""
        return self.ask(count)

    def peak_mb(self):
        """Returns the peak memory of the child in MB, or None where the system does not say."""
        return self.ask("memory")

    def ask(self, question):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{question}\n")
            self.process.stdin.flush()
        return self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise OSError("a child process of the benchmark has ended; see its message above, or leave out --vs or --mpi")
        return json.loads(line)

    def close(self):
        self.process.terminate()                # it has nothing to save, and mpiexec stops its ranks
        self.process.communicate()              # closes the pipes and waits for the end


def peak_memory(step_of_new):
    """Returns the peak memory of the arrays in two steps, in MB (10^6 bytes): weights, gradients, optimizer, activations.

    step_of_new() makes a model and returns a function that runs a training step of it.
    """
    tracemalloc.start()
    step = step_of_new()
    step()
    step()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def time_shares(config, steps=3):
    """Returns {class: share of the time of a step with one worker}, each without its submodules, the largest first."""
    trainer, batch = trainer_of(config, 1)
    trainer.step([batch])
    spent = {}
    stack = []                                  # seconds of the submodules of each call that is running

    def timed(name, function):
        def wrapper(*arguments, **named):
            stack.append(0.0)
            started = time.perf_counter()
            result = function(*arguments, **named)
            seconds = time.perf_counter() - started
            spent[name] = spent.get(name, 0) + seconds - stack.pop()
            if stack:
                stack[-1] += seconds
            return result
        return wrapper

    for part in (trainer.model, trainer.criterion):
        for _, module in part.named_modules():
            module.forward = timed(type(module).__name__, module.forward)
            module.backward = timed(type(module).__name__, module.backward)
    trainer.optimizer.step = timed(type(trainer.optimizer).__name__, trainer.optimizer.step)
    step = timed("the loop", trainer.step)
    for _ in range(steps):
        step([batch])
    total = sum(spent.values())
    return {name: seconds / total for name, seconds in sorted(spent.items(), key=lambda item: -item[1])}
