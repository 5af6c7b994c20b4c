"""The size of a step: the learning rate of the Transformer paper, and gradient clipping by the global norm."""

import math

import numpy as np

from ...module import Parameter
from ...training import Adam, NoamSchedule, clip_grad_norm
from .definition import Exercise, Mistake


def noam_rate(step, d_model, warmup):
    return d_model ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)


def clip_gradients(gradients, max_norm):
    norm = np.sqrt(sum((g ** 2).sum() for g in gradients))
    scale = max_norm / norm if norm > max_norm else 1.0
    return tuple(g * scale for g in gradients)


def by_noam(step, d_model, warmup):
    return NoamSchedule(Adam([Parameter(np.zeros(1))]), d_model, warmup).rate(step)


def along_the_schedule(rng):
    """Draws a width and a warm-up of the size of the paper's, 512 and 4000."""
    d_model, warmup = 64 * int(rng.integers(4, 17)), int(rng.integers(2000, 8000))
    steps = {"first_step": 1, "second_step": 2, "warm_up": warmup // 4, "last_step_warm":
             warmup, "step_after_warm": warmup + 1, "long_after_warm": 25 * warmup}
    return [(note, (step, d_model, warmup)) for note, step in steps.items()]


def above_peak(inputs, outputs):
    _, d_model, warmup = inputs
    return np.maximum(outputs[0] * math.sqrt(d_model * warmup) - 1, 0)


def three(rng, n):
    """Draws gradients of very different sizes; together they exceed the limit, but the second alone does not."""
    sizes = (2, 0.05, 0.5)
    shapes = ((n.D, n.F), (n.F,), (*n.lead, n.d))
    gradients = [size * rng.standard_normal(shape) for size, shape in zip(sizes, shapes)]
    return gradients, round(float(rng.uniform(2, 4)), 3)


def short(rng):
    shapes = (3, 4), (4,), (2, 2)
    return [("norm_below_limit", ([0.1 * rng.standard_normal(shape) for shape in shapes], 5.0)),
            ("last_gradient_largest", ([size * rng.standard_normal(shape) for size, shape in
                                                   zip((0.1, 0.5, 3), shapes)], 1.5)),
            ("gradients_0", ([np.zeros(shape) for shape in shapes], round(float(rng.uniform(0.5, 2)), 3)))]


def by_clip(gradients, max_norm):
    parameters = [Parameter(np.zeros(gradient.shape)) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    clip_grad_norm(parameters, max_norm)
    return tuple(parameter.grad for parameter in parameters)


NORM = "np.sqrt(sum((g ** 2).sum() for g in gradients))"
ARMS = "min(step ** -0.5, step * warmup ** -1.5)"


EXERCISES = [
    Exercise(
        "19.3", minutes=10, lines=1,
        solution=noam_rate, reference=by_noam, outputs=("rate",),
        inputs=lambda rng, n: (int(rng.integers(2, 60)), n.D, n.F),
        edges=along_the_schedule,
        must_be_zero={"rate_not_exceed": above_peak},
        mistakes=(
            Mistake("NOA-1", {"min(": "max("}),
            Mistake("NOA-2a", {"d_model ** -0.5": "d_model ** 0.5"}),
            Mistake("NOA-2b", {"d_model ** -0.5": "1 / d_model"}),
            Mistake("NOA-2c", {"d_model ** -0.5 * ": ""}),
            Mistake("NOA-3a", {"warmup ** -1.5": "warmup ** -0.5"}),
            Mistake("NOA-3b", {"warmup ** -1.5": "warmup ** -1"}),
            Mistake("NOA-5", {"min(step ** -0.5, step * warmup ** -1.5)": "step * warmup ** -1.5"}),
            Mistake("NOA-6", {"min(step ** -0.5, step * warmup ** -1.5)": "step ** -0.5"}),
            Mistake("NOA-7", {"step ** -0.5": "warmup ** -0.5"}),
            Mistake("NOA-8", {"step ** -0.5": "warmup ** 0.5 / step"}),
            Mistake("NOA-4c", {"step * warmup": "(step - 1) * warmup"}),
            Mistake("NOA-4d", {
                "min(step ** -0.5, step * warmup ** -1.5)":
                    "((step - 1) / warmup ** 1.5 if step - 1 < warmup else (step - 1) ** -0.5)"}),
            Mistake("NOA-11", {"min(step ** -0.5, step * warmup ** -1.5)": "min(step ** -0.5, step ** 0.5 / warmup)"}),
            Mistake("NOA-16", {
                "d_model ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)":
                    "d_model ** 0.5 * min(step ** 0.5, step * warmup ** 1.5)"}),
        ),
        alternatives={"in two formulas": {ARMS:
                      "(step / warmup if step < warmup else math.sqrt(warmup / step)) / math.sqrt(warmup)"}}),
    Exercise(
        "19.4", minutes=10, lines=3,
        solution=clip_gradients, reference=by_clip, inputs=three, edges=short, outputs=("first", "second", "third"),
        mistakes=(
            Mistake("ADM-11b", {"g * scale": "g * min(1.0, max_norm / np.sqrt((g ** 2).sum()))"}),
            Mistake("CLP-1", {"g * scale": "np.clip(g, -max_norm, max_norm)"}),
            Mistake("CLP-2", {"max_norm / norm if norm > max_norm else 1.0": "max_norm / norm"}),
            Mistake("CLP-3", {
                "np.sqrt(sum((g ** 2).sum() for g in gradients))": "sum((g ** 2).sum() for g in gradients)"}),
            Mistake("CLP-4", {
                "np.sqrt(sum((g ** 2).sum() for g in gradients))": "sum(np.sqrt((g ** 2).sum()) for g in gradients)"}),
            Mistake("CLP-7", {
                "np.sqrt(sum((g ** 2).sum() for g in gradients))": "sum(np.abs(g).sum() for g in gradients)"}),
            Mistake("CLP-8", {"max_norm / norm": "1 / norm"}),
            Mistake("CLP-19", {"max_norm / norm if norm > max_norm": "norm / max_norm if norm < max_norm"}),
            Mistake("CLP-15", {
                "np.sqrt(sum((g ** 2).sum() for g in gradients))": "max(np.abs(g).max() for g in gradients)"}),
            Mistake("CLP-20", {"max_norm / norm if": "max_norm / (norm + 1e-6) if"}),
            Mistake("CLP-17", {"(g ** 2).sum()": "g.sum() ** 2"}),
            Mistake("CLP-9", {
                "tuple(g * scale for g in gradients)": "tuple(np.multiply(g, scale, out=g) for g in gradients)"}),
        ),
        alternatives={"one vector": {NORM: "np.linalg.norm(np.concatenate([g.ravel() for g in gradients]))"},
                      "by math": {NORM: "math.sqrt(sum((g ** 2).sum() for g in gradients))"}}),
]
