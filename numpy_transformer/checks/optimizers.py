"""Checks of optimizers and schedules against the algorithms written for single numbers, and the samples for them."""

import copy
import math

import numpy as np

from ..module import Parameter
from ..training import (SGD, Adam, AdamW, CombinedOptimizer, ConstantSchedule, CosineSchedule, Muon, NoamSchedule,
                        WSDSchedule)
from .check import check, expect, expect_close
from .samples import Sample


def parameters_with_gradients(rng, dtype=np.float64):
    """Returns three parameters whose gradients have very different sizes."""
    parameters = [Parameter(rng.standard_normal(shape).astype(dtype)) for shape in ((2, 3), (4,), (3, 2))]
    for p, size in zip(parameters, (1.0, 1e-3, 300.0)):
        p.grad = size * rng.standard_normal(p.data.shape)
    return parameters


def matrices_with_gradients(rng, dtype=np.float64):
    """Returns wide, tall and square matrices whose gradients have very different sizes, one of them tiny."""
    parameters = [Parameter(rng.standard_normal(shape).astype(dtype)) for shape in ((3, 7), (8, 4), (5, 5), (3, 7))]
    for p, size in zip(parameters, (1.0, 1e-3, 300.0, 1e-12)):
        p.grad = size * with_singular_values(rng, np.linspace(0.3, 1, min(p.data.shape)), p.data.shape)
    return parameters


def with_singular_values(rng, values, shape):
    """Returns a matrix with these singular values and random singular vectors."""
    U, V = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in shape)
    return U[:, :len(values)] * values @ V[:len(values)]


def muon_and_adamw(rng):
    return CombinedOptimizer([Muon(matrices_with_gradients(rng), 0.1, 0.8, 0.3), AdamW(parameters_with_gradients(rng), 0.02)])


def is_matrix(p):
    return p.data.ndim > 1


