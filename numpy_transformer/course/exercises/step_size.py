"""The size of a step: the learning rate of the Transformer paper, and gradient clipping by the global norm."""

import math

import numpy as np

from ...module import Parameter
from ...training import Adam, NoamSchedule, clip_grad_norm
from .definition import Exercise, Mistake


def noam_rate(step, d_model, warmup):
    """The learning rate of the Transformer paper (Vaswani et al. 2017, section 5.3).

    step: int, the number of this training step, 1, 2, 3, ...
    d_model: int, the width of the model.
    warmup: int, the number of warm-up steps.
    Up to step = warmup, the rate grows in proportion to step; after that, it falls in proportion to 1 / sqrt(step). The
    two formulas agree at step = warmup, where the rate is 1 / sqrt(d_model * warmup).
    Return rate: a number.
    """
    return d_model ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)


def clip_gradients(gradients, max_norm):
    """Clips three gradients by their global norm, the norm of the vector of all their entries.

    gradients: list of three arrays of any shapes; all entries may be 0.
    max_norm: a number above 0.
    If the global norm exceeds max_norm, it becomes max_norm, and the direction of the vector stays the same. Otherwise
    nothing changes.
    Return a tuple of three arrays: the clipped gradients, in the same order and shapes.
    """
    norm = np.sqrt(sum((g ** 2).sum() for g in gradients))
    scale = max_norm / norm if norm > max_norm else 1.0
    return tuple(g * scale for g in gradients)


def by_noam(step, d_model, warmup):
    return NoamSchedule(Adam([Parameter(np.zeros(1))]), d_model, warmup).rate(step)


