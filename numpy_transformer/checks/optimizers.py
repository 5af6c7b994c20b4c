"""Optimizers and schedules beside the algorithms in scalars, and samples of them."""

import math

import numpy as np

from ..module import Parameter
from ..training import SGD, Adam, AdamW, ConstantSchedule, CosineSchedule, NoamSchedule
from .check import check, expect, expect_close
from .samples import Sample


def tensors(rng, dtype=np.float64):
    """Three parameters of a model that has just got gradients of very different sizes."""
    parameters = [Parameter(rng.standard_normal(shape).astype(dtype)) for shape in ((2, 3), (4,), (3, 2))]
    for p, size in zip(parameters, (1.0, 1e-3, 300.0)):
        p.grad = size * rng.standard_normal(p.data.shape)
    return parameters


def is_matrix(p):
    return p.data.ndim > 1


OPTIMIZER_SAMPLES = [Sample(name, build, lambda draw: ()) for name, build in (
    ("SGD", lambda rng: SGD(tensors(rng), 0.1, 0.9)),
    ("Adam", lambda rng: Adam(tensors(rng), 0.1)),
    ("Adam, float32", lambda rng: Adam(tensors(rng, np.float32), 0.1)),
    ("AdamW", lambda rng: AdamW(tensors(rng), 0.1, weight_decay=0.3)),
    ("AdamW, matrices alone", lambda rng: AdamW(tensors(rng), 0.1, weight_decay=0.3, decay=is_matrix)),
    ("NoamSchedule", lambda rng: NoamSchedule(Adam(tensors(rng)), 512, 8, 2.0)),
    ("CosineSchedule", lambda rng: CosineSchedule(Adam(tensors(rng)), 1.0, 0.1, 4, 20)),
    ("ConstantSchedule", lambda rng: ConstantSchedule(Adam(tensors(rng)), 0.5, 6)))]


def numbers(optimizer, name):
    return np.concatenate([getattr(p, name).ravel() for p in optimizer.parameters])


def decays(optimizer):
    """Of each number, by which share of the rate a step shrinks it."""
    chosen = [id(p) for p in getattr(optimizer, "decay", ())]
    return np.concatenate([np.full(p.data.size, optimizer.weight_decay if id(p) in chosen else 0.0)
                           for p in optimizer.parameters])


@check("first step", Adam)
def the_first_step_is_the_rate_times_the_sign(optimizer):
    """m̂ = g and v̂ = g²: whatever the size of a gradient, the first step has the size lr."""
    before, signs = numbers(optimizer, "data"), np.sign(numbers(optimizer, "grad"))
    optimizer.step()
    expect_close("parameters after the first step", numbers(optimizer, "data"),
                 before * (1 - optimizer.lr * decays(optimizer)) - optimizer.lr * signs, 1e-5)


def adam_in_scalars(optimizer, w, steps, decay):
    (b1, b2), m, v = optimizer.betas, 0.0, 0.0
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
    """With a rate that changes, as a schedule does it, and state in the dtype of the parameters."""
    before, start, dtype = numbers(optimizer, "data"), numbers(optimizer, "grad"), optimizer.parameters[0].data.dtype
    factors, first = (1.0, -0.3, 2.0, 0.1, -1.5, 0.7), [p.grad.copy() for p in optimizer.parameters]
    rates = [optimizer.lr / n for n in range(1, 7)]
    for factor, optimizer.lr in zip(factors, rates):
        for p, g in zip(optimizer.parameters, first):
            p.grad = factor * g
        optimizer.step()
    reference = sgd_in_scalars if isinstance(optimizer, SGD) else adam_in_scalars
    wanted = [reference(optimizer, float(w), [(lr, f * float(g)) for lr, f in zip(rates, factors)], decay)
              for w, g, decay in zip(before, start, decays(optimizer))]
    expect_close("parameters after six steps", numbers(optimizer, "data"), wanted,
                 1e-11 if dtype == np.float64 else 1e-5)
    kept = {array.dtype for arrays in optimizer.state().values() for array in arrays}
    expect(kept == {dtype}, f"parameters are {dtype}, the state is {', '.join(sorted(d.name for d in kept))}")


SCHEDULES = NoamSchedule, CosineSchedule, ConstantSchedule


def rates(schedule, count):
    found = []
    for _ in range(count):
        schedule.step()
        found.append(schedule.optimizer.lr)
    return found


@check("peak after warmup", *SCHEDULES)
def the_rate_rises_in_a_line_to_its_peak(schedule):
    found = rates(schedule, 6 * schedule.warmup)
    highest = int(np.argmax(found)) + 1
    expect(highest == schedule.warmup, f"the rate is highest at step {highest}, the warm-up has {schedule.warmup}")
    peak = schedule.scale / math.sqrt(schedule.warmup) if isinstance(schedule, NoamSchedule) else schedule.lr
    expect_close("rates of the warm-up", found[:highest], [peak * n / highest for n in range(1, highest + 1)])


@check("rates after the peak", *SCHEDULES)
def the_rate_falls_as_its_formula_says(schedule):
    """Like 1/sqrt(n); like half a cosine, cos² of a quarter turn, down to min_lr; or not at all."""
    found, warmup, wanted = rates(schedule, 6 * schedule.warmup), schedule.warmup, []
    for n in range(warmup, len(found) + 1):
        if isinstance(schedule, NoamSchedule):
            wanted.append(schedule.scale / math.sqrt(n))
        elif isinstance(schedule, CosineSchedule):
            quarter = math.pi / 2 * min(1, (n - warmup) / (schedule.steps - warmup))
            wanted.append(schedule.min_lr + (schedule.lr - schedule.min_lr) * math.cos(quarter) ** 2)
        else:
            wanted.append(schedule.lr)
    expect_close("rates after the peak", found[warmup - 1:], wanted)
