"""Checks of optimizers and schedules against the algorithms written for single numbers, and the samples for them."""

import math

import numpy as np

from ..module import Parameter
from ..training import SGD, Adam, AdamW, ConstantSchedule, CosineSchedule, NoamSchedule
from .check import check, expect, expect_close
from .samples import Sample


def parameters_with_gradients(rng, dtype=np.float64):
    """Returns three parameters whose gradients have very different sizes."""
    parameters = [Parameter(rng.standard_normal(shape).astype(dtype)) for shape in ((2, 3), (4,), (3, 2))]
    for p, size in zip(parameters, (1.0, 1e-3, 300.0)):
        p.grad = size * rng.standard_normal(p.data.shape)
    return parameters


def is_matrix(p):
    return p.data.ndim > 1


OPTIMIZER_SAMPLES = [Sample(name, build, lambda draw: ()) for name, build in (
    ("SGD", lambda rng: SGD(parameters_with_gradients(rng), 0.1, 0.9)),
    ("Adam", lambda rng: Adam(parameters_with_gradients(rng), 0.1)),
    ("Adam, float32", lambda rng: Adam(parameters_with_gradients(rng, np.float32), 0.1)),
    ("AdamW", lambda rng: AdamW(parameters_with_gradients(rng), 0.1, weight_decay=0.3)),
    ("AdamW, matrices only", lambda rng: AdamW(parameters_with_gradients(rng), 0.1, weight_decay=0.3, decay=is_matrix)),
    ("NoamSchedule", lambda rng: NoamSchedule(Adam(parameters_with_gradients(rng)), 512, 8, 2.0)),
    ("CosineSchedule", lambda rng: CosineSchedule(Adam(parameters_with_gradients(rng)), 1.0, 0.1, 4, 20)),
    ("ConstantSchedule", lambda rng: ConstantSchedule(Adam(parameters_with_gradients(rng)), 0.5, 6)))]


def all_entries(optimizer, name):
    """Returns the data or grad of all parameters as one vector."""
    return np.concatenate([getattr(p, name).ravel() for p in optimizer.parameters])


def decay_rates(optimizer):
    """Returns the weight decay of every entry as a vector."""
    chosen = [id(p) for p in getattr(optimizer, "decay", ())]
    return np.concatenate([np.full(p.data.size, optimizer.weight_decay if id(p) in chosen else 0.0)
                           for p in optimizer.parameters])


@check("first step", Adam)
def the_first_step_is_the_learning_rate_times_the_sign(optimizer):
    """m̂ = g and v̂ = g², so the first step has size lr, whatever the size of the gradient."""
    before, signs = all_entries(optimizer, "data"), np.sign(all_entries(optimizer, "grad"))
    optimizer.step()
    wanted = before * (1 - optimizer.lr * decay_rates(optimizer)) - optimizer.lr * signs
    expect_close("parameters after the first step", all_entries(optimizer, "data"), wanted, 1e-5)


def adam_in_scalars(optimizer, w, steps, decay):
    b1, b2 = optimizer.betas
    m = v = 0.0
    for t, (lr, g) in enumerate(steps, 1):
        w *= 1 - lr * decay
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        w -= lr * (m / (1 - b1 ** t)) / (math.sqrt(v / (1 - b2 ** t)) + optimizer.eps)
    return w


def sgd_in_scalars(optimizer, w, steps, decay):
    velocity = 0.0
    for lr, g in steps:
        velocity = optimizer.momentum * velocity + g
        w -= lr * velocity
    return w


@check("six steps, scalar reference", SGD, Adam)
def six_steps_equal_the_algorithm_in_scalars(optimizer):
    """The learning rate changes from step to step, as under a schedule. The state has the parameters' dtype."""
    before, start = all_entries(optimizer, "data"), all_entries(optimizer, "grad")
    dtype = optimizer.parameters[0].data.dtype
    factors = (1.0, -0.3, 2.0, 0.1, -1.5, 0.7)
    first = [p.grad.copy() for p in optimizer.parameters]
    rates = [optimizer.lr / n for n in range(1, 7)]
    for factor, rate in zip(factors, rates):
        optimizer.lr = rate
        for p, g in zip(optimizer.parameters, first):
            p.grad = factor * g
        optimizer.step()
    reference = sgd_in_scalars if isinstance(optimizer, SGD) else adam_in_scalars
    wanted = [reference(optimizer, float(w), [(lr, f * float(g)) for lr, f in zip(rates, factors)], decay)
              for w, g, decay in zip(before, start, decay_rates(optimizer))]
    expect_close("parameters after six steps", all_entries(optimizer, "data"), wanted,
                 1e-11 if dtype == np.float64 else 1e-5)
    kept = {array.dtype for arrays in optimizer.state().values() for array in arrays}
    expect(kept == {dtype}, f"the parameters are {dtype}, but the state is {', '.join(sorted(d.name for d in kept))}")


SCHEDULES = NoamSchedule, CosineSchedule, ConstantSchedule


def learning_rates(schedule, count):
    """Returns the learning rates of the next `count` steps."""
    rates = []
    for _ in range(count):
        schedule.step()
        rates.append(schedule.optimizer.lr)
    return rates


@check("peak after warmup", *SCHEDULES)
def the_learning_rate_rises_linearly_to_its_peak(schedule):
    rates = learning_rates(schedule, 6 * schedule.warmup)
    highest = int(np.argmax(rates)) + 1
    expect(highest == schedule.warmup,
           f"the learning rate peaks at step {highest}, but warmup has {schedule.warmup} steps")
    peak = schedule.scale / math.sqrt(schedule.warmup) if isinstance(schedule, NoamSchedule) else schedule.lr
    expect_close("learning rates during warmup", rates[:highest], [peak * n / highest for n in range(1, highest + 1)])


@check("rates after the peak", *SCHEDULES)
def the_learning_rate_follows_its_formula_after_the_peak(schedule):
    """Noam: 1 / sqrt(n). Cosine: half a wave down to min_lr, as cos² of a quarter. Constant: no change."""
    warmup = schedule.warmup
    rates = learning_rates(schedule, 6 * warmup)
    wanted = []
    for n in range(warmup, len(rates) + 1):
        if isinstance(schedule, NoamSchedule):
            wanted.append(schedule.scale / math.sqrt(n))
        elif isinstance(schedule, CosineSchedule):
            quarter = math.pi / 2 * min(1, (n - warmup) / (schedule.steps - warmup))
            wanted.append(schedule.min_lr + (schedule.lr - schedule.min_lr) * math.cos(quarter) ** 2)
        else:
            wanted.append(schedule.lr)
    expect_close("learning rates after the peak", rates[warmup - 1:], wanted)
