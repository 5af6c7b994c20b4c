"""What sets the length of a step: the learning rate of the Transformer paper, and clipping by the global norm."""

import math

import numpy as np

from ...module import Parameter
from ...training import Adam, NoamSchedule, clip_grad_norm
from ..exercise import Exercise, Mistake


def noam_rate(step, d_model, warmup):
    """The learning rate of the Transformer paper (Vaswani et al. 2017, section 5.3).

    step: int, the number of this training step, 1, 2, 3, ...  d_model, warmup: int.
    Up to step = warmup the rate grows in proportion to step, from then on it falls as 1 / sqrt(step). At step = warmup
    both are the same, 1 / sqrt(d_model * warmup).  Return rate: a number.
    """
    return d_model ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)


def clip_gradients(gradients, max_norm):
    """Clip three gradients by their global norm, the length of one vector of all their entries.

    gradients: list of three arrays of any shapes; all may be 0.  max_norm: a number above 0.
    A global norm above max_norm becomes max_norm, and the vector keeps its direction; otherwise nothing changes.
    Return a tuple of three arrays: the gradients in the same order and shapes.
    """
    norm = np.sqrt(sum((g ** 2).sum() for g in gradients))
    scale = max_norm / norm if norm > max_norm else 1.0
    return tuple(g * scale for g in gradients)


def by_noam(step, d_model, warmup):
    return NoamSchedule(Adam([Parameter(np.zeros(1))]), d_model, warmup).rate(step)


def above_peak(inputs, outputs):
    _, d_model, warmup = inputs
    return np.maximum(outputs[0] * math.sqrt(d_model * warmup) - 1, 0)


def three(rng, n):
    """Of very different sizes, together above the limit, the second alone below it."""
    sizes, shapes = (2, 0.05, 0.5), ((n.D, n.F), (n.F,), (*n.lead, n.d))
    gradients = [size * rng.standard_normal(shape) for size, shape in zip(sizes, shapes)]
    return gradients, round(float(rng.uniform(2, 4)), 3)


