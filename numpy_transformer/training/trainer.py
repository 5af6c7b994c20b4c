"""The training loop. It works with any module and optimizer, and knows nothing about Transformers."""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ..argument_checks import check_positive
from ..module import Module, is_frozen
from ..threads import blas, cores, limited_blas_threads
from ..types import Batch, Batches, PathLike, Validation
from . import mpi
from .checkpoint import Checkpoint, read_checkpoint
from .data_parallel import DataParallel, as_tuple, workers_for
from .evaluation import evaluate
from .fit_arguments import check_fit
from .history import History
from .interrupt import Interrupt
from .memory import keep_freed_memory
from .optimizers import Optimizer, clip_grad_norm
from .progress import Progress
from .schedules import Schedule
from .trainer_state import COLUMNS, restore


class Trainer:
    """Repeats the five lines of a training step: zero_grad, forward, loss, backward, optimizer.step.

    Parameters:
        model : Module
        criterion : loss, a Module with `count`, the number of targets that its mean is over
        optimizer : Optimizer
        schedule : Schedule or None; its step() is called once before each step of the optimizer
        clip : float or None, gradients are clipped to this joint norm
        accumulate : int, number of batches per step; their gradients equal those of one batch that contains them all
        workers : int or None, number of processes or threads that each compute a part of every batch (below); None
            chooses it by the size of the first batch and the number of CPU cores
        comm : mpi4py communicator or None; every rank computes its part of every batch (below)

    Attributes:
        steps : int, number of steps done
        history : list with a dict for each step: step, loss, lr, norm (before clipping), tokens (counted targets) and,
            where measured, validation and whatever else the validation function returned

    Workers: the first axis of all arrays of a batch must be the batch. Each worker draws its own dropout, so the number
    of workers determines the result as the seed does, and a checkpoint stores it. With several workers, a part of more
    than 2,000 tokens is computed in pieces that fit into the processor's cache. On Linux, the workers but the first are
    forked processes with their own copies of weights and gradients; elsewhere, with MPI, with frozen parameters and outside
    the main thread, they are threads. Changes to the model after the first step, other than to its weights and by train(),
    eval(), freeze and unfreeze, reach the workers only through start_workers().

    MPI: all ranks need the same model, seed and batches. Only rank 0 prints and saves, and what `validation` returns on
    rank 0 counts for all. An error on one rank stops all ranks: the others raise RankError.

    Raises:
        ValueError if a loss or a gradient is not finite: it names the step and the first parameter that is not finite,
        and the weights stay as they were before that step.
    """

    def __init__(self, model: Module, criterion: Module, optimizer: Optimizer, schedule: Schedule | None = None,
                 clip: float | None = None, accumulate: int = 1, workers: int | None = None, comm: Any = None) -> None:
        check_positive(accumulate=accumulate, workers=1 if workers is None else workers)
        if clip is not None and not clip > 0:
            raise ValueError(f"clip = {clip} must be above 0; 1.0 is usual, None disables clipping")
        if comm is not None and not hasattr(comm, "Allreduce"):
            raise TypeError(f"comm must be an mpi4py communicator such as MPI.COMM_WORLD, got {type(comm).__name__}; leave "
                            "it out to train in one process")
        self.model, self.criterion, self.optimizer = model, criterion, optimizer
        self.schedule, self.clip, self.accumulate = schedule, clip, accumulate
        self.workers, self.comm = workers, comm
        self.parallel: DataParallel | None = None
        self.parameters = model.parameters()
        self.steps = 0
        self.history = History()
        # with patience: the best value, its step, and `since`, the number of measurements since then; and its weights
        self.best: dict[str, Any] | None = None
        self.best_weights: dict[str, np.ndarray] = {}
        self.loaded = False                     # if True, the next fit continues with the patience that is left

    def __repr__(self):
        return (f"Trainer({type(self.model).__name__}, {type(self.criterion).__name__}, "
                f"{type(self.optimizer).__name__}, steps={self.steps:,})")

    def __getstate__(self):                     # a copy starts its own workers
        return {**vars(self), "parallel": None}

    def weights(self) -> list[np.ndarray]:
        """Returns the arrays of all parameters."""
        return [parameter.data for parameter in self.parameters]

    @property
    def rank(self):
        return self.comm.rank if self.comm else 0

    def fit(self, batches: Batches, steps: int | None = None, validation: Validation | None = None, every: int | None = None,
            epochs: int | None = None, patience: int | None = None, checkpoint: Checkpoint | PathLike | None = None,
            title: str = "train", watch: str = "validation",
            after_step: Callable[["Trainer"], Any] | None = None) -> History:
        """Trains for `steps` more steps or `epochs` more epochs, and returns the history.

        Parameters:
            batches : list of (inputs, targets), where inputs is an array or a tuple of arrays; or a function that returns
                batch number n, from 0 on. The function must depend on n alone, and must have a length for `epochs`
            steps, epochs : int, exactly one of them
            validation : list of batches, or a function that returns the loss, or a dict with the loss as "validation" and
                other measures for the history
            every : int or None, steps between validations; None: once per epoch, or every 100 steps. The last step is
                always validated
            patience : int or None; stop after this many validations without a better value of `watch`, and restore the
                best weights
            watch : the measure that patience watches: "validation" (the loss), or another name that the validation
                function returns. Lower is better for names that contain "loss", higher for all others, such as "f1". Among
                equal values, a lower loss is better
            checkpoint : path or Checkpoint to which the run is saved; load() continues it
            title : str, shown in the progress bar
            after_step : function or None; it is called with this Trainer after every step, when the step's row is complete
                and `parameter.grad` still holds the gradients that the optimizer used, scaled by clipping. It must not
                change anything that training depends on. With MPI, each rank calls the function that it was given

        The rate shown, tok/s, counts the tokens that the model reads according to its `count_tokens(*inputs)`, which
        leaves out hidden padding. For a model without that method, it counts the targets.

        The first Ctrl-C finishes the step, saves, and raises KeyboardInterrupt.
        """
        with mpi.together(self.comm):
            check_fit(batches, steps, epochs, validation, every, patience, watch)
            if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
                checkpoint = Checkpoint(checkpoint)
        keep_freed_memory()
        if steps is None:                       # then epochs says how long to train, and batches has a length
            length = len(cast(Sequence[Batch], batches))
            steps = math.ceil(cast(int, epochs) * length / self.accumulate)
            every = every or math.ceil(length / self.accumulate)
        every = every or 100
        last = self.steps + steps
        self.start_patience(patience, watch)
        arguments = last, every, validation is None, patience, watch, checkpoint and checkpoint.every, self.workers
        mpi.same_on_all_ranks(self.comm, "the arguments of fit", lambda: arguments)
        mpi.same_on_all_ranks(self.comm, "the weights", self.weights)
        self.model.train()
        with Progress(last, title, "step", self.steps, self.rank > 0) as progress, Interrupt(self.comm) as interrupt:
            while self.steps < last and not self.out_of_patience(patience):
                started = time.perf_counter()
                step_batches = mpi.same_on_all_ranks(self.comm, "the batches", lambda: [
                    batch_at(batches, self.steps * self.accumulate + i) for i in range(self.accumulate)])
                row = self.step(step_batches)
                rate = tokens_read(self.model, step_batches, row["tokens"]) / (time.perf_counter() - started)
                if validation is not None and (self.steps % every == 0 or self.steps == last):
                    self.measure(validation, patience, watch)
                interrupted = mpi.on_any_rank(self.comm, interrupt.asked)
                ended = self.steps == last or self.out_of_patience(patience)
                self.save_if_due(checkpoint, interrupted, ended)
                self.show(progress, row, rate, every)
                with mpi.together(self.comm):
                    if after_step is not None:
                        after_step(self)
                if interrupted:
                    where = f", saved in {str(checkpoint.path)!r}" if checkpoint else ""
                    raise KeyboardInterrupt(f"stopped after step {self.steps}{where}")
        if self.best_weights:
            self.model.load_state_dict(self.best_weights, trained=True)
        return self.history

    def start_patience(self, patience: int | None, watch: str) -> None:
        """Forgets the best weights so far, unless this fit continues a loaded run."""
        if patience is None or not self.loaded:
            self.best = None
            self.best_weights = {}
        elif self.best and name_in_best(watch) not in self.best:
            raise ValueError(f"the loaded run watched {next(iter(self.best))!r}, not {name_in_best(watch)!r}; watch the "
                             "same, or start a new run")
        self.loaded = False

    def save_if_due(self, checkpoint: Checkpoint | None, interrupted: bool, ended: bool) -> None:
        """Saves after every so many steps, at the end, and after Ctrl-C."""
        if checkpoint:
            due = ended or self.steps % checkpoint.every == 0
            if due or interrupted:
                checkpoint.save(self, keep=due)

    def show(self, progress: Progress, row: dict[str, float], rate: float, every: int) -> None:
        """Advances the progress bar, and prints a line after a validation."""
        progress.advance(f"loss {row['loss']:.3f}  lr {row['lr']:.1e}  norm {row['norm']:.2f}  {rate:,.0f} tok/s")
        if "validation" in row:
            recent = np.mean([r["loss"] for r in self.history[-every:]])
            others = "".join(f"   {name.replace('_', ' ')} {value:.4f}" for name, value in row.items()
                             if name not in COLUMNS)
            progress.write(f"step {self.steps:5d}   training loss {recent:.3f}   "
                           f"validation loss {row['validation']:.3f}{others}")

    def step(self, batches: list[Batch]) -> dict[str, float]:
        """Does one training step on a list of batches; returns its row of the history."""
        parallel = self.parallel or self.start_workers(self.workers or self.default_workers(batches[0]))
        loss, tokens = parallel.gradients(batches)
        self.check_finite("loss", loss)
        if not tokens:
            raise ValueError(f"step {self.steps + 1}: all targets in its batches are ignored; leave such batches "
                             "out")
        with limited_blas_threads(1 if parallel.workers > 1 else None):     # a thread of BLAS would keep a worker's core busy
            norm = clip_grad_norm(self.parameters, math.inf if self.clip is None else self.clip)
        self.check_finite("gradient", norm)
        if self.schedule is not None:
            self.schedule.step()
        self.optimizer.step()
        self.steps += 1
        self.history.append({"step": self.steps, "loss": loss, "lr": self.optimizer.lr, "norm": norm,
                             "tokens": tokens})
        return self.history[-1]

    def default_workers(self, batch: Batch) -> int:
        """Returns the number of workers that are worthwhile for such a batch, the same on all ranks."""
        most = mpi.cores_per_rank(self.comm) or cores()
        return min(mpi.gather(self.comm, lambda: min(workers_for(batch, self.parameters), most)))

    def start_workers(self, workers: int) -> DataParallel:
        """Splits batches over this many workers from now on, or uses one if the BLAS threads cannot be limited."""
        if workers > 1 and blas() is None:
            warnings.warn("the threads of this NumPy's BLAS cannot be limited, so one worker trains instead of "
                          f"{workers}; installing threadpoolctl may help", stacklevel=3)
            workers = 1
        self.workers = workers
        self.parallel = DataParallel(self.model, self.criterion, workers, self.comm)
        return self.parallel

    def measure(self, validation: Validation, patience: int | None, watch: str) -> None:
        """Validates, and adds the result to the latest row of the history."""
        measured = mpi.gather(self.comm, lambda: validation() if callable(validation) else
                              evaluate(self.model, self.criterion, validation))[0]
        measured = measured if isinstance(measured, dict) else {"validation": measured}
        self.model.train()                      # the validation function may have left it in eval mode
        loss = float(measured["validation"])
        self.check_finite("validation loss", loss)
        self.history[-1] |= {name: float(value) for name, value in measured.items()}
        if patience is not None:
            self.keep_if_best(measured, watch)

    def keep_if_best(self, measured: dict[str, float], watch: str) -> None:
        """Keeps the weights if they are the best so far; otherwise counts one more validation since the best."""
        if watch not in measured:
            names = ", ".join(map(repr, measured))
            raise ValueError(f"watch = {watch!r} is not measured; the validation gives {names}; choose one of these")
        name, value = name_in_best(watch), float(measured[watch])
        if not math.isfinite(value):
            raise ValueError(f"step {self.steps}: the {name} that patience watches is {value}, not a finite number; "
                             "watch the loss instead")
        if self.best is None or self.is_better(self.best, name, value, float(measured["validation"])):
            self.best = {name: value, "step": self.steps, "since": 0}
            self.best_weights = self.model.state_dict(trained=True)
        else:
            self.best["since"] += 1

    def is_better(self, best: dict[str, Any], name: str, value: float, loss: float) -> bool:
        """Returns True for a value of the watched measure that is better than the best so far."""
        best_loss = self.history[best["step"] - 1]["validation"]
        if value == best[name]:
            return loss < best_loss
        lower_is_better = "loss" in name
        return value < best[name] if lower_is_better else value > best[name]

    def out_of_patience(self, patience: int | None) -> bool:
        """Returns True after `patience` validations without a better value."""
        return patience is not None and self.best is not None and self.best["since"] >= patience

    def check_finite(self, what: str, value: float) -> None:
        """Raises ValueError, which names the step and a parameter, for a value that is not finite."""
        if not math.isfinite(value):
            step = self.steps if what == "validation loss" else self.steps + 1      # validation comes after the step
            raise ValueError(f"step {step}: the {what} is {value}, not a finite number; {self.find_not_finite()}; "
                             "lower the learning rate, lengthen the warm-up or clip the gradients")

    def find_not_finite(self) -> str:
        """Returns which parameter or gradient became infinite or NaN first, or which is the largest."""
        named = self.model.named_parameters()               # backward reaches the last of them first
        arrays = [(f"value of {name}", p.data) for name, p in named]
        arrays += [(f"gradient of {name}", p.grad) for name, p in reversed(named) if not is_frozen(p)]
        for name, array in arrays:
            if not np.isfinite(array).all():
                return f"the first that is not finite is the {name}"
        name, largest = max(((name, float(abs(array).max())) for name, array in arrays), key=lambda pair: pair[1])
        return f"every parameter is still finite, and the largest is the {name} with {largest:.1e}"

    def save(self, path: PathLike) -> None:
        """Writes a checkpoint of the current state."""
        Checkpoint(path).save(self)

    def load(self, path: PathLike) -> dict[str, Any]:
        """Restores the state of a checkpoint, so that the run continues exactly where it was saved; returns its meta.

        Raises ValueError if the file is not a checkpoint of the same kind of model, optimizer and schedule. Then nothing is
        changed.
        """
        arrays, meta = mpi.gather(self.comm, lambda: None if self.rank else read_checkpoint(path))[0]
        restore(self, arrays, meta, path)
        self.loaded = True
        return meta


def name_in_best(watch):
    """Returns the name of the watched measure in `Trainer.best`."""
    return "loss" if watch == "validation" else watch


def tokens_read(model, batches, targets):
    """Returns the number of tokens that the model reads in these batches, or `targets` if the model does not count them."""
    count = getattr(model, "count_tokens", None)
    return sum(count(*as_tuple(inputs)) for inputs, _ in batches) if count else targets


def batch_at(batches, n):
    return batches(n) if callable(batches) else batches[n % len(batches)]
