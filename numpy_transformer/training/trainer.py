"""The training loop. It knows modules and optimizers, and nothing of Transformers."""

import math
import time

import numpy as np

from .checkpoint import Checkpoint, read_checkpoint
from .interrupt import Interrupt
from .optimizers import clip_grad_norm
from .progress import Progress
from .state import restore


class Trainer:
    """Five lines a step, repeated: zero_grad, forward, loss, backward, optimizer.

    Parameters:
        model : Module
        criterion : loss with forward(output, targets), backward(dy) and `count`, the targets that it averaged over
        optimizer : has `step()`, `lr` and `state()`
        schedule : has `step()`, called once before each step of the optimizer, or None
        clip : float or None, the largest joint norm of the gradients
        accumulate : int, batches a step: their gradients are those of one batch that holds them all

    `steps` counts the steps done; `history` has a dict for each with step, loss, lr, norm (before clipping),
    tokens (counted targets) and, where measured, validation.

    Raises:
        ValueError when a loss or a gradient is not finite: it names the step and the first parameter that
        went bad, and the weights stay as they were before that step.
    """

    def __init__(self, model, criterion, optimizer, schedule=None, clip=None, accumulate=1):
        if accumulate < 1:
            raise ValueError(f"accumulate = {accumulate} must be at least 1: that many batches make a step")
        self.model, self.criterion, self.optimizer = model, criterion, optimizer
        self.schedule, self.clip, self.accumulate = schedule, clip, accumulate
        self.parameters = model.parameters()
        self.steps = 0
        self.history = []
        self.best = None                        # with patience: loss, step, since (measurements without a better one)
        self.best_weights = {}
        self.loaded = False                     # the next fit goes on with the patience that is left

    def fit(self, batches, steps=None, validation=None, every=None, epochs=None, patience=None, checkpoint=None,
            title="train"):
        """Train for so many steps, or epochs, more; the history's rows so far.

        batches : list of (inputs, targets), inputs an array or a tuple of them, or a function that gives the batch of
            number n, from 0, and has a length if epochs are asked for. It must depend on n alone.
        validation : list of batches, or a function that returns the loss; measured every `every` steps (None: once an
            epoch, or every 100 steps) and at the end
        patience : stop when so many measurements in a row brought no better loss, and restore the best weights
        checkpoint : path or Checkpoint; the run is saved there, and load() goes on with it

        The first Ctrl-C finishes the step, saves, and raises KeyboardInterrupt.
        """
        if (steps is None) == (epochs is None):
            raise ValueError(f"fit takes steps or epochs, got steps = {steps} and epochs = {epochs}; give one of them")
        if patience is not None and (validation is None or patience < 1):
            raise ValueError(f"patience = {patience} counts measurements of the validation loss: it must be at least "
                             "1 and needs validation")
        check_batches(batches, epochs)
        epoch = None if epochs is None else math.ceil(len(batches) / self.accumulate)
        last = self.steps + (steps if epochs is None else epochs * epoch)
        every = every or epoch or 100
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        if not self.loaded:
            self.best, self.best_weights = None, {}
        self.loaded = False
        self.model.train()
        with Progress(last, title, "step", self.steps) as progress, Interrupt() as interrupt:
            while self.steps < last and not self.out_of_patience(patience):
                started = time.perf_counter()
                row = self.step([nth(batches, self.steps * self.accumulate + i) for i in range(self.accumulate)])
                rate = row["tokens"] / (time.perf_counter() - started)
                progress.advance(f"loss {row['loss']:.3f}  lr {row['lr']:.1e}  norm {row['norm']:.2f}  "
                                 f"{rate:,.0f} tokens/s")
                if validation is not None and (self.steps % every == 0 or self.steps == last):
                    self.measure(validation, patience, progress, every)
                if checkpoint and (self.steps % checkpoint.every == 0 or self.steps == last or interrupt.asked
                                   or self.out_of_patience(patience)):
                    checkpoint.save(self)
                if interrupt.asked:
                    where = f", saved in {str(checkpoint.path)!r}" if checkpoint else ""
                    raise KeyboardInterrupt(f"stopped after step {self.steps}{where}")
        if patience is not None and self.best_weights:
            self.model.load_state_dict(self.best_weights)
        return self.history

    def step(self, batches):
        """One training step on a list of batches; its row of the history."""
        self.model.forget()
        self.model.zero_grad()
        loss = tokens = 0
        for inputs, targets in batches:
            value = float(self.criterion(self.model(*as_tuple(inputs)), targets))
            self.check("loss", value)
            count = self.criterion.count
            self.model.backward(self.criterion.backward(1.0 if len(batches) == 1 else count))
            loss, tokens = loss + value * count, tokens + count
        if len(batches) > 1:                    # so far the gradients of sums
            for parameter in self.parameters:
                parameter.grad /= tokens
        norm = clip_grad_norm(self.parameters, math.inf if self.clip is None else self.clip)
        self.check("gradient", norm)
        if self.schedule is not None:
            self.schedule.step()
        self.optimizer.step()
        self.steps += 1
        self.history.append({"step": self.steps, "loss": loss / tokens, "lr": self.optimizer.lr, "norm": norm,
                             "tokens": tokens})
        return self.history[-1]

    def measure(self, validation, patience, progress, every):
        loss = float(validation() if callable(validation) else evaluate(self.model, self.criterion, validation))
        self.history[-1]["validation"] = loss
        recent = np.mean([row["loss"] for row in self.history[-every:]])
        progress.write(f"step {self.steps:5d}   training loss {recent:.3f}   validation loss {loss:.3f}")
        if patience is not None:
            if self.best is None or loss < self.best["loss"] or math.isnan(self.best["loss"]):
                self.best = {"loss": loss, "step": self.steps, "since": 0}
                self.best_weights = self.model.state_dict()
            else:
                self.best["since"] += 1

    def out_of_patience(self, patience):
        return patience is not None and self.best is not None and self.best["since"] >= patience

    def check(self, what, value):
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
        raise ValueError(f"step {self.steps + 1}: the {what} is {value}, not a finite number; {bad}; "
                         "lower the learning rate, lengthen the warm-up or clip the gradients")

    def save(self, path):
        """Write a checkpoint of this moment."""
        Checkpoint(path).save(self)

    def load(self, path):
        """Go on exactly where a checkpoint of such a run was saved, all or nothing; its meta.

        Raises ValueError if the file is no checkpoint, or one of another model, optimizer or schedule.
        """
        arrays, meta = read_checkpoint(path)
        restore(self, arrays, meta, path)
        self.loaded = True
        return meta


def evaluate(model, criterion, batches):
    """Mean loss over all counted targets of the batches, with dropout off."""
    training = model.training
    model.eval()
    criterion.eval()
    loss = tokens = 0
    for inputs, targets in batches:
        loss += float(criterion(model(*as_tuple(inputs)), targets)) * criterion.count
        tokens += criterion.count
    criterion.train()
    if training:
        model.train()
    return loss / tokens


def check_batches(batches, epochs):
    length = len(batches) if hasattr(batches, "__len__") else None
    if length == 0:
        raise ValueError("there are no batches: their length is 0; give at least one")
    if length is None and (epochs is not None or not callable(batches)):
        raise TypeError(f"batches, a {type(batches).__name__}, has no length; pass a list, or with `steps` a function of "
                        "a batch's number, so that a run can be resumed at any of them")


def nth(batches, n):
    return batches(n) if callable(batches) else batches[n % len(batches)]


def as_tuple(inputs):
    return inputs if isinstance(inputs, tuple) else (inputs,)
