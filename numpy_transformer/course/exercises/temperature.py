"""Softmax with a temperature: a class with a forward and a backward pass that can be used several times."""

import numpy as np

from ...layers import Softmax as PackageSoftmax
from .definition import Exercise, Mistake
from .softmax import MAXIMUM


class Softmax:
    def __init__(self, temperature):
        self.temperature = temperature
        self.saved = []                         # {saved}

    def forward(self, z):
        p = np.exp((z - z.max(-1, keepdims=True)) / self.temperature)
        p = p / p.sum(-1, keepdims=True)
        self.saved.append(p)
        return p

    def backward(self, dp):
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
    return [("logits_around_1000_1000", twice(0.5, z + 1000, z2 - 1000, dp2, dp)),
            ("rows_far_apart_them_logit", twice(0.7, z + far_apart, z2, dp2, dp))]


EXERCISES = [
    Exercise(
        "01.5", minutes=15, lines=6,
        number_sizes=("tiny", "mixed"),
        solution=Softmax, write=("forward", "backward"), reference=Tempered, inputs=draw_twice, edges=edge_cases,
        outputs=("p", "second p", "second dz", "dz"),
        must_be_zero={"rows_p_sum": lambda inputs, outputs: outputs[0].sum(-1) - 1,
                      "rows_dz_sum": lambda inputs, outputs: outputs[3].sum(-1)},
        mistakes=(
            Mistake("SMB-1", {"(dp - (p * dp).sum(-1, keepdims=True))": "(1 - p) * dp"}),
            Mistake("SMB-2", {"(dp - (p * dp).sum(-1, keepdims=True))": "dp"}),
            Mistake("SMB-3", {"(p * dp)": "dp"}),
            Mistake("SMB-4", {"sum(-1, keepdims=True))": "mean(-1, keepdims=True))"}),
            Mistake("SMB-5a", {"(p * dp).sum(-1, keepdims=True)": "(p * dp).sum()"}),
            Mistake("SMB-5b", {"(p * dp).sum(-1, keepdims=True)": "(p * dp).sum(0, keepdims=True)"}),
            Mistake("SMB-6", {
                "p * (dp": "(dp",
                "(p * dp).sum(-1, keepdims=True)": "(p * dp).sum(-1, keepdims=True) * p"}),
            Mistake("SMB-8", {"(dp - (p * dp).sum(-1, keepdims=True))": "((p * dp).sum(-1, keepdims=True) - dp)"}),
            Mistake("SMB-7", {"append(p)": "append(z)"}),
            Mistake("SMB-14", {"self.saved.append(p)": "self.p = p", "self.saved.pop()": "self.p"}),
            Mistake("SMB-15", {"pop()": "pop(0)"}),
            Mistake("SMB-16", {
                "(p * dp).sum(-1, keepdims=True)) / self.temperature": "(p * dp).sum(-1, keepdims=True))"}),
            Mistake("SMB-17", {
                "(p * dp).sum(-1, keepdims=True)) / self.temperature":
                    "(p * dp).sum(-1, keepdims=True)) * self.temperature"}),
            Mistake("SMF-1", {"(z - z.max(-1, keepdims=True))": "z"}),
            Mistake("SMF-10", {
                "z.max(-1, keepdims=True)) / self.temperature": "z.max(-1, keepdims=True)) * self.temperature"}),
            Mistake("SMF-11", {
                "p / p.sum(-1, keepdims=True)": "p / p.sum(-1, keepdims=True) / self.temperature",
                "z.max(-1, keepdims=True)) / self.temperature": "z.max(-1, keepdims=True))"}),
            Mistake("SMF-2", {"z.max(-1, keepdims=True)": "z.max()"}),
            Mistake("SMF-7", {"z.max(-1, keepdims=True)": "z.mean(-1, keepdims=True)"}),
            Mistake("SMF-3a", {"p.sum(-1, keepdims=True)": "p.sum(0, keepdims=True)"}),
            Mistake("SMF-13", {"z.max(-1, keepdims=True)) / self.temperature": "z.max(-1, keepdims=True))"}),
            Mistake("SMB-25", {
                "        p = p / p.sum(-1, keepdims=True)\n        self.saved.append(p)":
                    "        self.saved.append(p)\n        p = p / p.sum(-1, keepdims=True)"}),
            Mistake("SMB-27", {"self.saved.append(p)": "self.saved = [p]"}),
            Mistake("SMB-28", {"self.saved.pop()": "self.saved[0]"}),
        ),
        alternatives={"divided first": {f"(z - {MAXIMUM}) / self.temperature": "z / self.temperature - "
                                        "(z / self.temperature).max(-1, keepdims=True)"}}),
]
