"""Binary cross-entropy, the loss of a yes-or-no question, and its backward pass."""


import numpy as np

from ...layers import BinaryCrossEntropyLoss
from .definition import Exercise, Mistake


def binary_cross_entropy(logits, targets):
    softplus = np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))
    return (softplus - targets * logits).mean()


def binary_cross_entropy_backward(logits, targets):
    p = (1 + np.tanh(logits / 2)) / 2
    return (p - targets) / logits.size


def questions(rng, n):
    certain = rng.integers(0, 2, n.lead).astype(float)
    return 2 * rng.standard_normal(n.lead), np.where(rng.random(n.lead) < 0.3, rng.random(n.lead), certain)


def confident(rng):
    """The logits are at least as large as these: exp(40) + 1 is exp(40) in float64, and exp(710) overflows."""
    cases = [("confident_right", [40.0, -40, 2000, -2000, 1.5], [1.0, 0, 1, 0, 1]),
             ("confident_wrong_large_negative", [[-3000, 0.5], [1, -900]], [[1.0, 1], [0.25, 1]]),
             ("confident_wrong_large", [[3000, 0.5, -1]], [[0.0, 0, 0.75]]),
             ("logits_could_probabilities", [[0.1, 0.6, 0.3], [0.7, 0.2, 0.5]], [[0.0, 1, 0.2], [0, 1, 1]])]
    return [(note, (logits * rng.uniform(1, 1.3, np.shape(logits)), np.array(targets)))
            for note, logits, targets in cases]


def by_loss_backward(logits, targets):
    criterion = BinaryCrossEntropyLoss()
    criterion(logits, targets)
    return criterion.backward()


SOFTPLUS = "np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))"
LOSSES = "(softplus - targets * logits)"
SIGMOID = "(1 + np.tanh(logits / 2)) / 2"


