"""The training loop. It knows modules and optimizers, and nothing of Transformers."""

import math
import time
import warnings

import numpy as np

from ..argument_checks import check_positive
from . import mpi
from .checkpoint import Checkpoint, read_checkpoint
from .data_parallel import DataParallel, as_tuple, workers_for
from .evaluation import evaluate
from .interrupt import Interrupt
from .optimizers import clip_grad_norm
from .process import blas, cores, keep_freed_memory
from .progress import Progress
from .trainer_state import COLUMNS, restore


class Trainer:
    """Five lines a step, repeated: zero_grad, forward, loss, backward, optimizer.

    Parameters:
        model : Module
        criterion : loss, a Module with `count`, the number of targets that it averaged over
        optimizer : Optimizer
        schedule : Schedule or None; its step() is called once before each step of the optimizer
        clip : float or None, the largest joint norm of the gradients
        accumulate : int, batches a step: their gradients are those of one batch that holds them all
        workers : int, threads that each compute a part of every batch, whose arrays must have the batch as their first
            axis; None chooses by the size of the first batch and the number of cores. Each worker draws its own dropout,
            so the number belongs to a run as its seed does, and a checkpoint stores it. With several workers a part of
            more than 2,000 tokens is computed in pieces, which stay in the processor's cache. Settings of the model
            other than train() and eval() that change after the first step reach the workers only through
            start_workers()
        comm : mpi4py communicator or None; every rank computes its part of every batch, and only rank 0 prints and saves.
            All ranks need the same model, seed and batches. What `validation` returns on rank 0 counts for all

    `steps` counts the steps done; `history` has a dict for each with step, loss, lr, norm (before clipping),
    tokens (counted targets) and, where measured, validation and what else the validation returned.

    Raises:
        ValueError when a loss or a gradient is not finite: it names the step and the first parameter that
        went bad, and the weights stay as they were before that step. With `comm`, an error on one rank stops all:
        the others raise RankError.
    """

    def __init__(self, model, criterion, optimizer, schedule=None, clip=None, accumulate=1, workers=None, comm=None):
        check_positive(accumulate=accumulate, workers=1 if workers is None else workers)
        if clip is not None and not clip > 0:
            raise ValueError(f"clip = {clip} must be above 0; 1.0 is usual, None does not clip")
        if comm is not None and not hasattr(comm, "Allreduce"):
            raise TypeError(f"comm must be a communicator of mpi4py such as MPI.COMM_WORLD, got {type(comm).__name__}; leave it "
                            "out to train in one process")
        self.model, self.criterion, self.optimizer = model, criterion, optimizer
        self.schedule, self.clip, self.accumulate = schedule, clip, accumulate
        self.workers, self.comm, self.parallel = workers, comm, None
        self.parameters = model.parameters()
        self.steps = 0
        self.history = []
        self.best = None                        # with patience: loss (or what is watched), step, and since: the number
                                                # of measurements without a better one
        self.best_weights = {}
        self.loaded = False                     # the next fit goes on with the patience that is left

    def __getstate__(self):                     # a copy starts workers of its own
        return {**vars(self), "parallel": None}

    def weights(self):
        return [parameter.data for parameter in self.parameters]

    @property
    def rank(self):
        return self.comm.rank if self.comm else 0

    def fit(self, batches, steps=None, validation=None, every=None, epochs=None, patience=None, checkpoint=None,
            title="train", watch="validation"):
        """Train for so many steps, or epochs, more; the history's rows so far.

        batches : list of (inputs, targets), inputs an array or a tuple of them, or a function that gives the batch of
            number n, from 0, and has a length if epochs are asked for. It must depend on n alone.
        validation : list of batches, or a function that returns the loss, or a dict of it under "validation" and of
            what else the history is to keep; measured every `every` steps (None: once an epoch, or every 100 steps)
            and at the end
        patience : stop after this many measurements in a row without a better value of `watch`, and restore the best
            weights
        watch : what patience watches, "validation" (the loss) or another name that the validation function returns.
            Lower is better for "validation" and for names with "loss" in them, higher for all others, such as "f1";
            among equal values a lower loss is better
        checkpoint : path or Checkpoint; the run is saved there, and load() goes on with it

        The rate shown, tok/s, is that of the tokens the model reads, by its `count_tokens(*inputs)`: padding that is
        hidden does not count. For a model without that method it is the rate of the counted targets.

        The first Ctrl-C finishes the step, saves, and raises KeyboardInterrupt.
        """
        with mpi.together(self.comm):
            check_plan(batches, steps, epochs, validation, every, patience, watch)
            if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
                checkpoint = Checkpoint(checkpoint)
        keep_freed_memory()
        if epochs is not None:
            steps = math.ceil(epochs * len(batches) / self.accumulate)
            every = every or math.ceil(len(batches) / self.accumulate)
        every, last = every or 100, self.steps + steps
        if patience is None or not self.loaded:
            self.best, self.best_weights = None, {}
        elif self.best and label(watch) not in self.best:
            raise ValueError(f"the loaded run watched {next(iter(self.best))!r}, not {label(watch)!r}; go on with the "
                             "same, or begin a new run")
        self.loaded = False
        plan = last, every, validation is None, patience, watch, checkpoint and checkpoint.every, self.workers
        mpi.same(self.comm, "the arguments of fit", lambda: plan)
        mpi.same(self.comm, "the weights", self.weights)
        self.model.train()
        with Progress(last, title, "step", self.steps, self.rank > 0) as progress, Interrupt(self.comm) as interrupt:
            while self.steps < last and not self.out_of_patience(patience):
                started = time.perf_counter()
                drawn = mpi.same(self.comm, "the batches", lambda: [
                    nth(batches, self.steps * self.accumulate + i) for i in range(self.accumulate)])
                row = self.step(drawn)
                rate = tokens_read(self.model, drawn, row["tokens"]) / (time.perf_counter() - started)
                if validation is not None and (self.steps % every == 0 or self.steps == last):
                    self.measure(validation, patience, watch)
                stop = mpi.anywhere(self.comm, interrupt.asked)
                ended = self.steps == last or self.out_of_patience(patience)
                if checkpoint and (stop or ended or self.steps % checkpoint.every == 0):
                    checkpoint.save(self, keep=ended or self.steps % checkpoint.every == 0)
                self.show(progress, row, rate, every)
                if stop:
                    where = f", saved in {str(checkpoint.path)!r}" if checkpoint else ""
                    raise KeyboardInterrupt(f"stopped after step {self.steps}{where}")
        if self.best_weights:
            self.model.load_state_dict(self.best_weights)
        return self.history

    def show(self, progress, row, rate, every):
        """Advance the progress bar, and write a line for a validation."""
        progress.advance(f"loss {row['loss']:.3f}  lr {row['lr']:.1e}  norm {row['norm']:.2f}  {rate:,.0f} tok/s")
        if "validation" in row:
            recent = np.mean([r["loss"] for r in self.history[-every:]])
            others = "".join(f"   {name.replace('_', ' ')} {value:.4f}" for name, value in row.items()
                             if name not in COLUMNS)
            progress.write(f"step {self.steps:5d}   training loss {recent:.3f}   "
                           f"validation loss {row['validation']:.3f}{others}")

    def step(self, batches):
        """One training step on a list of batches; its row of the history."""
        if self.parallel is None:
            self.start_workers(self.workers or self.default_workers(batches[0]))
        loss, tokens = self.parallel.gradients(batches)
        self.check_finite("loss", loss)
        if not tokens:
            raise ValueError(f"step {self.steps + 1}: all targets of its {len(batches)} batches are ignored; leave "
                             "such batches out")
        norm = clip_grad_norm(self.parameters, math.inf if self.clip is None else self.clip)
        self.check_finite("gradient", norm)
        if self.schedule is not None:
            self.schedule.step()
        self.optimizer.step()
        self.steps += 1
        self.history.append({"step": self.steps, "loss": loss, "lr": self.optimizer.lr, "norm": norm,
                             "tokens": tokens})
        return self.history[-1]

    def default_workers(self, batch):
        most = mpi.cores_per_rank(self.comm) or cores()
        return min(mpi.gather(self.comm, lambda: min(workers_for(batch, self.parameters), most)))

    def start_workers(self, workers):
        """Split batches over this many workers from now on, or over one if the BLAS threads cannot be limited."""
        if workers > 1 and blas() is None:
            warnings.warn("the threads of this NumPy's BLAS cannot be limited, so one worker trains instead of "
                          f"{workers}; installing threadpoolctl may help", stacklevel=3)
            workers = 1
        self.workers = workers
        self.parallel = DataParallel(self.model, self.criterion, workers, self.comm)

    def measure(self, validation, patience, watch):
        measured = mpi.gather(self.comm, lambda: validation() if callable(validation) else
                              evaluate(self.model, self.criterion, validation))[0]
        measured = measured if isinstance(measured, dict) else {"validation": measured}
        self.model.train()                      # a function may have left it in eval
        loss = float(measured["validation"])
        self.check_finite("validation loss", loss)
        self.history[-1] |= {name: float(value) for name, value in measured.items()}
        if patience is not None:
            self.compare(measured, watch)

    def compare(self, measured, watch):
        """Keep the weights if they are the best so far."""
        if watch not in measured:
            names = ", ".join(map(repr, measured))
            raise ValueError(f"watch = {watch!r} is not measured; the validation gives {names}; choose one of these")
        name, value = label(watch), float(measured[watch])
        if not math.isfinite(value):
            raise ValueError(f"step {self.steps}: the {name} that patience watches is {value}, not a finite number; "
                             "watch the loss instead")
        sign = -1 if lower_is_better(watch) else 1
        if self.best is not None:
            loss = self.history[self.best["step"] - 1]["validation"]
            better = (sign * value, -float(measured["validation"])) > (sign * self.best[name], -loss)
        if self.best is None or better:
            self.best = {name: value, "step": self.steps, "since": 0}
            self.best_weights = self.model.state_dict()
        else:
            self.best["since"] += 1

    def out_of_patience(self, patience):
        return patience is not None and self.best is not None and self.best["since"] >= patience

    def check_finite(self, what, value):
        if math.isfinite(value):
            return
        named = self.model.named_parameters()               # backward reaches the last of them first
        arrays = [(f"value of {name}", p.data) for name, p in named]
        arrays += [(f"gradient of {name}", p.grad) for name, p in reversed(named)]
        bad = next((f"the first to go bad is the {name}" for name, array in arrays
                    if not np.isfinite(array).all()), None)
        if bad is None:
            name, largest = max(((name, float(abs(array).max())) for name, array in arrays), key=lambda pair: pair[1])
            bad = f"every parameter is still finite, the largest is the {name} with {largest:.1e}"
        step = self.steps + (what != "validation loss")     # which is measured behind the step
        raise ValueError(f"step {step}: the {what} is {value}, not a finite number; {bad}; "
                         "lower the learning rate, lengthen the warm-up or clip the gradients")

    def save(self, path):
        """Write a checkpoint of this moment."""
        Checkpoint(path).save(self)

    def load(self, path):
        """Go on exactly where a checkpoint of such a run was saved, all or nothing; its meta.

        Raises ValueError if the file is no checkpoint, or one of another model, optimizer or schedule.
        """
        arrays, meta = mpi.gather(self.comm, lambda: None if self.rank else read_checkpoint(path))[0]
        restore(self, arrays, meta, path)
        self.loaded = True
        return meta


