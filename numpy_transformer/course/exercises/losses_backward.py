"""Cross-entropy with label smoothing and ignored targets: the gradient of the loss."""

import numpy as np

from ...layers import CrossEntropyLoss
from .definition import Exercise, Mistake
from .losses import edge_cases, tokens


def cross_entropy_backward(logits, targets, smoothing, ignore_id):
    counted = targets != ignore_id
    z, y = logits[counted], targets[counted]
    p = np.exp(z - z.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    q = np.full_like(p, smoothing / z.shape[-1])
    q[np.arange(len(y)), y] += 1 - smoothing
    dlogits = np.zeros_like(logits)
    dlogits[counted] = (p - q) / len(y)
    return dlogits


def by_loss_backward(logits, targets, smoothing, ignore_id):
    criterion = CrossEntropyLoss(smoothing, ignore_id)
    criterion(logits, targets)
    return criterion.backward()


def at_padding(inputs, outputs):
    return outputs[0][inputs[1] == inputs[3]]


ONE_HOT = "q[np.arange(len(y)), y] += 1 - smoothing"
EQUAL_HOT = "q += (1 - smoothing) * (np.arange(z.shape[-1]) == y[:, None])"


EXERCISES = [
    Exercise(
        "01.4", minutes=20, lines=9,
        solution=cross_entropy_backward, reference=by_loss_backward, inputs=tokens, edges=edge_cases,
        further_edges=("padding_100_not",),
        outputs=("dlogits",),
        must_be_zero={"rows_dlogits_sum": lambda inputs, outputs: outputs[0].sum(-1),
                      "rows_ignored_targets": at_padding},
        mistakes=(
            Mistake("CE-1", {"(p - q) / len(y)": "p - q"}),
            Mistake("CE-2", {"/ len(y)": "/ len(targets)"}),
            Mistake("CE-3a", {"/ len(y)": "/ z.shape[-1]"}),
            Mistake("CE-3b", {"/ len(y)": "/ p.size"}),
            Mistake("CE-4", {"(p - q)": "(q - p)"}),
            Mistake("CE-5", {"q[np.arange(len(y)), y]": "q[:, y]"}),
            Mistake("CE-6", {"(p - q)": "(-q / p)"}),
            Mistake("CE-7", {"(p - q)": "p * (p - q - (p * (p - q)).sum(-1, keepdims=True))"}),
            Mistake("CE-8", {"q = np": "p = np.exp(p) / np.exp(p).sum(-1, keepdims=True)\n    q = np"}),
            Mistake("CE-11a", {"/ len(y)": "/ targets.size"}),
            Mistake("CE-11b", {"targets != ignore_id": "np.ones(targets.shape, bool)"}),
            Mistake("CE-11f", {"targets != ignore_id": "np.ones(targets.shape, bool)", ONE_HOT: EQUAL_HOT,
                               "/ len(y)": "/ int((targets != ignore_id).sum())"}),
            Mistake("CE-11g", {"targets != ignore_id": "np.ones(targets.shape, bool)", ONE_HOT: EQUAL_HOT}),
            Mistake("CE-12a", {"z.shape[-1])": "(z.shape[-1] - 1))", "+= 1 - smoothing": "= 1 - smoothing"}),
            Mistake("CE-12b", {"+= 1 - smoothing": "+= 1"}),
            Mistake("CE-12c", {"smoothing / z.shape[-1]": "smoothing"}),
            Mistake("CE-12d", {"smoothing / z.shape[-1]": "0", "+= 1 - smoothing": "= 1"}),
            Mistake("CE-12e", {"+= 1 - smoothing": "= 1 - smoothing"}),
            Mistake("SMF-1", {" - z.max(-1, keepdims=True)": ""}),
            Mistake("SMF-2", {"z.max(-1, keepdims=True)": "z.max()"}),
            Mistake("SMF-3", {"z.max(-1, keepdims=True)": "z.max(0)", "p.sum(-1, keepdims=True)": "p.sum(0)"}),
            Mistake("SMF-12", {"    p = p / p.sum(-1, keepdims=True)\n": ""}),
            Mistake("CE-11e", {"targets != ignore_id": "targets >= 0"}),
            Mistake("CE-12i", {"smoothing / z.shape[-1]": "0"}),
            Mistake("CE-12h", {
                "smoothing / z.shape[-1]": "(1 - smoothing) / z.shape[-1]",
                "+= 1 - smoothing": "+= smoothing"}),
            Mistake("CE-17", {
                "logits[counted], targets[counted]": "logits, targets",
                "dlogits[counted] = (p - q) / len(y)": "dlogits = (p - q) * counted[..., None] / counted.sum()"}),
            Mistake("CE-21", {"(p - q)": "-q"}),
        ),
        alternatives={
            "one-hot rows": {"q[np.arange(len(y)), y] += 1 - smoothing":
                             "q += (1 - smoothing) * np.eye(z.shape[-1], dtype=p.dtype)[y]"},
            "through softmax": {"(p - q)": "-(q - p * q.sum(-1, keepdims=True))"}}),
]
