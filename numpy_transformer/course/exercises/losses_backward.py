"""Cross-entropy with label smoothing and ignored targets: the gradient of the loss."""

import numpy as np

from ...layers import CrossEntropyLoss
from .definition import Exercise, Mistake
from .losses import (ALL_SHARE, COLUMNS, CONSTANT_PADDING, FIRST_AXIS_ONLY, ONE_MAXIMUM, PER_ROW, SEPARATE_MAXIMUM,
                     SPREAD, SWAPPED, TOO_MUCH, TWICE, UNCOUNTED, UNSMOOTHED, edge_cases, tokens)
from .softmax import MAXIMUM, OVERFLOW


def cross_entropy_backward(logits, targets, smoothing, ignore_id):
    """Computes the gradient of the loss of exercise 01.3, the mean of -sum_j q_j log softmax(z)_j over counted tokens.

    logits: (..., V); they may be in the thousands.
    targets: (...), integers, the correct class of each token.
    smoothing: a number ε with 0 <= ε < 1. To obtain q, the correct class gets 1 - ε, and then ε is spread evenly over
        all V classes, including the correct one, so that q sums to 1.
    ignore_id: tokens with this target are padding and are not counted. It may be one of the classes, or another number
        such as -1. At least one token is counted.
    Return dlogits: (..., V), dL/dlogits, exactly 0 for tokens that are not counted. If the logits are float32, so is
        dlogits. Dividing float32 by a NumPy integer, such as the sum of a mask, gives float64; convert it with int().
    """
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


AGAIN = "p * (p - q - (p * (p - q)).sum(-1, keepdims=True))"

