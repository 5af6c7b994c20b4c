"""Softmax: its forward pass and its backward pass."""

import numpy as np

from ...layers import Softmax as PackageSoftmax
from .definition import Exercise, Mistake


def softmax(z):
    p = np.exp(z - z.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def large_logits(rng):
    far = rng.standard_normal((4, 5))
    return [("logits_around_1000", (far + 1000,)),
            ("rows_far_apart", (far + np.array([[0], [-1000], [2000], [-3000]]),)),
            ("row_logit_far", (far + 2000 * np.eye(4, 5),))]


def softmax_backward(p, dp):
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


EXERCISES = [
    Exercise(
        "01.1", minutes=10, lines=2, single_row=True,
        solution=softmax, reference=lambda z: PackageSoftmax()(z), outputs=("p",), edges=large_logits,
        inputs=lambda rng, n: (rng.standard_normal((*n.lead, n.V)),),
        must_be_zero={"rows_p_sum": lambda inputs, outputs: outputs[0].sum(-1) - 1},
        mistakes=(
            Mistake("SMF-1", {" - z.max(-1, keepdims=True)": ""}),
            Mistake("SMF-2", {"z.max(-1, keepdims=True)": "z.max()"}),
            Mistake("SMF-3a", {
                "z.max(-1, keepdims=True)": "z.max(0, keepdims=True)",
                "p.sum(-1, keepdims=True)": "p.sum(0, keepdims=True)"}),
            Mistake("SMF-3b", {
                "z.max(-1, keepdims=True)": "z.max(-2, keepdims=True)",
                "p.sum(-1, keepdims=True)": "p.sum(-2, keepdims=True)"}),
            Mistake("SMF-3d", {
                "z.max(-1, keepdims=True)": "z.max(1, keepdims=True)",
                "p.sum(-1, keepdims=True)": "p.sum(1, keepdims=True)"}),
            Mistake("SMF-3c", {"p.sum(-1, keepdims=True)": "p.sum(0, keepdims=True)"}),
            Mistake("SMF-4", {"p.sum(-1, keepdims=True)": "p.sum()"}),
            Mistake("SMF-5", {"z.max(-1, keepdims=True)": "z.max(-1)", "p.sum(-1, keepdims=True)": "p.sum(-1)"}),
            Mistake("SMF-6", {"p.sum(-1, keepdims=True)": "np.exp(z).sum(-1, keepdims=True)"}),
            Mistake("SMF-7", {"z.max(-1, keepdims=True)": "z.mean(-1, keepdims=True)"}),
            Mistake("SMF-8", {
                "p = np.exp(z - z.max(-1, keepdims=True))": "z -= z.max(-1, keepdims=True)\n    p = np.exp(z)"}),
            Mistake("SMF-13", {
                "p / p.sum(-1, keepdims=True)": "z - z.max(-1, keepdims=True) - np.log(p.sum(-1, keepdims=True))"}),
            Mistake("SMF-14", {
                "np.exp(z - z.max(-1, keepdims=True))": "1 / (1 + np.exp(-z))",
                "p / p.sum(-1, keepdims=True)": "p"}),
            Mistake("SMF-17", {"z - z.max(-1, keepdims=True)": "np.clip(z, -700, 700)"}),
            Mistake("SMF-9b", {"np.exp(z - z.max(-1, keepdims=True))": "z"}),
            Mistake("SMF-18", {"z - z.max(-1, keepdims=True)": "z / z.max(-1, keepdims=True)"}),
        ),
        alternatives={"with the logarithm": {f"p / {SUM}": f"np.exp(z - {MAXIMUM} - np.log({SUM}))"}}),
    Exercise(
        "01.2", minutes=10, lines=1, single_row=True,
        number_sizes=("tiny", "mixed"),
        powers=({"dp": 3},),
        solution=softmax_backward, reference=by_softmax_backward, inputs=probabilities, outputs=("dz",),
        must_be_zero={"rows_dz_sum": lambda inputs, outputs: outputs[0].sum(-1)},
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
            Mistake("SMB-10", {"(p * dp).sum(-1, keepdims=True)": "p * dp.sum(-1, keepdims=True)"}),
            Mistake("SMB-11", {"(dp - (": "(dp + ("}),
            Mistake("SMB-18", {"p * (dp - ": "(p * dp - "}),
            Mistake("SMB-19", {"p * (dp - (p * dp).sum(-1, keepdims=True))": "(dp - p * dp.sum(-1, keepdims=True))"}),
            Mistake("SMB-20", {"p * (dp - ": "(dp - "}),
            Mistake("SMB-13", {
                "return p * (dp - (p * dp).sum(-1, keepdims=True))":
                    "dp -= (p * dp).sum(-1, keepdims=True)\n    return p * dp"}),
            Mistake("SMB-22a", {"p * (dp - (p * dp).sum(-1, keepdims=True))": "(np.diag(p) - np.outer(p, p)) @ dp"}),
        ),
        alternatives={"by the Jacobian": {f"p * (dp - {ROW_SUM})":
                      "p * dp - (p[..., :, None] * p[..., None, :] @ dp[..., None])[..., 0]"},
                      "by einsum": {ROW_SUM: "np.einsum('...i,...i->...', p, dp)[..., None]"}}),
]
