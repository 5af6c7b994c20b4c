"""Optimizers and schedules beside the algorithms in scalars, and samples of them."""

import math

import numpy as np

from ..module import Parameter
from ..training import SGD, Adam, AdamW, CosineSchedule, NoamSchedule
from .check import check, expect, expect_close
from .components import Sample


def tensors(rng):
    """Three parameters of a model that has just got gradients of very different sizes."""
    parameters = [Parameter(rng.standard_normal(shape)) for shape in ((2, 3), (4,), (3, 2))]
    for p, size in zip(parameters, (1.0, 1e-3, 300.0)):
        p.grad = size * rng.standard_normal(p.data.shape)
    return parameters


UPDATES = [
    Sample("SGD", lambda rng: SGD(tensors(rng), 0.1, 0.9), lambda draw: ()),
    Sample("Adam", lambda rng: Adam(tensors(rng), 0.1), lambda draw: ()),
    Sample("AdamW", lambda rng: AdamW(tensors(rng), 0.1, weight_decay=0.3), lambda draw: ()),
    Sample("NoamSchedule", lambda rng: NoamSchedule(Adam(tensors(rng)), 512, 8, 2.0), lambda draw: ()),
    Sample("CosineSchedule", lambda rng: CosineSchedule(Adam(tensors(rng)), 1.0, 0.1, 4, 20), lambda draw: ()),
]


def numbers(parameters, name):
    return np.concatenate([getattr(p, name).ravel() for p in parameters])


@check("first step", Adam)
def the_first_step_is_the_rate_times_the_sign(optimizer):
    """m̂ = g and v̂ = g²: whatever the size of a gradient, the first step has the size lr."""
    before, signs = numbers(optimizer.parameters, "data"), np.sign(numbers(optimizer.parameters, "grad"))
    decay = optimizer.lr * getattr(optimizer, "weight_decay", 0)
    optimizer.step()
    expect_close("parameters after the first step", numbers(optimizer.parameters, "data"),
                 before * (1 - decay) - optimizer.lr * signs, 1e-5)


def adam_in_scalars(optimizer, w, gradients):
    (b1, b2), m, v = optimizer.betas, 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        w *= 1 - optimizer.lr * getattr(optimizer, "weight_decay", 0)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        w -= optimizer.lr * (m / (1 - b1 ** t)) / (math.sqrt(v / (1 - b2 ** t)) + optimizer.eps)
    return w


def sgd_in_scalars(optimizer, w, gradients):
    velocity = 0.0
    for g in gradients:
        velocity = optimizer.momentum * velocity + g
        w -= optimizer.lr * velocity
    return w


@check("six steps in scalars", SGD, Adam)
def six_steps_equal_the_algorithm_in_scalars(optimizer):
    before, start = numbers(optimizer.parameters, "data"), numbers(optimizer.parameters, "grad")
    factors = (1.0, -0.3, 2.0, 0.1, -1.5, 0.7)
    for factor in factors:
        for p, g in zip(optimizer.parameters, np.split(factor * start, (6, 10))):
            p.grad = g.reshape(p.data.shape)
        optimizer.step()
    reference = sgd_in_scalars if isinstance(optimizer, SGD) else adam_in_scalars
    wanted = [reference(optimizer, float(w), [f * float(g) for f in factors]) for w, g in zip(before, start)]
    expect_close("parameters after six steps", numbers(optimizer.parameters, "data"), wanted)


@check("peak at the end of the warm-up", NoamSchedule, CosineSchedule)
def the_rate_peaks_at_the_end_of_the_warm_up(schedule):
    rates = []
    for _ in range(3 * schedule.warmup):
        schedule.step()
        rates.append(schedule.optimizer.lr)
    peak = schedule.scale / math.sqrt(schedule.warmup) if isinstance(schedule, NoamSchedule) else schedule.lr
    found = int(np.argmax(rates)) + 1
    expect(found == schedule.warmup, f"the rate is highest at step {found}, the warm-up has {schedule.warmup}")
    expect_close("the highest rate", max(rates), peak)
    expect_close("rates of the warm-up", rates[:found], [peak * n / found for n in range(1, found + 1)])
