"""Softmax: forward, backward, and both as a class with a temperature."""

import numpy as np

from ...layers import Softmax as PackageSoftmax
from ..exercise import Exercise, Mistake


def softmax(z):
    """p = softmax of each row.

    z: (..., n) logits, in the thousands too. A row is what lies along the last axis; the dots stand for any number of
    axes before it, or none.  Return p: (..., n), p_j = exp(z_j) / sum_k exp(z_k) within each row.
    """
    p = np.exp(z - z.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def large(rng):
    far = rng.standard_normal((4, 5))
    return [("logits around 1000", (far + 1000,)),
            ("rows far apart", (far + np.array([[0], [-1000], [2000], [-3000]]),)),
            ("in each row one logit far above the others", (far + 2000 * np.eye(4, 5),))]


def softmax_backward(p, dp):
    """The gradient of the logits z, where forward was p = softmax(z) of each row.

    p: (..., n), what forward returned, rows sum to 1.  dp: (..., n), dL/dp.  Return dz: (..., n), dL/dz.
    """
    return p * (dp - (p * dp).sum(-1, keepdims=True))


def probabilities(rng, n):
    p = np.exp(rng.standard_normal((*n.lead, n.V)))
    return p / p.sum(-1, keepdims=True), rng.standard_normal((*n.lead, n.V))


def by_softmax_backward(p, dp):
    layer = PackageSoftmax()
    layer.remember(p)
    return layer.backward(dp)


class Softmax:
    """p = softmax(z / temperature) of each row, a layer that can be used several times before its backward.

    temperature is a number above 0. forward takes z: (..., n) and returns p: (..., n). backward takes dp: (..., n) and
    returns dz: (..., n). It belongs to the latest forward that has had no backward yet: of two forwards, the second is
    answered first. Of a forward it knows only what that has remembered.
    """

    def __init__(self, temperature):
        self.temperature = temperature
        self.memory = []                        # what forward remembers, the latest last

    def forward(self, z):
        """z: (..., n) logits, in the thousands too.  Return p: (..., n), each row sums to 1."""
        p = np.exp((z - z.max(-1, keepdims=True)) / self.temperature)
        p = p / p.sum(-1, keepdims=True)
        self.memory.append(p)
        return p

    def backward(self, dp):
        """dp: (..., n), dL/dp.  Return dz: (..., n), dL/dz."""
        p = self.memory.pop()
        return p * (dp - (p * dp).sum(-1, keepdims=True)) / self.temperature


class Tempered:
    def __init__(self, temperature):
        self.softmax, self.temperature = PackageSoftmax(), temperature

    def forward(self, z):
        return self.softmax(z / self.temperature)

    def backward(self, dp):
        return self.softmax.backward(dp) / self.temperature


def draw_twice(rng, n):
    """Used twice with equal shapes, so that a wrong memory does not show in them."""
    return twice(round(float(rng.uniform(1.5, 2.5)), 3), *rng.standard_normal((4, *n.lead, n.V)))


def twice(temperature, z, z2, dp2, dp):
    return (temperature,), (("forward", (z,)), ("forward", (z2,)), ("backward", (dp2,)), ("backward", (dp,)))


def cold(rng):
    z, z2, dp2, dp = rng.standard_normal((4, 3, 5))
    return [("logits around 1000 and -1000", twice(0.5, z + 1000, z2 - 1000, dp2, dp))]


MAXIMUM, SUM = "z.max(-1, keepdims=True)", "p.sum(-1, keepdims=True)"
ROW_SUM = "(p * dp).sum(-1, keepdims=True)"
OVERFLOW = "No maximum is subtracted: exp overflows above about 709 in float64, 88 in float32."
KEEPDIMS = "A row is reduced without keepdims=True: the result has one axis less, and no longer stands beside its row."
SOFTMAX_BACKWARD = (
    Mistake("SMB-1", {f"(dp - {ROW_SUM})": "(1 - p) * dp"},
            "That is the derivative of the sigmoid: only the diagonal of softmax's Jacobian. Every output depends on "
            "every logit of its row, so the terms -p_i p_j are missing."),
    Mistake("SMB-2", {f"(dp - {ROW_SUM})": "dp"},
            "The coupling is missing: a logit also lowers the other outputs of its row."),
    Mistake("SMB-3", {"(p * dp)": "dp"}, "Inside the sum p is missing: each dp is to be weighted by its p."),
    Mistake("SMB-4", {"dp).sum(": "dp).mean("}, "It is a sum over the row, not a mean."),
    Mistake("SMB-5a", {ROW_SUM: "(p * dp).sum()"}, "The sum goes over all axes: it belongs to each row alone."),
    Mistake("SMB-5b", {ROW_SUM: "(p * dp).sum(0, keepdims=True)"},
            "The sum goes over the first axis: softmax was over the last one."),
    Mistake("SMB-6", {"p * (dp": "(dp", ROW_SUM: f"{ROW_SUM} * p"},
            "The p in front belongs to both terms: here it stands at the second only."),
    Mistake("SMB-8", {f"(dp - {ROW_SUM})": f"({ROW_SUM} - dp)"}, "The sign is reversed."),
    Mistake("SMB-10", {ROW_SUM: "p * dp.sum(-1, keepdims=True)"},
            "The p stands outside the sum: each output has its own p, which weights its dp before they are added up."),
    Mistake("SMB-11", {"(dp - (": "(dp + ("},
            "The coupling has the wrong sign: raising a logit lowers the other outputs of its row."),
    Mistake("SMB-18", {f"p * (dp - {ROW_SUM})": f"(p * dp - {ROW_SUM})"},
            "The p in front belongs to both terms: here it stands at the first only."),
)

EXERCISES = [
    Exercise(
        "01.1", "Softmax", minutes=10, lines=2,
        solution=softmax, reference=lambda z: PackageSoftmax()(z), outputs=("p",), edges=large,
        inputs=lambda rng, n: (rng.standard_normal((*n.lead, n.V)),),
        invariants=(("rows of p must sum to 1", lambda inputs, outputs: outputs[0].sum(-1) - 1),),
        hints=("Each row is normalized by itself: over which axis, and what does keepdims=True keep?",
               "exp overflows above 709. Adding a number to all logits of a row changes nothing: which one helps?",
               "Subtract z.max(-1, keepdims=True), take exp, divide by the sum over the last axis."),
        mistakes=(
            Mistake("SMF-1", {f" - {MAXIMUM}": ""}, OVERFLOW),
            Mistake("SMF-2", {MAXIMUM: "z.max()"},
                    "One maximum for the whole array: rows far below it become 0 / 0. Each row has its own."),
            Mistake("SMF-3a", {MAXIMUM: "z.max(0, keepdims=True)", SUM: "p.sum(0, keepdims=True)"},
                    "Softmax runs over the first axis. The rows, along the last one, must sum to 1."),
            Mistake("SMF-3b", {MAXIMUM: "z.max(-2, keepdims=True)", SUM: "p.sum(-2, keepdims=True)"},
                    "Softmax runs over the last axis but one: the columns sum to 1, not the rows."),
            Mistake("SMF-3d", {MAXIMUM: "z.max(1, keepdims=True)", SUM: "p.sum(1, keepdims=True)"},
                    "Softmax runs over axis 1, which is the last one of an array with two axes alone: count from the end."),
            Mistake("SMF-3c", {SUM: "p.sum(0, keepdims=True)"},
                    "The denominator is a sum over the first axis: the rows, along the last one, must sum to 1."),
            Mistake("SMF-4", {SUM: "p.sum()"}, "The whole array sums to 1. Each row needs its own denominator."),
            Mistake("SMF-5", {MAXIMUM: "z.max(-1)", SUM: "p.sum(-1)"}, KEEPDIMS),
            Mistake("SMF-6", {SUM: "np.exp(z).sum(-1, keepdims=True)"},
                    "The maximum is subtracted above the line only: the denominator needs the same shift, or it does "
                    "not cancel."),
            Mistake("SMF-7", {MAXIMUM: "z.mean(-1, keepdims=True)"},
                    "What is subtracted is not the row's maximum but, say, its mean: a logit far above that still "
                    "overflows. After the shift none may exceed 0."),
            Mistake("SMF-8", {f"p = np.exp(z - {MAXIMUM})": f"z -= {MAXIMUM}\n    p = np.exp(z)"},
                    "z -= writes into the caller's array: make a new one."),
            Mistake("SMF-9", {f"np.exp(z - {MAXIMUM})": f"z - {MAXIMUM}"},
                    "There is no exp: the shifted logits themselves are divided, and they are not positive."),
            Mistake("SMF-12", {f" / {SUM}": ""},
                    "The rows are not divided by their sums: here the largest p of each is 1."),
        ),
        alternatives={"by the logarithm": {f"p / {SUM}": f"np.exp(z - {MAXIMUM} - np.log({SUM}))"}}),
    Exercise(
        "01.2", "Softmax, backward", minutes=10, lines=1,
        solution=softmax_backward, reference=by_softmax_backward, inputs=probabilities, outputs=("dz",),
        invariants=(("rows of dz must sum to 0", lambda inputs, outputs: outputs[0].sum(-1)),),
        hints=("Every output of a row depends on every logit of it: dz_j is a sum over all outputs of the row.",
               "dp_i/dz_j = p_i (1 - p_j) for i = j, and -p_i p_j else. Sum dp_i times that over i.",
               "dz_j = p_j (dp_j - sum_i p_i dp_i), the sum over the row, with keepdims."),
        mistakes=(
            *SOFTMAX_BACKWARD,
            Mistake("SMB-9", {"    return": "    p = np.exp(p) / np.exp(p).sum(-1, keepdims=True)\n    return"},
                    "p has gone through softmax already: here it goes through it a second time."),
            Mistake("SMB-12", {ROW_SUM: "(p * dp).sum(-1)"}, KEEPDIMS),
            Mistake("SMB-13", {f"return p * (dp - {ROW_SUM})": f"dp -= {ROW_SUM}\n    return p * dp"},
                    "dp -= writes into the caller's array: make a new one."),
        ),
        alternatives={"by the Jacobian": {f"p * (dp - {ROW_SUM})":
                      "p * dp - (p[..., :, None] * p[..., None, :] @ dp[..., None])[..., 0]"},
                      "by einsum": {ROW_SUM: "np.einsum('...i,...i->...', p, dp)[..., None]"}}),
    Exercise(
        "01.5", "Softmax with a temperature, a class", minutes=15, lines=6,
        solution=Softmax, write=("forward", "backward"), reference=Tempered, inputs=draw_twice, edges=cold,
        outputs=("p", "second p", "second dz", "dz"),
        invariants=(("rows of p must sum to 1", lambda inputs, outputs: outputs[0].sum(-1) - 1),
                    ("rows of dz must sum to 0", lambda inputs, outputs: outputs[3].sum(-1))),
        hints=("Used twice, forward keeps something for each backward. What does the gradient of the logits need?",
               "It needs the probabilities alone. By the chain rule z / temperature contributes one more factor.",
               "forward appends p; backward pops it and returns p (dp - sum of p dp over the row) / temperature."),
        mistakes=(
            *SOFTMAX_BACKWARD,
            Mistake("SMB-7", {"append(p)": "append(z)"},
                    "backward works with the logits: remember the probabilities that forward returns."),
            Mistake("SMB-14", {"self.memory.append(p)": "self.p = p", "self.memory.pop()": "self.p"},
                    "There is one place to remember, and the second forward overwrites the first: both backwards use "
                    "the latest p. Keep a list."),
            Mistake("SMB-15", {"pop()": "pop(0)"},
                    "The first forward is answered first: backward belongs to the latest one. Last in, first out."),
            Mistake("SMB-16", {f"{ROW_SUM}) / self.temperature": f"{ROW_SUM})"},
                    "The temperature is missing in backward: z was divided by it, so its gradient is too."),
            Mistake("SMB-17", {f"{ROW_SUM}) / self.temperature": f"{ROW_SUM}) * self.temperature"},
                    "The gradient is multiplied by the temperature. Divide: the hotter, the less does p depend on z."),
            Mistake("SMF-1", {f"(z - {MAXIMUM})": "z"}, OVERFLOW),
            Mistake("SMF-10", {f"{MAXIMUM}) / self.temperature": f"{MAXIMUM}) * self.temperature"},
                    "The logits are multiplied by the temperature: a high one must make the probabilities more alike."),
            Mistake("SMF-11", {f"p / {SUM}": f"p / {SUM} / self.temperature",
                               f"{MAXIMUM}) / self.temperature": f"{MAXIMUM})"},
                    "The probabilities are divided by the temperature, and rows do not sum to 1: divide the logits."),
        ),
        alternatives={"divided first": {f"(z - {MAXIMUM}) / self.temperature": "z / self.temperature - "
                                        "(z / self.temperature).max(-1, keepdims=True)"}}),
]
