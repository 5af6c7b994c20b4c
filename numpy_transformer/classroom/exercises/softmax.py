"""Softmax, forward and backward."""

import numpy as np

from ...layers import Softmax
from ..exercise import Exercise, Mistake


def softmax(z):
    """p = softmax of each row.

    z: (..., n) logits, in the thousands too.  Return p: (..., n), p_j = exp(z_j) / sum_k exp(z_k) within each row.
    """
    p = np.exp(z - z.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def large(rng):
    far = rng.standard_normal((4, 5))
    return [("logits around 1000", (far + 1000,)),
            ("rows far apart", (far + np.array([[0], [-1000], [2000], [-3000]]),))]


def softmax_backward(p, dp):
    """The gradient of the logits.

    p: (..., n) output of softmax, rows sum to 1.  dp: (..., n) dL/dp.  Return dz: (..., n), dL/dz.
    """
    return p * (dp - (p * dp).sum(-1, keepdims=True))


def probabilities(rng, n):
    p = np.exp(rng.standard_normal((*n.lead, n.V)))
    return p / p.sum(-1, keepdims=True), rng.standard_normal((*n.lead, n.V))


def by_softmax_backward(p, dp):
    layer = Softmax()
    layer.remember(p)
    return layer.backward(dp)


ROW_SUM = "(p * dp).sum(-1, keepdims=True)"

EXERCISES = [
    Exercise(
        "01", "Softmax", "01", minutes=10, lines=2,
        solution=softmax, reference=lambda z: Softmax()(z), outputs=("p",), edges=large,
        inputs=lambda rng, n: (rng.standard_normal((*n.lead, n.V)),),
        invariants=(("rows of p must sum to 1", lambda inputs, outputs: outputs[0].sum(-1) - 1),),
        hints=("Each row is normalized by itself: over which axis, and what does keepdims=True keep?",
               "exp overflows above 709. Adding a number to all logits of a row changes nothing: which one helps?",
               "Subtract z.max(-1, keepdims=True), take exp, divide by the sum over the last axis."),
        mistakes=(
            Mistake("SMF-1", {" - z.max(-1, keepdims=True)": ""},
                    "No maximum is subtracted: exp overflows above about 709 in float64, 88 in float32."),
            Mistake("SMF-2", {"z.max(-1, keepdims=True)": "z.max()"},
                    "One maximum for the whole array: rows far below it become 0 / 0. Each row has its own."),
            Mistake("SMF-3", {"p.sum(-1, keepdims=True)": "p.sum(0, keepdims=True)"},
                    "The columns sum to 1, not the rows: normalize over the last axis."),
            Mistake("SMF-4", {"p.sum(-1, keepdims=True)": "p.sum()"},
                    "The whole array sums to 1. Each row needs its own denominator."),
        )),
    Exercise(
        "02", "Softmax, backward", "01", minutes=10, lines=1,
        solution=softmax_backward, reference=by_softmax_backward, inputs=probabilities, outputs=("dz",),
        invariants=(("rows of dz must sum to 0", lambda inputs, outputs: outputs[0].sum(-1)),),
        hints=("Every output of a row depends on every logit of it: dz_j is a sum over all outputs of the row.",
               "dp_i/dz_j = p_i (1 - p_j) for i = j, and -p_i p_j else. Sum dp_i times that over i.",
               "dz_j = p_j (dp_j - sum_i p_i dp_i), the sum over the row, with keepdims."),
        mistakes=(
            Mistake("SMB-1", {f"(dp - {ROW_SUM})": "(1 - p) * dp"},
                    "That is the derivative of the sigmoid: only the diagonal of softmax's Jacobian. Every output depends on "
                    "every logit, so the terms -p_i p_j are missing."),
            Mistake("SMB-2", {f"(dp - {ROW_SUM})": "dp"},
                    "The coupling is missing: a logit also lowers the other outputs of its row."),
            Mistake("SMB-3", {"(p * dp)": "dp"}, "Inside the sum each dp is weighted by its p."),
            Mistake("SMB-4", {".sum(": ".mean("}, "It is a sum over the row, not a mean."),
            Mistake("SMB-5a", {".sum(-1, keepdims=True)": ".sum()"},
                    "The sum goes over all axes: it belongs to each row alone."),
            Mistake("SMB-5b", {".sum(-1, keepdims=True)": ".sum(0, keepdims=True)"},
                    "The sum goes over the first axis: softmax was over the last one."),
            Mistake("SMB-6", {"p * (dp": "(dp", "(p * dp).sum(-1, keepdims=True)": "(p * dp).sum(-1, keepdims=True) * p"},
                    "The p in front belongs to both terms: here it stands at the second only."),
            Mistake("SMB-8", {f"(dp - {ROW_SUM})": f"({ROW_SUM} - dp)"}, "The sign is reversed."),
        ),
        alternatives={"by the Jacobian": {f"p * (dp - {ROW_SUM})":
                      "p * dp - (p[..., :, None] * p[..., None, :] @ dp[..., None])[..., 0]"}}),
]
