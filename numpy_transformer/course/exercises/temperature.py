"""Softmax with a temperature: a class with a forward and a backward pass that can be used several times."""

import numpy as np

from ...layers import Softmax as PackageSoftmax
from .definition import Exercise, Mistake
from .softmax import KEEPDIMS, MAXIMUM, OVERFLOW, ROW_SUM, SOFTMAX_BACKWARD, SUM


class Softmax:
    """Softmax with a temperature, p = softmax(z / temperature) for each row.

    The layer can be used several times before its first backward pass. Each backward pass belongs to the latest forward
    pass that has not had one yet, so after two forward passes, the first backward pass belongs to the second of them.
    A backward pass may use only what its forward pass has saved.

    temperature: a number greater than 0.
    """

    def __init__(self, temperature):
        self.temperature = temperature
        self.saved = []                         # values that forward saves for backward, the latest last

    def forward(self, z):
        """z: (..., n), logits, which may be in the thousands.  Return p: (..., n), whose rows sum to 1."""
        p = np.exp((z - z.max(-1, keepdims=True)) / self.temperature)
        p = p / p.sum(-1, keepdims=True)
        self.saved.append(p)
        return p

    def backward(self, dp):
        """dp: (..., n), dL/dp.  Return dz: (..., n), dL/dz."""
        p = self.saved.pop()
        return p * (dp - (p * dp).sum(-1, keepdims=True)) / self.temperature


class Tempered:
    def __init__(self, temperature):
        self.softmax = PackageSoftmax()
        self.temperature = temperature

    def forward(self, z):
        return self.softmax(z / self.temperature)

    def backward(self, dp):
        return self.softmax.backward(dp) / self.temperature


def draw_twice(rng, n):
    """Two calls with equal shapes, so that using the wrong saved values gives wrong numbers and not an error."""
    return twice(round(float(rng.uniform(1.5, 2.5)), 3), *rng.standard_normal((4, *n.lead, n.V)))


def twice(temperature, z, z2, dp2, dp):
    return (temperature,), (("forward", (z,)), ("forward", (z2,)), ("backward", (dp2,)), ("backward", (dp,)))


def edge_cases(rng):
    z, z2, dp2, dp = rng.standard_normal((4, 3, 5))
    far_apart = np.array([[0], [-1000], [2000]]) + 3000 * np.eye(3, 5)
    return [("logits around 1000 and -1000", twice(0.5, z + 1000, z2 - 1000, dp2, dp)),
            ("rows far apart, in each of them one logit far above the others", twice(0.7, z + far_apart, z2, dp2, dp))]


COOLED = ("Your forward does not divide the logits by the temperature before exp, so the temperature has no effect on "
          "the probabilities.")