def label(watch):
    """The name of what is watched as `best` has it."""
    return "loss" if watch == "validation" else watch


def lower_is_better(watch):
    return "loss" in label(watch)


def tokens_read(model, batches, targets):
    """The number of tokens that the model reads in these batches; `targets` if it does not say."""
    count = getattr(model, "count_tokens", None)
    return sum(count(*as_tuple(inputs)) for inputs, _ in batches) if count else targets


def check_plan(batches, steps, epochs, validation, every, patience, watch):
    """The arguments of fit."""
    if (steps is None) == (epochs is None):
        raise ValueError(f"fit takes steps or epochs, got steps = {steps} and epochs = {epochs}; give one of them")
    check_positive(**{name: value for name, value in (("steps", steps), ("epochs", epochs), ("every", every),
                                                      ("patience", patience)) if value not in (None, 0)})
    if every == 0 or patience == 0 or patience is not None and validation is None:
        raise ValueError(f"every = {every} and patience = {patience} must be at least 1, and patience needs "
                         "validation, whose measurements it counts")
    if patience is not None and watch != "validation" and not callable(validation):
        raise ValueError(f"watch = {watch!r} is not measured on a list of batches, only the loss is; pass a validation "
                         "function that returns it")
    for name, given in (("batches", batches), ("validation", validation)):
        if given is None or callable(given) and (name == "validation" or epochs is None):
            continue
        if not hasattr(given, "__len__"):
            raise TypeError(f"{name}, a {type(given).__name__}, has no length; pass a list, or (with steps instead of "
                            "epochs) a function of a batch's number, so that a run can be resumed at any of them")
        if not len(given):
            raise ValueError(f"{name} holds no batches; give at least one")


def nth(batches, n):
    return batches(n) if callable(batches) else batches[n % len(batches)]
