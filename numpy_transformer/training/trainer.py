"""The training loop. It knows modules and optimizers, and nothing of Transformers."""

import math

import numpy as np

from .optimizers import clip_grad_norm
from .progress import Progress


class Trainer:
    """Five lines a step, repeated: zero_grad, forward, loss, backward, optimizer.

    Parameters:
        model : Module
        criterion : loss with forward(output, targets) and backward()
        optimizer : has `step()` and `lr`
        schedule : has `step()`, called once before each step of the optimizer, or None
        clip : float or None, the largest joint norm of the gradients

    Raises:
        ValueError when a loss or a gradient is not finite: it names the step and the first parameter that
        went bad, and the weights stay as they were before that step.
    """

    def __init__(self, model, criterion, optimizer, schedule=None, clip=None):
        self.model, self.criterion, self.optimizer = model, criterion, optimizer
        self.schedule, self.clip = schedule, clip
        self.parameters = model.parameters()
        self.steps = 0
        self.history = []               # dicts with step, loss, lr, norm and, where measured, validation

    def fit(self, batches, steps, validation=None, every=100, title="train"):
        """Train for `steps` steps; the history's rows so far.

        batches : function of the step's number, from 0, that returns (inputs tuple, targets)
        validation : function that returns the validation loss, called every `every` steps and at the end
        """
        with Progress(steps, title, "step") as progress:
            for n in range(1, steps + 1):
                row = self.step(*batches(self.steps))
                progress.advance(f"loss {row['loss']:.3f}  lr {row['lr']:.1e}  norm {row['norm']:.2f}")
                if validation is not None and (self.steps % every == 0 or n == steps):
                    row["validation"] = validation()
                    recent = np.mean([r["loss"] for r in self.history[-every:]])
                    progress.write(f"step {self.steps:5d}   training loss {recent:.3f}   "
                                   f"validation loss {row['validation']:.3f}")
        return self.history

    def step(self, inputs, targets):
        """One training step; its row of the history."""
        self.model.forget()
        self.model.zero_grad()
        loss = float(self.criterion(self.model(*inputs), targets))
        self.check("loss", loss)
        self.model.backward(self.criterion.backward())
        norm = clip_grad_norm(self.parameters, math.inf if self.clip is None else self.clip)
        self.check("gradient", norm)
        if self.schedule is not None:
            self.schedule.step()
        self.optimizer.step()
        self.steps += 1
        self.history.append({"step": self.steps, "loss": loss, "lr": self.optimizer.lr, "norm": norm})
        return self.history[-1]

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