EXERCISES = [
    Exercise(
        "01.5", "Softmax with a temperature, a class", minutes=15, lines=6,
        solution=Softmax, write=("forward", "backward"), reference=Tempered, inputs=draw_twice, edges=edge_cases,
        outputs=("p", "second p", "second dz", "dz"),
        invariants=(("rows of p must sum to 1", lambda inputs, outputs: outputs[0].sum(-1) - 1),
                    ("rows of dz must sum to 0", lambda inputs, outputs: outputs[3].sum(-1))),
        hints=("The layer may be called twice before backward, so forward must save something for each call. Which "
               "values does the gradient of the logits need?",
               "It needs only the probabilities. By the chain rule, z / temperature contributes one more factor.",
               "forward appends p to the list; backward pops it and returns p (dp - sum of p dp over the row) / "
               "temperature."),
        mistakes=(
            *SOFTMAX_BACKWARD,
            Mistake("SMB-7", {"append(p)": "append(z)"},
                    "Your backward computes with the logits. Save the probabilities that forward returns."),
            Mistake("SMB-14", {"self.saved.append(p)": "self.p = p", "self.saved.pop()": "self.p"},
                    "Your backward passes use the p of the latest forward pass. Either your layer has room for one p "
                    "only, or backward never removes it. Append to a list in forward and pop in backward."),
            Mistake("SMB-15", {"pop()": "pop(0)"},
                    "Your first backward pass uses the values of the first forward pass, but it belongs to the latest "
                    "one: last in, first out."),
            Mistake("SMB-16", {f"{ROW_SUM}) / self.temperature": f"{ROW_SUM})"},
                    "Your backward ignores the temperature. forward divides z by it, so the gradient is divided by it "
                    "too."),
            Mistake("SMB-17", {f"{ROW_SUM}) / self.temperature": f"{ROW_SUM}) * self.temperature"},
                    "Your backward multiplies by the temperature. It must divide: the higher the temperature, the less "
                    "p depends on z."),
            Mistake("SMF-1", {f"(z - {MAXIMUM})": "z"}, OVERFLOW),
            Mistake("SMF-10", {f"{MAXIMUM}) / self.temperature": f"{MAXIMUM}) * self.temperature"},
                    "You multiply the logits by the temperature. A high temperature must make the probabilities more "
                    "alike, not less."),
            Mistake("SMF-11", {f"p / {SUM}": f"p / {SUM} / self.temperature",
                               f"{MAXIMUM}) / self.temperature": f"{MAXIMUM})"},
                    "You divide the probabilities by the temperature, so the rows do not sum to 1. Divide the logits "
                    "instead."),
            Mistake("SMF-2", {MAXIMUM: "z.max()"},
                    "You subtract one maximum for the whole array, so rows far below it become 0 / 0. Each row needs "
                    "its own maximum."),
            Mistake("SMF-7", {MAXIMUM: "z.mean(-1, keepdims=True)"},
                    "You subtract something other than the row's maximum, such as its mean. A logit far above that "
                    "number still overflows. After the shift, no logit may exceed 0."),
            Mistake("SMF-19", {f"(z - {MAXIMUM}) / self.temperature": f"z / self.temperature - {MAXIMUM}"},
                    "You subtract the maximum of z from z / temperature. Both must have been divided, or the shift "
                    "does not prevent the overflow."),
            Mistake("SMF-3a", {SUM: "p.sum(0, keepdims=True)"},
                    "Your denominator is a sum over the first axis. The rows, along the last axis, must sum to 1."),
            Mistake("SMF-3d", {SUM: "p.sum(1, keepdims=True)"},
                    "Your denominator is a sum over axis 1. That is the last axis only if the array has two axes, so "
                    "count from the end."),
            Mistake("SMF-13", {f"{MAXIMUM}) / self.temperature": f"{MAXIMUM})"}, COOLED),
            Mistake("SMB-12", {ROW_SUM: "(p * dp).sum(-1)"}, KEEPDIMS, twin="SMF-5"),
            Mistake("SMF-5", {SUM: "p.sum(-1)"}, KEEPDIMS, twin="SMB-12"),
            Mistake("SMB-25", {
                    f"        p = p / {SUM}\n        self.saved.append(p)":
                    f"        self.saved.append(p)\n        p = p / {SUM}"},
                    "Your forward saves the exponentials before they are divided by their sums. Backward needs the "
                    "probabilities that forward returns."),
            Mistake("SMB-26", {f"{ROW_SUM}) / self.temperature": f"{ROW_SUM}) / self.temperature ** 2"},
                    "You divide by the temperature twice. The logits were divided by it once, and so is the "
                    "gradient."),
            Mistake("SMB-27", {"self.saved.append(p)": "self.saved = [p]"},
                    "Your forward replaces the saved values instead of adding to them, so the second backward pass "
                    "finds none."),
            Mistake("SMB-28", {"self.saved.pop()": "self.saved[0]"},
                    "Both backward passes use the values of the first forward pass. Each belongs to the latest "
                    "forward pass that has not had one yet."),
        ),
        alternatives={"divided first": {f"(z - {MAXIMUM}) / self.temperature": "z / self.temperature - "
                                        "(z / self.temperature).max(-1, keepdims=True)"}}),
]