def along_the_schedule(rng):
    """Draws a width and a warm-up of the size of the paper's, 512 and 4000."""
    d_model, warmup = 64 * int(rng.integers(4, 17)), int(rng.integers(2000, 8000))
    steps = {"the first step": 1, "the second step": 2, "in the warm-up": warmup // 4, "the last step of the warm-up":
             warmup, "the step after the warm-up": warmup + 1, "long after the warm-up": 25 * warmup}
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
    return [("a norm below the limit", ([0.1 * rng.standard_normal(shape) for shape in shapes], 5.0)),
            ("the last gradient is the largest", ([size * rng.standard_normal(shape) for size, shape in
                                                   zip((0.1, 0.5, 3), shapes)], 1.5)),
            ("all gradients are 0", ([np.zeros(shape) for shape in shapes], round(float(rng.uniform(0.5, 2)), 3)))]


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
        edges=along_the_schedule,
        invariants=(("the rate must not exceed 1 / sqrt(d_model * warmup)", above_peak),),
        hints=("Write down both formulas: a number times step, and another number times 1 / sqrt(step). Where do they "
               "meet?",
               "Apart from the factor 1 / sqrt(d_model), the falling one is 1 / sqrt(step), and the rising one is c "
               "step with c warmup = 1 / sqrt(warmup). On either side of warmup, is the rate the smaller of the two or "
               "the larger?",
               "d_model ** -0.5 times the smaller of step ** -0.5 and step * warmup ** -1.5."),
        mistakes=(
            Mistake("NOA-1", {"min(": "max("},
                    "You take the larger of the two formulas. The rate is the smaller one."),
            Mistake("NOA-2a", {"d_model ** -0.5": "d_model ** 0.5"},
                    "Your rate grows with d_model. In the paper, a wider model has a lower rate."),
            Mistake("NOA-2b", {"d_model ** -0.5": "1 / d_model"},
                    "You divide the rate by d_model instead of its square root."),
            Mistake("NOA-2c", {"d_model ** -0.5 * ": ""},
                    "d_model is missing. A wider model has a lower rate, in proportion to 1 / sqrt(d_model)."),
            Mistake("NOA-3a", {"warmup ** -1.5": "warmup ** -0.5"},
                    "Your rate rises too steeply. At step = warmup it must be 1 / sqrt(d_model * warmup)."),
            Mistake("NOA-3b", {"warmup ** -1.5": "warmup ** -1"},
                    "Your two formulas do not agree at step = warmup: the rising one is sqrt(warmup) times the falling "
                    "one there."),
            Mistake("NOA-3c", {ARMS: "(step / warmup if step < warmup else step ** -0.5)"},
                    "At step = warmup, your rate suddenly falls by the factor sqrt(warmup). Both formulas must give "
                    "1 / sqrt(d_model * warmup) there."),
            Mistake("NOA-4a", {"step ** -0.5": "(step + 1) ** -0.5", "step * warmup": "(step + 1) * warmup"},
                    "You add 1 to the step. It already counts from 1."),
            Mistake("NOA-4b", {"step ** -0.5": "(step - 1) ** -0.5", "step * warmup": "(step - 1) * warmup"},
                    "You subtract 1 from the step. It counts from 1, and the rate of the first step is not 0."),
            Mistake("NOA-10", {"d_model ** -0.5 * ": "(warmup / d_model) ** 0.5 * "},
                    "Your peak is 1 / sqrt(d_model), without warmup. A longer warm-up must have a lower peak."),
            Mistake("NOA-5", {ARMS: "step * warmup ** -1.5"},
                    "Your rate never falls. After the warm-up it must be proportional to 1 / sqrt(step)."),
            Mistake("NOA-6", {ARMS: "step ** -0.5"},
                    "You have no warm-up, so the first steps get the highest rates."),
            Mistake("NOA-7", {"step ** -0.5": "warmup ** -0.5"},
                    "After the warm-up, your rate stays at its peak. It must fall in proportion to 1 / sqrt(step)."),
            Mistake("NOA-8", {"step ** -0.5": "warmup ** 0.5 / step"},
                    "After the warm-up, your rate falls as 1 / step. It must fall more slowly, as 1 / sqrt(step)."),
            Mistake("NOA-4c", {"step * warmup": "(step - 1) * warmup"},
                    "You subtract 1 from the step in the warm-up. It counts from 1, and the first rate is not 0."),
            Mistake("NOA-11", {ARMS: "min(step ** -0.5, step ** 0.5 / warmup)"},
                    "Your rate rises in proportion to sqrt(step). In the warm-up it is proportional to step itself."),
            Mistake("NOA-12", {ARMS: "(step * warmup ** -1.5 if step <= warmup else (warmup * step) ** -0.5)"},
                    "After the warm-up, you divide the highest rate by sqrt(step), so the rate suddenly falls. The two "
                    "formulas must agree at step = warmup."),
            Mistake("NOA-13", {ARMS: "(step * warmup ** -1.5 if step <= warmup else (warmup * (step - warmup)) ** "
                                     "-0.5)"},
                    "You count the steps after the warm-up from its end. step is the number of the step in the whole "
                    "training."),
            Mistake("NOA-14", {ARMS: "min(step ** -1.5, step * warmup ** -0.5)"},
                    "You swapped the exponents -0.5 and -1.5."),
            Mistake("NOA-15", {ARMS: "min(warmup ** -0.5, warmup * step ** -1.5)"},
                    "You swapped step and warmup in both formulas."),
            Mistake("NOA-16", {f"d_model ** -0.5 * {ARMS}": "d_model ** 0.5 * min(step ** 0.5, step * warmup ** 1.5)"},
                    "Your exponents lack the minus signs. A wider model and a longer warm-up have lower rates."),
            Mistake("NOA-17", {ARMS: "(step * warmup ** -0.5 if step <= warmup else step ** -0.5)"},
                    "In the warm-up, your rate is warmup times too large. The two formulas must agree at step = "
                    "warmup."),
            Mistake("NOA-9", {ARMS: "(step ** -0.5 + step * warmup ** -1.5)"},
                    "You add the two formulas. The rate is the smaller of them."),
        ),
        alternatives={"in two formulas": {ARMS:
                      "(step / warmup if step < warmup else math.sqrt(warmup / step)) / math.sqrt(warmup)"}}),
    Exercise(
        "19.4", "Clipping by the global norm", minutes=10, lines=3,
        solution=clip_gradients, reference=by_clip, inputs=three, edges=short, outputs=("first", "second", "third"),
        hints=("The global norm is that of one long vector with all entries of all three arrays. How do you combine "
               "the three parts?",
               "Add the squares, not the norms. One factor, the same for all three arrays, keeps the direction.",
               "norm = sqrt(sum of all squares); the factor is max_norm / norm where norm > max_norm, else 1."),
        mistakes=(
            Mistake("ADM-11b", {"g * scale": "g * min(1.0, max_norm / np.sqrt((g ** 2).sum()))"},
                    "You clip each gradient by its own norm. Large gradients shrink and small ones do not, so the "
                    "direction changes. Use one norm and one factor."),
            Mistake("CLP-1", {"g * scale": "np.clip(g, -max_norm, max_norm)"},
                    "You clip each entry separately, which changes the direction. Multiply all entries by one factor."),
            Mistake("CLP-2", {"max_norm / norm if norm > max_norm else 1.0": "max_norm / norm"},
                    "You also scale gradients below the limit: up to the limit, or by 0 / 0 if all are 0. max_norm is "
                    "an upper limit."),
            Mistake("CLP-3", {NORM: "sum((g ** 2).sum() for g in gradients)"},
                    "The square root is missing. This is the square of the norm."),
            Mistake("CLP-4", {NORM: "sum(np.sqrt((g ** 2).sum()) for g in gradients)"},
                    "You add the norms. For one long vector, the squares add up, under one square root."),
            Mistake("CLP-5", {NORM: "max(np.sqrt((g ** 2).sum()) for g in gradients)"},
                    "You use the largest of the three norms. The global norm is that of all entries together."),
            Mistake("CLP-6", {"(g ** 2).sum()": "(g ** 2).mean()"},
                    "You use the mean of the squares. A norm is the square root of their sum."),
            Mistake("CLP-7", {NORM: "sum(np.abs(g).sum() for g in gradients)"},
                    "You add the absolute values. The norm is the square root of the sum of squares."),
            Mistake("CLP-8", {"max_norm / norm": "1 / norm"}, "Your clipped norm is 1. It must be max_norm."),
            Mistake("CLP-11", {"max_norm / norm if": "1 / max_norm if"},
                    "Your factor is 1 / max_norm, so the new norm still depends on the old one. It must be max_norm."),
            Mistake("CLP-12", {"max_norm / norm if": "max_norm if"},
                    "Your factor is max_norm, so the new norm is max_norm times the old one. It must be max_norm."),
            Mistake("CLP-13", {"max_norm / norm if": "norm / max_norm if"},
                    "Your factor is inverted, so long gradients become longer still."),
            Mistake("CLP-19", {"max_norm / norm if norm > max_norm": "norm / max_norm if norm < max_norm"},
                    "Your factor is inverted, and at most 1. So long gradients stay as they are, and short ones become "
                    "shorter still."),
            Mistake("CLP-14", {"for g in gradients))": "for g in gradients[:1]))"},
                    "Your norm is that of the first array only. The global norm is that of all entries together."),
            Mistake("CLP-15", {NORM: "max(np.abs(g).max() for g in gradients)"},
                    "You use the largest absolute value. The norm is the square root of the sum of all squares."),
            Mistake("CLP-16", {"max_norm / norm if norm > max_norm else 1.0": "max_norm / (norm + 1e-6)"},
                    "You also scale gradients below the limit, up to the limit. Gradients with a norm of at most "
                    "max_norm stay as they are."),
            Mistake("CLP-17", {"(g ** 2).sum()": "g.sum() ** 2"},
                    "You square the sums. Square each entry first, then add."),
            Mistake("CLP-18", {"g * scale": "(g * max_norm / norm if np.sqrt((g ** 2).sum()) > max_norm else g)"},
                    "You scale only the arrays whose own norm exceeds the limit, which changes the direction. If the "
                    "global norm exceeds it, all three are multiplied by the same factor."),
            Mistake("CLP-9", {"tuple(g * scale for g in gradients)":
                              "tuple(np.multiply(g, scale, out=g) for g in gradients)"},
                    "You write into the caller's arrays. Make new ones."),
            Mistake("CLP-10", {"norm > max_norm": "norm < max_norm"},
                    "Your comparison is reversed: you keep large gradients and stretch small ones."),
        ),
        alternatives={"one vector": {NORM: "np.linalg.norm(np.concatenate([g.ravel() for g in gradients]))"},
                      "by math": {NORM: "math.sqrt(sum((g ** 2).sum() for g in gradients))"}}),
]