EXERCISES = [
    Exercise(
        "11.3", minutes=15, lines=2,
        solution=binary_cross_entropy, reference=lambda logits, targets: BinaryCrossEntropyLoss()(logits, targets),
        inputs=questions, edges=confident, outputs=("loss",), mistakes=(
            Mistake("BCE-1", {".mean()": ".sum()"}),
            Mistake("BCE-3", {
                "softplus = np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))":
                    "p = 1 / (1 + np.exp(-logits))",
                "(softplus - targets * logits)": "(-(targets * np.log(p) + (1 - targets) * np.log(1 - p)))"}),
            Mistake("BCE-4b", {
                "softplus = np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))":
                    "p = 1 / (1 + np.exp(-logits))\n    p = np.clip(p, 1e-07, 1 - 1e-07)",
                "(softplus - targets * logits)": "(-(targets * np.log(p) + (1 - targets) * np.log(1 - p)))"}),
            *(Mistake(name, {
                "softplus = np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))":
                    f"p = 1 / (1 + np.exp(-logits))\n    p = np.clip(p, {least}, 1 - {least})",
                "(softplus - targets * logits)": "(-(targets * np.log(p) + (1 - targets) * np.log(1 - p)))"})
              for name, least in (("BCE-4c", "1e-12"), ("BCE-4d", "1e-15"))),
            Mistake("BCE-4i", {
                "softplus = np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))":
                    "p = 1 / (1 + np.exp(-logits))",
                "(softplus - targets * logits)":
                    "(-(targets * np.log(p + 1e-12) + (1 - targets) * np.log(1 - p + 1e-12)))"}),
            Mistake("BCE-8", {"(softplus - targets * logits)": "(targets * (softplus - logits))"}),
            Mistake("BCE-12", {"np.exp(-np.abs(logits))": "np.exp(-logits)"}),
            Mistake("BCE-13", {"np.maximum(logits, 0) + ": ""}),
            Mistake("BCE-15", {" + np.log1p(np.exp(-np.abs(logits)))": ""}),
            Mistake("BCE-15b", {"np.log1p(np.exp(-np.abs(logits)))": "np.exp(-np.abs(logits))"}),
            Mistake("BCE-16", {"(softplus - targets * logits)": "np.logaddexp(0, -targets * logits)"}),
            Mistake("BCE-22", {"targets * logits": "(1 - targets) * logits"}),
            Mistake("BCE-23", {".mean()": ".mean() / np.log(2)"}),
            Mistake("BCE-18", {"softplus - targets": "softplus + targets"}),
            Mistake("BCE-21", {" - targets * logits": ""}),
            Mistake("BCE-5b", {
                "(softplus - targets * logits)": "(np.log1p(np.exp(-logits)) + (1 - targets) * logits)"}),
            Mistake("BCE-9b", {".mean()": ".mean(-1)"}),
            Mistake("BCE-17b", {
                "(softplus - targets * logits)": "np.where(targets == 1, softplus - logits, softplus)"}),
        ),
        must_be_zero={"loss_not_negative": lambda inputs, outputs: np.minimum(outputs[0], 0)},
        alternatives={"logaddexp": {SOFTPLUS: "np.logaddexp(0, logits)"},
                      "two logarithms": {LOSSES: "(targets * np.logaddexp(0, -logits) + (1 - targets) * "
                                                 "np.logaddexp(0, logits))"},
                      "two branches": {SOFTPLUS: "np.where(logits > 0, logits + np.log1p(np.exp(-abs(logits))), "
                                                 "np.log1p(np.exp(-abs(logits))))"}}),
    Exercise(
        "11.4", minutes=10, lines=2,
        solution=binary_cross_entropy_backward, reference=by_loss_backward, inputs=questions, edges=confident,
        outputs=("dlogits",), mistakes=(
            Mistake("BCB-1", {" / logits.size": ""}),
            Mistake("BCB-2", {"logits.size": "len(logits)"}),
            Mistake("BCB-3", {"p - targets": "targets - p"}),
            Mistake("BCB-4", {"return (": "return p * (1 - p) * ("}),
            Mistake("BCB-5", {
                "(1 + np.tanh(logits / 2)) / 2": "1 / (1 + np.exp(-logits))",
                "(p - targets)": "(p - targets) / (p * (1 - p))"}),
            Mistake("BCB-6", {"(1 + np.tanh(logits / 2)) / 2": "np.exp(logits) / (1 + np.exp(logits))"}),
            Mistake("BCB-7", {
                "(1 + np.tanh(logits / 2)) / 2":
                    "np.exp(logits - logits.max(-1, keepdims=True))\n    p = p / p.sum(-1, keepdims=True)"}),
            Mistake("BCB-8", {"(1 + np.tanh(logits / 2)) / 2": "logits"}),
            Mistake("BCB-9", {"p - targets": "p - (1 - targets)"}),
            Mistake("BCB-11", {"(p - targets)": "targets * (p - 1)"}),
            Mistake("BCB-13", {"logits / 2": "logits"}),
            Mistake("BCB-15", {"(1 + np.tanh(logits / 2)) / 2": "np.tanh(logits / 2)"}),
            Mistake("BCB-15b", {"(1 + np.tanh(logits / 2)) / 2": "np.tanh(logits)"}),
            Mistake("BCB-16", {
                "    p = (1 + np.tanh(logits / 2)) / 2": "    logits /= 2\n    p = (1 + np.tanh(logits)) / 2"}),
            Mistake("BCB-13b", {"(1 + np.tanh(logits / 2)) / 2": "1 + np.tanh(logits / 2)"}),
            Mistake("BCB-17", {"(1 + np.tanh(logits / 2)) / 2": "1 / (1 + np.exp(logits))"}),
        ),
        must_be_zero={"no_entry_dlogits": lambda inputs, outputs: np.maximum(abs(outputs[0]) * outputs[0].size - 1, 0)},
        alternatives={"exp, which overflows where p is 0": {SIGMOID: "1 / (1 + np.exp(-logits))"},
                      "two branches": {SIGMOID: "np.where(logits > 0, 1, np.exp(-abs(logits))) / "
                                                "(1 + np.exp(-abs(logits)))"}}),
]
