"""Learning-rate schedules. Call `step()` once per training step, before the step of the optimizer."""

import math

from ..argument_checks import check_numbers
from .optimizers import Optimizer


class Schedule:
    """Base class: the n-th call of step() sets optimizer.lr to rate(n), for n from 1. The initial value is rate(1)."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.count = 0
        optimizer.lr = self.rate(1)

    def __repr__(self):
        return f"{type(self).__name__}(step {self.count:,}, lr={self.optimizer.lr:g})"

    def rate(self, n: int) -> float:
        """Returns the learning rate of step n, from 1 on."""
        raise NotImplementedError(f"{type(self).__name__} has no rate yet")

    def step(self) -> None:
        """Sets the learning rate of the next step."""
        self.go_to(self.count + 1)

    def go_to(self, count: int) -> None:
        """Sets the rate of step `count`. It depends on `count` alone, so a run can be resumed at any step."""
        self.count = count
        self.optimizer.lr = self.rate(max(count, 1))


class ConstantSchedule(Schedule):
    """Linear warm-up to lr over `warmup` steps, then constant."""

    def __init__(self, optimizer: Optimizer, lr: float, warmup: int = 0) -> None:
        check_numbers(lr=lr, warmup=warmup)
        if warmup < 0:
            raise ValueError(f"warmup = {warmup} must not be negative; 0 starts with the full rate")
        self.lr, self.warmup = lr, warmup
        super().__init__(optimizer)

    def rate(self, n: int) -> float:
        return self.lr * min(1.0, n / max(self.warmup, 1))


class NoamSchedule(Schedule):
    """The schedule of the 2017 paper: lr(n) = factor d_model^-0.5 min(n^-0.5, n warmup^-1.5).

    The rate grows linearly for `warmup` steps and then falls as 1/sqrt(n).

    Parameters:
        optimizer : Optimizer whose `lr` is set
        d_model : int, width of the model
        warmup : int, number of steps until the peak; the paper uses 4000
        factor : float, multiplies the rate

    Source: Vaswani et al. 2017, equation 3.
    """

    def __init__(self, optimizer: Optimizer, d_model: int, warmup: int, factor: float = 1.0) -> None:
        check_numbers(d_model=d_model, warmup=warmup, factor=factor)
        if d_model < 1 or warmup < 1:
            raise ValueError(f"d_model = {d_model} and warmup = {warmup} must be at least 1")
        self.scale, self.warmup = factor / math.sqrt(d_model), warmup
        super().__init__(optimizer)

    def rate(self, n: int) -> float:
        return self.scale * min(n ** -0.5, n * self.warmup ** -1.5)


class CosineSchedule(Schedule):
    """Linear warm-up to lr, then half a cosine down to min_lr at the last step, and min_lr after that.

    Parameters:
        optimizer : Optimizer whose `lr` is set
        lr : float, rate at the peak
        min_lr : float, rate at the end
        warmup : int, number of steps until the peak
        steps : int, number of steps until the end

    Source: Loshchilov and Hutter 2017, equation 5, without restarts.
    """

    def __init__(self, optimizer: Optimizer, lr: float, min_lr: float, warmup: int, steps: int) -> None:
        check_numbers(lr=lr, min_lr=min_lr, warmup=warmup, steps=steps)
        if not 0 <= warmup < steps:
            raise ValueError(f"warmup = {warmup} must lie in 0 to steps - 1 = {steps - 1}")
        self.lr, self.min_lr, self.warmup, self.steps = lr, min_lr, warmup, steps
        super().__init__(optimizer)

    def rate(self, n: int) -> float:
        if n <= self.warmup:
            return self.lr * n / self.warmup
        progress = min((n - self.warmup) / (self.steps - self.warmup), 1.0)
        return self.min_lr + (self.lr - self.min_lr) * (1 + math.cos(math.pi * progress)) / 2


class WSDSchedule(Schedule):
    """Warm-up, stable, decay: linear warm-up to lr, then constant, and for the last `decay` steps linear down to min_lr.

    The constant phase does not depend on `steps`. So a run can be extended: continue from a checkpoint before the decay with
    a larger `steps`, and the steps until then are the same.

    Parameters:
        optimizer : Optimizer whose `lr` is set
        lr : float, rate of the constant phase
        min_lr : float, rate at the end
        warmup : int, number of steps until the constant phase
        decay : int, number of steps of the decay; 10% to 20% of all steps is usual
        steps : int, number of steps until the end

    Source: Hu et al. 2024 (MiniCPM), section 4.2, whose decay is exponential; linear as in Hägele et al. 2024.
    """

    def __init__(self, optimizer: Optimizer, lr: float, min_lr: float, warmup: int, decay: int, steps: int) -> None:
        check_numbers(lr=lr, min_lr=min_lr, warmup=warmup, decay=decay, steps=steps)
        if warmup < 0 or decay < 1 or warmup + decay > steps:
            raise ValueError(f"warmup = {warmup} and decay = {decay} must fit into steps = {steps}; warmup may be 0, and decay is "
                             "at least 1")
        self.lr, self.min_lr, self.warmup, self.decay, self.steps = lr, min_lr, warmup, decay, steps
        super().__init__(optimizer)

    def rate(self, n: int) -> float:
        if n <= self.warmup:
            return self.lr * n / self.warmup
        progress = (n - (self.steps - self.decay)) / self.decay
        return self.lr + (self.min_lr - self.lr) * min(max(progress, 0.0), 1.0)
