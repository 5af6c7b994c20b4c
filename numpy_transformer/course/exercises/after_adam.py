"""Optimizers after Adam: Newton-Schulz iterations, a step of Muon, and the rate of a WSD schedule."""

import math

import numpy as np

from ...module import Parameter
from ...training import SGD, Muon, WSDSchedule
from ...training.muon import orthogonalize as of_package
from .definition import Exercise, Mistake


def orthogonalize(G):
    X = G / np.linalg.norm(G)
    for _ in range(5):
        XXt = X @ X.T
        X = 3.4445 * X + (-4.7750 * XXt + 2.0315 * XXt @ XXt) @ X
    return X


def muon_step(w, g, v, lr, momentum):
    v = momentum * v + g
    direction = orthogonalize(g + momentum * v)
    d_in, d_out = w.shape
    w = w - lr * math.sqrt(max(1, d_out / d_in)) * direction
    return w, v


def wsd_rate(step, lr, min_lr, warmup, decay, steps):
    if step <= warmup:
        return lr * step / warmup
    if step <= steps - decay:
        return lr
    return min_lr + (lr - min_lr) * (steps - step) / decay


def small_matrix(rng, n):
    """Draws a matrix whose norm is below 1, as that of a gradient often is."""
    return (0.03 * rng.standard_normal((n.F, n.D)),)


def matrices(rng):
    return [("wide", (0.02 * rng.standard_normal((4, 9)),)), ("square", (0.02 * rng.standard_normal((6, 6)),)),
            ("large", (30 * rng.standard_normal((5, 3)),))]


def some_step(rng, n):
    rate, momentum = (round(float(rng.uniform(*ends)), 3) for ends in ((0.05, 0.2), (0.6, 0.9)))
    return *rng.standard_normal((3, n.D, n.F)), rate, momentum


def steps_of_other_shapes(rng):
    w, g = rng.standard_normal((2, 5, 4))
    return [("first_step", (w, g, np.zeros((5, 4)), 0.1, 0.95)), ("tall", (*rng.standard_normal((3, 9, 4)), 0.1, 0.7))]


def by_muon(w, g, v, lr, momentum):
    optimizer = Muon([Parameter(w)], lr, momentum)
    optimizer.parameters[0].grad = g
    optimizer.state()["velocity"][0][:] = v
    optimizer.step()
    return optimizer.parameters[0].data, optimizer.state()["velocity"][0]


def some_schedule(rng):
    """Draws (lr, min_lr, warmup, decay, steps)."""
    warmup, stable, decay = (int(rng.integers(*ends)) for ends in ((5, 12), (20, 40), (13, 19)))
    lr, min_lr = round(float(rng.uniform(0.5, 1.0)), 3), round(float(rng.uniform(0.05, 0.2)), 3)
    return lr, min_lr, warmup, decay, warmup + stable + decay


def in_the_decay(rng, n):
    *rates, decay, steps = some_schedule(rng)
    return steps - int(rng.integers(2, decay - 1)), *rates, decay, steps


def along_the_schedule(rng):
    rates = lr, min_lr, warmup, decay, steps = some_schedule(rng)
    places = {"first": 1, "warm_up": warmup - 2, "peak": warmup, "stable": warmup + 1, "late": steps - decay - 1, "before_decay": steps - decay,
              "first_of_decay": steps - decay + 1, "last": steps}
    return [*((key, (step, *rates)) for key, step in places.items()), ("two_steps", (steps - 1, lr, min_lr, warmup, 2, steps))]


def by_schedule(step, lr, min_lr, warmup, decay, steps):
    return WSDSchedule(SGD([Parameter(np.zeros(1))], 0.0), lr, min_lr, warmup, decay, steps).rate(step)


TERMS = "(-4.7750 * XXt + 2.0315 * XXt @ XXt) @ X"
DECAY = "min_lr + (lr - min_lr) * (steps - step) / decay"


