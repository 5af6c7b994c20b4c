"""Softmax: its forward pass and its backward pass."""

import numpy as np

from ...layers import Softmax as PackageSoftmax
from .definition import Exercise, Mistake


def softmax(z):
    """Computes the softmax of each row, p = softmax(z).

    A row runs along the last axis of z. The dots stand for any number of leading axes, or none.

    z: (..., n), logits; they may be in the thousands.
    Return p: (..., n), with p_j = exp(z_j) / sum_k exp(z_k) within each row.
    """
    p = np.exp(z - z.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def large_logits(rng):
    far = rng.standard_normal((4, 5))
    return [("logits around 1000", (far + 1000,)),
            ("rows far apart", (far + np.array([[0], [-1000], [2000], [-3000]]),)),
            ("in each row one logit far above the others", (far + 2000 * np.eye(4, 5),))]


def softmax_backward(p, dp):
    """Computes the gradient of the logits z, where the forward pass was p = softmax(z) for each row.

    p: (..., n), the output of the forward pass, whose rows sum to 1.
    dp: (..., n), dL/dp.
    Return dz: (..., n), dL/dz.
    """
    return p * (dp - (p * dp).sum(-1, keepdims=True))


def probabilities(rng, n):
    p = np.exp(rng.standard_normal((*n.lead, n.V)))
    return p / p.sum(-1, keepdims=True), rng.standard_normal((*n.lead, n.V))


def by_softmax_backward(p, dp):
    layer = PackageSoftmax()
    layer.remember(p)
    return layer.backward(dp)


MAXIMUM = "z.max(-1, keepdims=True)"
SUM = "p.sum(-1, keepdims=True)"
ROW_SUM = "(p * dp).sum(-1, keepdims=True)"
OVERFLOW = ("Your code does not subtract the row's maximum. exp overflows for logits above about 709 in float64 and "
            "above 88 in float32.")
KEEPDIMS = ("You reduce each row without keepdims=True. The result has lost the last axis, so NumPy no longer aligns "
            "it with the rows.")
SOFTMAX_BACKWARD = (
    Mistake("SMB-1", {f"(dp - {ROW_SUM})": "(1 - p) * dp"},
            "This is the derivative of the sigmoid, which is only the diagonal of softmax's Jacobian. Every output "
            "depends on every logit of its row, so the terms -p_i p_j are missing."),
    Mistake("SMB-2", {f"(dp - {ROW_SUM})": "dp"},
            "The coupling between the outputs is missing: raising one logit also lowers the other outputs of its row."),
    Mistake("SMB-3", {"(p * dp)": "dp"}, "The factor p is missing inside the sum. Each dp must be weighted by its p."),
    Mistake("SMB-4", {"sum(-1, keepdims=True))": "mean(-1, keepdims=True))"},
            "You average p dp over the row. The chain rule adds the terms up, so it must be a sum."),
    Mistake("SMB-5a", {ROW_SUM: "(p * dp).sum()"},
            "You sum p dp over the whole array. Each row is a softmax of its own, so each row needs its own sum."),
    Mistake("SMB-5b", {ROW_SUM: "(p * dp).sum(0, keepdims=True)"},
            "You sum p dp over the first axis, but softmax normalizes along the last one."),
    Mistake("SMB-6", {"p * (dp": "(dp", ROW_SUM: f"{ROW_SUM} * p"},
            "The factor p in front must multiply both terms of the difference. Your code multiplies only the second."),
    Mistake("SMB-8", {f"(dp - {ROW_SUM})": f"({ROW_SUM} - dp)"}, "Your gradient has the wrong sign."),
    Mistake("SMB-10", {ROW_SUM: "p * dp.sum(-1, keepdims=True)"},
            "Your p stands outside the sum. Each output has its own p, which must weight its dp before the terms are "
            "added."),
    Mistake("SMB-11", {"(dp - (": "(dp + ("},
            "The second term has the wrong sign: raising a logit lowers the other outputs of its row."),
    Mistake("SMB-18", {"p * (dp - ": "(p * dp - "},
            "The factor p in front must multiply both terms of the difference. Your code multiplies only the first."),
    Mistake("SMB-19", {f"p * (dp - {ROW_SUM})": "(dp - p * dp.sum(-1, keepdims=True))"},
            "This is the backward of the logarithm of softmax. Here the forward pass returned p itself."),
    Mistake("SMB-20", {"p * (dp - ": "(dp - "}, "The factor p in front of the difference is missing."),
    Mistake("SMB-21", {"(dp - ": "(-"},
            "Your gradient contains only the effect of a logit on the sum in the denominator. The output of the logit "
            "itself also changes through the numerator."),
    Mistake("SMB-5c", {ROW_SUM: "(p * dp).sum(-2, keepdims=True)"},
            "You sum p dp over the second-to-last axis, but softmax normalizes along the last one."),
    Mistake("SMB-5d", {ROW_SUM: "(p * dp).sum(1, keepdims=True)"},
            "You sum p dp over axis 1. That is the last axis only if the array has two axes, so count from the end."),
)

EXERCISES = [
    Exercise(
        "01.1", "Softmax", minutes=10, lines=2,
        solution=softmax, reference=lambda z: PackageSoftmax()(z), outputs=("p",), edges=large_logits,
        inputs=lambda rng, n: (rng.standard_normal((*n.lead, n.V)),),
        invariants=(("rows of p must sum to 1", lambda inputs, outputs: outputs[0].sum(-1) - 1),),
        hints=("Each row is normalized separately. Which axis is that, and which axis does keepdims=True keep?",
               "exp overflows above 709, but adding the same number to all logits of a row does not change the result. "
               "Which number prevents the overflow?",
               "Subtract z.max(-1, keepdims=True), apply exp, and divide by the sum over the last axis."),
        mistakes=(
            Mistake("SMF-1", {f" - {MAXIMUM}": ""}, OVERFLOW),
            Mistake("SMF-2", {MAXIMUM: "z.max()"},
                    "You subtract one maximum for the whole array, so rows far below it become 0 / 0. Each row needs "
                    "its own maximum."),
            Mistake("SMF-3a", {MAXIMUM: "z.max(0, keepdims=True)", SUM: "p.sum(0, keepdims=True)"},
                    "Your softmax normalizes along the first axis. The rows, along the last axis, must sum to 1."),
            Mistake("SMF-3b", {MAXIMUM: "z.max(-2, keepdims=True)", SUM: "p.sum(-2, keepdims=True)"},
                    "Your softmax normalizes along the second-to-last axis, so the columns sum to 1 instead of the "
                    "rows."),
            Mistake("SMF-3d", {MAXIMUM: "z.max(1, keepdims=True)", SUM: "p.sum(1, keepdims=True)"},
                    "Your softmax normalizes along axis 1. That is the last axis only if the array has two axes, so "
                    "count from the end."),
            Mistake("SMF-3c", {SUM: "p.sum(0, keepdims=True)"},
                    "Your denominator is a sum over the first axis. The rows, along the last axis, must sum to 1."),
            Mistake("SMF-4", {SUM: "p.sum()"},
                    "You divide by the sum of the whole array. Each row needs its own denominator."),
            Mistake("SMF-5", {MAXIMUM: "z.max(-1)", SUM: "p.sum(-1)"}, KEEPDIMS),
            Mistake("SMF-6", {SUM: "np.exp(z).sum(-1, keepdims=True)"},
                    "You subtract the maximum only in the numerator. The denominator needs the same shift, or the "
                    "shift does not cancel."),
            Mistake("SMF-7", {MAXIMUM: "z.mean(-1, keepdims=True)"},
                    "You subtract something other than the row's maximum, such as its mean. A logit far above that "
                    "number still overflows. After the shift, no logit may exceed 0."),
            Mistake("SMF-8", {f"p = np.exp(z - {MAXIMUM})": f"z -= {MAXIMUM}\n    p = np.exp(z)"},
                    "z -= ... changes the caller's array. Compute the difference into a new array."),
            Mistake("SMF-9", {f"np.exp(z - {MAXIMUM})": f"z - {MAXIMUM}"},
                    "The exp is missing. You divide the shifted logits themselves, which are not positive."),
            Mistake("SMF-12", {f" / {SUM}": ""},
                    "You do not divide by the sums of the rows, so the largest p of each row is 1."),
            Mistake("SMF-3e", {SUM: "p.sum(1, keepdims=True)"},
                    "Your denominator is a sum over axis 1. That is the last axis only if the array has two axes, so "
                    "count from the end."),
            Mistake("SMF-3f", {SUM: "p.sum(-2, keepdims=True)"},
                    "Your denominator is a sum over the second-to-last axis, so it adds up numbers of different "
                    "rows."),
            Mistake("SMF-2b", {MAXIMUM: "z.max(0, keepdims=True)"},
                    "You subtract the maximum over the first axis. A row far below the others then becomes 0 / 0. "
                    "Each row needs its own maximum."),
            Mistake("SMF-2c", {MAXIMUM: "z.max(1, keepdims=True)"},
                    "You subtract the maximum over axis 1. That is the last axis only if the array has two axes, so "
                    "count from the end."),
            Mistake("SMF-13", {f"p / {SUM}": "z - z.max(-1, keepdims=True) - np.log(p.sum(-1, keepdims=True))"},
                    "You return the logarithm of softmax. The exercise asks for the probabilities themselves."),
            Mistake("SMF-14", {f"np.exp(z - {MAXIMUM})": "1 / (1 + np.exp(-z))", f"p / {SUM}": "p"},
                    "This is the sigmoid, which treats each logit by itself. Softmax divides by a sum over the row, "
                    "so that the row sums to 1."),
            Mistake("SMF-15", {f"z - {MAXIMUM}": f"{MAXIMUM} - z"},
                    "Your exponent has the wrong sign, so the largest logit of a row gets the smallest probability."),
            Mistake("SMF-16", {SUM: "p.mean(-1, keepdims=True)"},
                    "You divide by the mean of the row instead of its sum, so the rows sum to n instead of 1."),
            Mistake("SMF-17", {f"z - {MAXIMUM}": "np.clip(z, -700, 700)"},
                    "You cut large logits off to prevent the overflow, so differences between them are lost. Softmax "
                    "does not change if the same number is subtracted from all logits of a row."),
            Mistake("SMF-9b", {f"np.exp(z - {MAXIMUM})": "z"},
                    "The exp is missing. You divide the logits themselves by their sum."),
            Mistake("SMF-18", {f"z - {MAXIMUM}": f"z / {MAXIMUM}"},
                    "You divide the logits by the row's maximum, which changes their differences and so the "
                    "probabilities. Softmax stays the same only if you subtract a number from the whole row."),
            Mistake("SMF-5b", {SUM: "p.sum(-1)[:, None]"},
                    "[:, None] inserts the missing axis after the first one. That is its place only if the array has "
                    "two axes; keepdims=True keeps it where it was."),
        ),
        alternatives={"with the logarithm": {f"p / {SUM}": f"np.exp(z - {MAXIMUM} - np.log({SUM}))"}}),
    Exercise(
        "01.2", "Softmax, backward", minutes=10, lines=1,
        solution=softmax_backward, reference=by_softmax_backward, inputs=probabilities, outputs=("dz",),
        invariants=(("rows of dz must sum to 0", lambda inputs, outputs: outputs[0].sum(-1)),),
        hints=("Every output of a row depends on every logit of that row, so dz_j is a sum over all outputs of the "
               "row.",
               "dp_i/dz_j is p_i (1 - p_i) for i = j, and -p_i p_j otherwise. Multiply it by the upstream gradient "
               "dp_i and sum over i.",
               "dz_j = p_j (dp_j - sum_i p_i dp_i), where the sum runs over the row and keeps its axis "
               "(keepdims=True)."),
        mistakes=(
            *SOFTMAX_BACKWARD,
            Mistake("SMB-9", {"    return": "    p = np.exp(p) / np.exp(p).sum(-1, keepdims=True)\n    return"},
                    "p is already the output of softmax. Your code applies softmax to it a second time."),
            Mistake("SMB-12", {ROW_SUM: "(p * dp).sum(-1)"}, KEEPDIMS),
            Mistake("SMB-13", {f"return p * (dp - {ROW_SUM})": f"dp -= {ROW_SUM}\n    return p * dp"},
                    "dp -= ... changes the caller's array. Compute the difference into a new array."),
            Mistake("SMB-22a", {f"p * (dp - {ROW_SUM})": "(np.diag(p) - np.outer(p, p)) @ dp"},
                    "np.diag(p) - np.outer(p, p) is the Jacobian of a single row. p may have any number of leading "
                    "axes, and each row has a Jacobian of its own."),
            Mistake("SMB-22b", {
                    f"p * (dp - {ROW_SUM})": "np.array([(np.diag(a) - np.outer(a, a)) @ b for a, b in zip(p, dp)])"},
                    "Your code takes each p[i] for one row, which it is only if p has two axes. There may be any "
                    "number of leading axes."),
            Mistake("SMB-23a", {ROW_SUM: "np.dot(p, dp)"},
                    "np.dot gives the sum of the products only for two vectors. For arrays with several rows it is a "
                    "product of matrices."),
            Mistake("SMB-23b", {ROW_SUM: "p @ dp"},
                    "p @ dp gives the sum of the products only for two vectors. For arrays with several rows it is a "
                    "product of matrices."),
            Mistake("SMB-29", {f"p * (dp - {ROW_SUM})": f"p * (1 - p) * dp - p * {ROW_SUM}"},
                    "You count the diagonal of the Jacobian twice: the sum over the row already contains the term "
                    "-p_j p_j dp_j."),
        ),
        alternatives={"by the Jacobian": {f"p * (dp - {ROW_SUM})":
                      "p * dp - (p[..., :, None] * p[..., None, :] @ dp[..., None])[..., 0]"},
                      "by einsum": {ROW_SUM: "np.einsum('...i,...i->...', p, dp)[..., None]"}}),
]