def short(rng):
    shapes = (3, 4), (4,), (2, 2)
    return [("a norm below the limit", ([0.1 * rng.standard_normal(shape) for shape in shapes], 5.0)),
            ("all gradients 0", ([np.zeros(shape) for shape in shapes], 1.0))]


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
        "19.3", "The learning rate of the paper", minutes=10, lines=1,
        solution=noam_rate, reference=by_noam, outputs=("rate",),
        inputs=lambda rng, n: (int(rng.integers(2, 60)), n.D, n.F),
        edges=lambda rng: [(f"step {step}", (step, 512, 4000)) for step in (1, 2, 1000, 4000, 4001, 100_000)],
        invariants=(("the rate must not exceed 1 / sqrt(d_model * warmup)", above_peak),),
        hints=("Write both arms: a number times step, and another one times 1 / sqrt(step). Where do they meet?",
               "With 1 / sqrt(d_model) in front, the falling arm is 1 / sqrt(step), and the rising one c step with "
               "c warmup = 1 / sqrt(warmup). On either side of warmup, is the rate the smaller or the larger of them?",
               "d_model ** -0.5 times the smaller of step ** -0.5 and step * warmup ** -1.5."),
        mistakes=(
            Mistake("NOA-1", {"min(": "max("}, "The larger arm is taken: the rate is the smaller of the two."),
            Mistake("NOA-2a", {"d_model ** -0.5": "d_model ** 0.5"},
                    "The rate grows with d_model: in the paper a wider model has a lower one."),
            Mistake("NOA-2b", {"d_model ** -0.5": "1 / d_model"},
                    "The rate is divided by d_model, and not by its root."),
            Mistake("NOA-2c", {"d_model ** -0.5 * ": ""},
                    "d_model is missing: a wider model has a lower rate, by 1 / sqrt(d_model)."),
            Mistake("NOA-3a", {"warmup ** -1.5": "warmup ** -0.5"},
                    "The rising arm is too steep: at step = warmup it must be 1 / sqrt(d_model * warmup)."),
            Mistake("NOA-3b", {"warmup ** -1.5": "warmup ** -1"},
                    "The two arms do not meet at step = warmup: there the rising one is sqrt(warmup) times the falling "
                    "one."),
            Mistake("NOA-3c", {ARMS: "(step / warmup if step < warmup else step ** -0.5)"},
                    "The rate falls abruptly at step = warmup, by the factor sqrt(warmup): both arms are to give "
                    "1 / sqrt(d_model * warmup) there."),
            Mistake("NOA-4a", {"step ** -0.5": "(step + 1) ** -0.5", "step * warmup": "(step + 1) * warmup"},
                    "One is added to the step: it counts from 1 already."),
            Mistake("NOA-4b", {"step ** -0.5": "(step - 1) ** -0.5", "step * warmup": "(step - 1) * warmup"},
                    "One is taken from the step: it counts from 1, and the first step is not 0."),
            Mistake("NOA-10", {"d_model ** -0.5 * ": "(warmup / d_model) ** 0.5 * "},
                    "The peak is 1 / sqrt(d_model): warmup is missing in it; a longer warm-up has a lower peak."),
            Mistake("NOA-5", {ARMS: "step * warmup ** -1.5"},
                    "The rate never falls: after the warm-up it is proportional to 1 / sqrt(step)."),
            Mistake("NOA-6", {ARMS: "step ** -0.5"},
                    "There is no warm-up: the first steps get the highest rates."),
            Mistake("NOA-7", {"step ** -0.5": "warmup ** -0.5"},
                    "After the warm-up the rate stays at its peak: it should fall as 1 / sqrt(step)."),
            Mistake("NOA-8", {"step ** -0.5": "warmup ** 0.5 / step"},
                    "After the warm-up the rate falls as 1 / step: 1 / sqrt(step) is slower."),
            Mistake("NOA-9", {ARMS: "(step ** -0.5 + step * warmup ** -1.5)"},
                    "The two arms are added: the rate is the smaller of the two."),
        ),
        alternatives={"in two arms": {ARMS:
                      "(step / warmup if step < warmup else math.sqrt(warmup / step)) / math.sqrt(warmup)"}}),
    Exercise(
        "19.4", "Clipping by the global norm", minutes=10, lines=3,
        solution=clip_gradients, reference=by_clip, inputs=three, edges=short, outputs=("first", "second", "third"),
        hints=("The norm is that of one long vector of all entries of all three arrays. How do the three parts add up?",
               "The squares add up, the norms do not. One factor, the same for all three, keeps the direction.",
               "norm = sqrt(sum of all squares); the factor is max_norm / norm where norm > max_norm, else 1."),
        mistakes=(
            Mistake("ADM-11b", {"g * scale": "g * min(1.0, max_norm / np.sqrt((g ** 2).sum()))"},
                    "Each gradient is clipped by a norm of its own: long ones shrink, short ones do not, and the "
                    "direction turns. One norm, one factor."),
            Mistake("CLP-1", {"g * scale": "np.clip(g, -max_norm, max_norm)"},
                    "Each entry is clipped by itself: that turns the direction. Multiply all by one factor."),
            Mistake("CLP-2", {"max_norm / norm if norm > max_norm else 1.0": "max_norm / norm"},
                    "Short gradients are scaled too: up to the limit, or 0 / 0 if all are 0. max_norm is an "
                    "upper limit."),
            Mistake("CLP-3", {NORM: "sum((g ** 2).sum() for g in gradients)"},
                    "The root is missing: this is the square of the norm."),
            Mistake("CLP-4", {NORM: "sum(np.sqrt((g ** 2).sum()) for g in gradients)"},
                    "The norms are added: of one long vector the squares add up, under one root."),
            Mistake("CLP-5", {NORM: "max(np.sqrt((g ** 2).sum()) for g in gradients)"},
                    "That is the norm of the longest of the three: the global one is of all their entries together."),
            Mistake("CLP-6", {"(g ** 2).sum()": "(g ** 2).mean()"},
                    "A norm is made of the sum of squares, not the mean."),
            Mistake("CLP-7", {NORM: "sum(np.abs(g).sum() for g in gradients)"},
                    "The absolute values are added: the length of a vector is the root of the sum of squares."),
            Mistake("CLP-8", {"max_norm / norm": "1 / norm"}, "The clipped length is 1: it must be max_norm."),
            Mistake("CLP-11", {"max_norm / norm if": "1 / max_norm if"},
                    "The factor is 1 / max_norm, so the new length still depends on the old one: it must be "
                    "max_norm."),
            Mistake("CLP-9", {"tuple(g * scale for g in gradients)":
                              "tuple(np.multiply(g, scale, out=g) for g in gradients)"},
                    "g *= writes into the caller's arrays: make new ones."),
            Mistake("CLP-10", {"norm > max_norm": "norm < max_norm"},
                    "The comparison is reversed: long gradients stay, short ones are stretched."),
        ),
        alternatives={"one vector": {NORM: "np.linalg.norm(np.concatenate([g.ravel() for g in gradients]))"},
                      "by math": {NORM: "math.sqrt(sum((g ** 2).sum() for g in gradients))"}}),
]
