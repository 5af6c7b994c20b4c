"""Learning rates that change: call `step()` once per training step, before the optimizer's own."""

import math


class Schedule:
    """Sets optimizer.lr to rate(n) at the n-th call of step, n from 1; rate(1) holds from the start."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.count = 0
        optimizer.lr = self.rate(1)

    def step(self):
        self.go_to(self.count + 1)

    def go_to(self, count):
        """The rate of the count-th step; it depends on count alone, so a run can be resumed anywhere."""
        self.count = count
        self.optimizer.lr = self.rate(max(count, 1))


class ConstantSchedule(Schedule):
    """Linear warm-up to lr over `warmup` steps, and lr from then on."""

    def __init__(self, optimizer, lr, warmup=0):
        if warmup < 0:
            raise ValueError(f"warmup = {warmup} must not be negative; 0 begins with the full rate")
        self.lr, self.warmup = lr, warmup
        super().__init__(optimizer)

    def rate(self, n):
        return self.lr * min(1.0, n / max(self.warmup, 1))


class NoamSchedule(Schedule):
    """lr(n) = factor d_model^-0.5 min(n^-0.5, n warmup^-1.5): linear warm-up, then 1/sqrt(n).

    Parameters:
        optimizer : its `lr` is set
        d_model : int
        warmup : int, steps until the peak; the paper uses 4000
        factor : float

    Source: Vaswani et al. 2017, equation 3.
    """

    def __init__(self, optimizer, d_model, warmup, factor=1.0):
        if d_model < 1 or warmup < 1:
            raise ValueError(f"d_model = {d_model} and warmup = {warmup} must be at least 1")
        self.scale, self.warmup = factor / math.sqrt(d_model), warmup
        super().__init__(optimizer)

    def rate(self, n):
        return self.scale * min(n ** -0.5, n * self.warmup ** -1.5)


class CosineSchedule(Schedule):
    """Linear warm-up to lr, then half a cosine down to min_lr at the last step, and min_lr after it.

    Parameters:
        optimizer : its `lr` is set
        lr, min_lr : float, at the peak and at the end
        warmup, steps : int, steps until the peak and until the end

    Source: Loshchilov and Hutter 2017, equation 5, without restarts.
    """

    def __init__(self, optimizer, lr, min_lr, warmup, steps):
        if not 0 <= warmup < steps:
            raise ValueError(f"warmup = {warmup} must lie in 0 to steps - 1 = {steps - 1}")
        self.lr, self.min_lr, self.warmup, self.steps = lr, min_lr, warmup, steps
        super().__init__(optimizer)

    def rate(self, n):
        if n <= self.warmup:
            return self.lr * n / self.warmup
        progress = min((n - self.warmup) / (self.steps - self.warmup), 1.0)
        return self.min_lr + (self.lr - self.min_lr) * (1 + math.cos(math.pi * progress)) / 2