EXERCISES = [
    Exercise(
        "26.1", minutes=15, lines=5,
        solution=orthogonalize, reference=of_package, inputs=small_matrix, edges=matrices, outputs=("X",),
        size_letters="DF", number_sizes=("tiny", "large"),
        mistakes=(
            Mistake("NSZ-1", {"G / np.linalg.norm(G)": "G"}),
            Mistake("NSZ-2", {"np.linalg.norm(G)": "np.linalg.norm(G, 2)"}),
            Mistake("NSZ-3", {"np.linalg.norm(G)": "np.linalg.norm(G, axis=-1, keepdims=True)"}),
            Mistake("NSZ-4", {"XXt @ XXt)": "XXt * XXt)"}),
            Mistake("NSZ-5", {"+ 2.0315 * XXt @ XXt)": "+ 2.0315 * XXt)"}),
            Mistake("NSZ-6", {"-4.7750": "4.7750"}),
            Mistake("NSZ-7", {"    for _ in range(5):\n        XXt = X @ X.T": "    XXt = X @ X.T\n    for _ in range(5):"}),
            Mistake("NSZ-8", {"        XXt = X @ X.T": "        X = X / np.linalg.norm(X)\n        XXt = X @ X.T"}),
            Mistake("NSZ-9", {"return X": "return X * np.linalg.norm(G)"}),
            Mistake("NSZ-10", {"range(5)": "range(4)"}),
            Mistake("NSZ-11", {"X = G / np.linalg.norm(G)": "X = np.divide(G, np.linalg.norm(G), out=G)"}),
        ),
        alternatives={"from the right": {"XXt = X @ X.T": "XtX = X.T @ X", TERMS: "X @ (-4.7750 * XtX + 2.0315 * XtX @ XtX)"},
                      "three products": {TERMS: "-4.7750 * XXt @ X + 2.0315 * XXt @ (XXt @ X)"}}),
    Exercise(
        "26.2", minutes=10, lines=5,
        solution=muon_step, reference=by_muon, imported=(orthogonalize,), inputs=some_step, edges=steps_of_other_shapes,
        outputs=("w", "v"), size_letters="DF",
        mistakes=(
            Mistake("MUO-1", {"orthogonalize(g + momentum * v)": "orthogonalize(v)"}),
            Mistake("MUO-2", {"orthogonalize(g + momentum * v)": "orthogonalize(g)"}),
            Mistake("MUO-3", {"v = momentum * v + g": "v = momentum * v + orthogonalize(g)",
                              "orthogonalize(g + momentum * v)": "v"}),
            Mistake("MUO-4", {"d_out / d_in": "d_in / d_out"}),
            Mistake("MUO-5", {" * math.sqrt(max(1, d_out / d_in))": ""}),
            Mistake("MUO-6", {"math.sqrt(max(1, d_out / d_in))": "math.sqrt(d_out / d_in)"}),
            Mistake("MUO-7", {"math.sqrt(max(1, d_out / d_in))": "max(1, d_out / d_in)"}),
            Mistake("MUO-8", {"w = w - lr": "w = w + lr"}),
            Mistake("MUO-9", {"orthogonalize(g + momentum * v)": "g + momentum * v"}),
            Mistake("MUO-10", {"v = momentum * v + g": "v = momentum * v + (1 - momentum) * g"}),
            Mistake("MUO-11", {"w = w - lr * math.sqrt(max(1, d_out / d_in)) * direction":
                               "w -= lr * math.sqrt(max(1, d_out / d_in)) * direction"}),
        )),
    Exercise(
        "26.3", minutes=10, lines=5,
        solution=wsd_rate, reference=by_schedule, inputs=in_the_decay, edges=along_the_schedule, outputs=("rate",),
        linked=(("step", "warmup", "decay", "steps"),),
        mistakes=(
            Mistake("WSD-1", {"step <= steps - decay": "step <= steps - decay / 2"}),
            Mistake("WSD-2", {DECAY: "lr * (steps - step) / decay"}),
            Mistake("WSD-3", {"(steps - step) / decay": "(steps - step) / steps"}),
            Mistake("WSD-4", {"(steps - step) / decay": "(step - steps + decay) / decay"}),
            Mistake("WSD-5", {"lr * step / warmup": "lr * (step - 1) / warmup"}),
            Mistake("WSD-6", {"    if step <= steps - decay:\n        return lr\n": "",
                              "(steps - step) / decay": "(steps - step) / (steps - warmup)"}),
            Mistake("WSD-7", {
                DECAY: "min_lr + (lr - min_lr) * (1 + math.cos(math.pi * (step - steps + decay) / decay)) / 2"}),
            Mistake("WSD-8", {"step <= steps - decay": "step <= warmup + decay"}),
            Mistake("WSD-9", {"(steps - step) / decay": "(steps - step + 1) / decay"}),
            Mistake("WSD-10", {"    if step <= warmup:\n        return lr * step / warmup\n": ""}),
            Mistake("WSD-11", {"lr * step / warmup": "min_lr + (lr - min_lr) * step / warmup"}),
        ),
        alternatives={"from the start of the decay": {DECAY: "lr + (min_lr - lr) * (step - (steps - decay)) / decay"}}),
]