OPTIMIZER_SAMPLES = [Sample(name, build, lambda draw: ()) for name, build in (
    ("SGD", lambda rng: SGD(parameters_with_gradients(rng), 0.1, 0.9)),
    ("Adam", lambda rng: Adam(parameters_with_gradients(rng), 0.1)),
    ("Adam, float32", lambda rng: Adam(parameters_with_gradients(rng, np.float32), 0.1)),
    ("AdamW", lambda rng: AdamW(parameters_with_gradients(rng), 0.1, weight_decay=0.3)),
    ("AdamW, matrices only", lambda rng: AdamW(parameters_with_gradients(rng), 0.1, weight_decay=0.3, decay=is_matrix)),
    ("Muon", lambda rng: Muon(matrices_with_gradients(rng), 0.1, 0.8, 0.3)),
    ("Muon, float32", lambda rng: Muon(matrices_with_gradients(rng, np.float32), 0.1, 0.8)),
    ("Muon and AdamW", muon_and_adamw),
    ("NoamSchedule", lambda rng: NoamSchedule(Adam(parameters_with_gradients(rng)), 512, 8, 2.0)),
    ("CosineSchedule", lambda rng: CosineSchedule(Adam(parameters_with_gradients(rng)), 1.0, 0.1, 4, 20)),
    ("WSDSchedule", lambda rng: WSDSchedule(Adam(parameters_with_gradients(rng)), 1.0, 0.1, 4, 6, 20)),
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


def scale_of(shape):
    """Returns the factor of a Muon step for a matrix (d_in, d_out)."""
    d_in, d_out = shape
    return math.sqrt(d_out / d_in) if d_out > d_in else 1.0


@check("orthogonal first step", Muon)
def the_first_step_of_muon_has_singular_values_near_one(optimizer):
    """So all directions are about equally long, whatever the size of the gradient. The bounds are those of five iterations."""
    before = [p.data * (1 - optimizer.lr * optimizer.weight_decay) for p in optimizer.parameters]
    optimizer.step()
    for p, start in zip(optimizer.parameters, before):
        step = (start - p.data) / (optimizer.lr * scale_of(p.data.shape))
        values = np.linalg.svd(step.astype(np.float64), compute_uv=False)
        expect(0.68 < values.min() and values.max() < 1.21,
               f"the step of a {p.data.shape} matrix has singular values from {values.min():.3g} to {values.max():.3g}, but "
               "orthogonal steps have values between 0.68 and 1.21")
        agreement = float(np.sum(step * p.grad) / (values.sum() * np.linalg.norm(p.grad, 2)))
        expect(agreement > 0.3, f"the step of a {p.data.shape} matrix does not go against the gradient")


def newton_schulz_in_scalars(s):
    """What five iterations make of a singular value."""
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s ** 3 + 2.0315 * s ** 5
    return s


@check("six steps, singular values", Muon)
def six_steps_of_muon_change_the_singular_values_alone(optimizer):
    """The direction of each step comes from a singular value decomposition. Its values go through the polynomial one by one."""
    wanted = [p.data.astype(np.float64) for p in optimizer.parameters]
    gradients = [p.grad.astype(np.float64) for p in optimizer.parameters]
    velocities = [np.zeros_like(g) for g in gradients]
    dtype, first_rate = optimizer.parameters[0].data.dtype, optimizer.lr
    for n in range(6):
        optimizer.lr = first_rate / (n + 1)
        for k, p in enumerate(optimizer.parameters):
            g = (-1.5, 1.0, 0.7)[n % 3] * np.roll(gradients[k], n, axis=-1)
            p.grad = g
            velocities[k] = optimizer.momentum * velocities[k] + g
            U, values, Vt = np.linalg.svd(g + optimizer.momentum * velocities[k], full_matrices=False)
            changed = [newton_schulz_in_scalars(s / np.linalg.norm(values)) for s in values]
            wanted[k] = (wanted[k] * (1 - optimizer.lr * optimizer.weight_decay)
                         - optimizer.lr * scale_of(p.data.shape) * (U * changed) @ Vt)
        optimizer.step()
    expect_close("parameters after six steps", all_entries(optimizer, "data"), np.concatenate([w.ravel() for w in wanted]),
                 1e-11 if dtype == np.float64 else 1e-4)


@check("rates of all parts", CombinedOptimizer)
def a_new_rate_reaches_all_parts_in_proportion(optimizer):
    """And in a step, each part does what it would do alone, once."""
    parts = copy.deepcopy(optimizer.optimizers)
    optimizer.lr = 0.3 * optimizer.lr
    for part in parts:
        part.lr = 0.3 * part.lr
        part.step()
    optimizer.step()
    expect_close("learning rates", [part.lr for part in optimizer.optimizers], [part.lr for part in parts])
    expect_close("parameters after a step", all_entries(optimizer, "data"),
                 np.concatenate([all_entries(part, "data") for part in parts]))
    expect(optimizer.t == 1 and len(optimizer.state_by_parameter()) == sum(len(part.state_by_parameter()) for part in parts),
           "the parts' state is not that of the whole")


SCHEDULES = NoamSchedule, CosineSchedule, ConstantSchedule, WSDSchedule


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
    """Noam: 1 / sqrt(n). Cosine: half a wave down to min_lr, as cos² of a quarter. Constant: no change.

    WSD: constant until `decay` steps are left, then a straight line to min_lr.
    """
    warmup = schedule.warmup
    rates = learning_rates(schedule, 6 * warmup)
    wanted = []
    for n in range(warmup, len(rates) + 1):
        if isinstance(schedule, NoamSchedule):
            wanted.append(schedule.scale / math.sqrt(n))
        elif isinstance(schedule, CosineSchedule):
            quarter = math.pi / 2 * min(1, (n - warmup) / (schedule.steps - warmup))
            wanted.append(schedule.min_lr + (schedule.lr - schedule.min_lr) * math.cos(quarter) ** 2)
        elif isinstance(schedule, WSDSchedule):
            left = min(max(schedule.steps - n, 0), schedule.decay) / schedule.decay
            wanted.append(schedule.min_lr * (1 - left) + schedule.lr * left)
        else:
            wanted.append(schedule.lr)
    expect_close("learning rates after the peak", rates[warmup - 1:], wanted)