EXERCISES = [
    Exercise(
        "01.4", "Cross-entropy, backward", minutes=20, lines=9,
        solution=cross_entropy_backward, reference=by_loss_backward, inputs=tokens, edges=edge_cases,
        outputs=("dlogits",),
        invariants=(("rows of dlogits must sum to 0", lambda inputs, outputs: outputs[0].sum(-1)),
                    ("rows of ignored targets must be 0", at_padding)),
        hints=("Suppose you raise one logit a little. Which probabilities of its row change? For which p would the "
               "gradient be 0?",
               "Substitute dp = -q / p into softmax's backward. The division by p cancels, and little remains. The "
               "gradient is 0 where p = q.",
               "For each of the N counted tokens, dz = (p - q) / N; all other rows stay 0."),
        mistakes=(
            Mistake("CE-1", {"(p - q) / len(y)": "p - q"},
                    "The factor 1 / N is missing: the loss is a mean over N tokens, so its gradient contains 1 / N."),
            Mistake("CE-2", {"/ len(y)": "/ len(targets)"},
                    "You divide by the length of the first axis only. N is the number of all counted tokens."),
            Mistake("CE-3a", {"/ len(y)": "/ z.shape[-1]"},
                    "You divide by V, the number of classes. The mean is over tokens."),
            Mistake("CE-3b", {"/ len(y)": "/ p.size"},
                    "You divide by N and also by V. The mean is over tokens, not over the vocabulary."),
            Mistake("CE-4", {"(p - q)": "(q - p)"},
                    "Your gradient has the wrong sign. A logit whose class has too much probability has a positive "
                    "gradient."),
            Mistake("CE-5", {"q[np.arange(len(y)), y]": "q[:, y]"}, PER_ROW),
            Mistake("CE-6", {"(p - q)": "(-q / p)"},
                    "This is the gradient of the probabilities. It must still pass through softmax to the logits."),
            Mistake("CE-7", {"(p - q)": AGAIN},
                    "You apply softmax's backward to a gradient that is already that of the logits. It must be applied "
                    "only once."),
            Mistake("CE-8", {"q = np": "p = np.exp(p) / np.exp(p).sum(-1, keepdims=True)\n    q = np"}, TWICE),
            Mistake("CE-11a", {"/ len(y)": "/ targets.size"},
                    "Your N includes the padding. Divide by the number of counted tokens."),
            Mistake("CE-11b", {"targets != ignore_id": "np.ones(targets.shape, bool)"}, UNCOUNTED),
            Mistake("CE-11c", {"targets != ignore_id": "np.ones(targets.shape, bool)",
                               "/ len(y)": "/ int((targets != ignore_id).sum())"},
                    "Your N is correct, but padding gets a gradient too. Its rows must be 0."),
            Mistake("CE-12a", {"z.shape[-1])": "(z.shape[-1] - 1))", "+= 1 - smoothing": "= 1 - smoothing"}, SPREAD),
            Mistake("CE-12b", {"+= 1 - smoothing": "+= 1"}, TOO_MUCH),
            Mistake("CE-12c", {"smoothing / z.shape[-1]": "smoothing"},
                    "You give each class the whole ε. The classes share it, so that q sums to 1."),
            Mistake("CE-12d", {"smoothing / z.shape[-1]": "0", "+= 1 - smoothing": "= 1"}, UNSMOOTHED),
            Mistake("CE-12e", {"+= 1 - smoothing": "= 1 - smoothing"},
                    "The correct class has lost its own share of ε. All V classes have one, and q must sum to 1."),
            Mistake("SMF-1", {f" - {MAXIMUM}": ""}, OVERFLOW),
            Mistake("SMF-2", {MAXIMUM: "z.max()"}, ONE_MAXIMUM),
            Mistake("SMF-3", {MAXIMUM: "z.max(0)", "p.sum(-1, keepdims=True)": "p.sum(0)"},
                    "Your softmax normalizes over the tokens. The probabilities of each token, along the last axis, "
                    "must sum to 1."),
            Mistake("SMF-2b", {MAXIMUM: "z.max(0, keepdims=True)"}, COLUMNS),
            Mistake("SMF-7", {MAXIMUM: "z.mean(-1, keepdims=True)"}, SEPARATE_MAXIMUM),
            Mistake("SMF-5", {"p.sum(-1, keepdims=True)": "p.sum(-1)"},
                    "You sum each row without keepdims=True. The result has lost the last axis, so NumPy no longer "
                    "aligns it with the rows."),
            Mistake("SMF-12", {"    p = p / p.sum(-1, keepdims=True)\n": ""},
                    "You do not divide by the sums of the rows, so the probabilities of a token do not sum to 1."),
            Mistake("CE-11d", {"targets != ignore_id": "targets != 0"}, CONSTANT_PADDING),
            Mistake("CE-11e", {"targets != ignore_id": "targets >= 0"}, CONSTANT_PADDING),
            Mistake("CE-12f", {"smoothing / z.shape[-1]": "0"},
                    "Only the correct class is in your q. The ε that was taken from it is spread over all classes."),
            Mistake("CE-12h", {
                    "smoothing / z.shape[-1]": "(1 - smoothing) / z.shape[-1]", "+= 1 - smoothing": "+= smoothing"},
                    SWAPPED),
            Mistake("CE-12i", {"z.shape[-1])": "(z.shape[-1] - 1))"}, ALL_SHARE),
            Mistake("CE-13", {
                    "(p - q) / len(y)":
                    "(p - q) / np.broadcast_to(counted.sum(-1, keepdims=True), targets.shape)[counted][:, None] / "
                    "counted[..., 0].size"},
                    "You average each sequence first and then the sequences, so tokens of short sequences weigh "
                    "more. All counted tokens must have the same weight."),
            Mistake("CE-13b", {
                    "(p - q) / len(y)":
                    "(p - q) / np.broadcast_to(counted.sum(-1, keepdims=True), targets.shape)[counted][:, None]"},
                    "You divide by the number of counted tokens of each sequence. N is the number of counted tokens "
                    "of the whole batch."),
            Mistake("CE-18", {"(p - q)": "p * (p - q)"},
                    "You multiply by the probabilities once too often. That factor of softmax's backward cancels with "
                    "the derivative of the logarithm."),
            Mistake("CE-19", {"(p - q)": "(z - q)"},
                    "You subtract q from the logits. The gradient compares two distributions, so the logits must "
                    "pass through softmax first."),
            Mistake("CE-17", {
                    "logits[counted], targets[counted]": "logits, targets",
                    "dlogits[counted] = (p - q) / len(y)": "dlogits = (p - q) * counted[..., None] / counted.sum()"},
                    FIRST_AXIS_ONLY),
            Mistake("CE-20", {"return dlogits": "return dlogits[counted]"},
                    "Your gradient has rows only for the counted tokens. It must have the shape of logits, with "
                    "zeros for the others."),
            Mistake("CE-12k", {"(p - q)": "(1 - smoothing) * (p - np.eye(z.shape[-1])[y])"},
                    "You scale the whole gradient by 1 - ε. Only the target distribution q is smoothed; the "
                    "probabilities keep their factor 1."),
            Mistake("CE-21", {"(p - q)": "-q"},
                    "Your gradient contains only the target. It must be 0 when the probabilities have become equal "
                    "to q."),
            Mistake("CE-22", {"(p - q)": "p"},
                    "Your gradient does not depend on the targets. It must be 0 when the probabilities have become "
                    "equal to q."),
            Mistake("CE-23", {"q[np.arange(len(y)), y]": "q[y]"},
                    "Your index selects whole rows by the numbers of the classes. You need one entry in each row, "
                    "that of the target."),
        ),
        alternatives={
            "one-hot rows": {"q[np.arange(len(y)), y] += 1 - smoothing":
                             "q += (1 - smoothing) * np.eye(z.shape[-1], dtype=p.dtype)[y]"},
            "through softmax": {"(p - q)": "-(q - p * q.sum(-1, keepdims=True))"}}),
]
