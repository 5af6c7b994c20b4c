"""Cross-entropy with label smoothing and ignored targets: the loss and its gradient."""

import numpy as np

from ...layers import CrossEntropyLoss
from ..exercise import Exercise, Mistake
from .softmax import MAXIMUM, OVERFLOW


def cross_entropy(logits, targets, smoothing, ignore_id):
    """The mean over the counted tokens of -sum_j q_j log p_j, with p = softmax of the token's logits.

    logits: (..., V), in the thousands too.
    targets: (...) integers, the right class of each token.
    smoothing: a number ε in [0, 1). q is 1 - ε at the right class, and ε is spread evenly over all V classes, the
        right one too, so that q sums to 1.
    ignore_id: tokens with this target are padding and do not count. It may be one of the classes, or none, such as -1.
        At least one token counts.
    Return loss: one number. log is the natural logarithm.
    """
    counted = targets != ignore_id
    z, y = logits[counted], targets[counted]
    z = z - z.max(-1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    right = logp[np.arange(len(y)), y]
    losses = -(1 - smoothing) * right - smoothing * logp.mean(-1)
    return losses.mean()


def cross_entropy_backward(logits, targets, smoothing, ignore_id):
    """The gradient of the loss of exercise 01.3, the mean over the counted tokens of -sum_j q_j log softmax(z)_j.

    logits: (..., V), in the thousands too.
    targets: (...) integers, the right class of each token.
    smoothing: a number ε in [0, 1). q is 1 - ε at the right class, and ε is spread evenly over all V classes, the
        right one too, so that q sums to 1.
    ignore_id: tokens with this target are padding and do not count. It may be one of the classes, or none, such as -1.
        At least one token counts.
    Return dlogits: (..., V), dL/dlogits, exactly 0 for tokens that do not count. For float32 logits it is float32:
        NumPy's own integers, such as the sum of a mask, would make float64 of it; divide by int(...) of them.
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


def tokens(rng, n):
    """Padding is class 0, and stands anywhere; every sequence has a token that counts, and classes repeat."""
    targets = np.where(rng.random(n.lead) < 0.3, 0, rng.integers(1, n.V, n.lead))
    targets[..., 1], targets[..., -1] = 0, n.V - 1
    return rng.standard_normal((*n.lead, n.V)), targets, round(float(rng.uniform(0.1, 0.4)), 3), 0


def sure(rng):
    """Padding that is no class, no smoothing, and logits of any size."""
    z, y = rng.standard_normal((5, 6)), np.array([3, 0, -1, 3, 4])
    z[np.arange(5), y] += np.array([2, -69, 0, 1, -60])
    far = z - 1000 * (np.arange(6) == y[:, None])
    padded = np.array([[3, -1, 0], [-1, 3, 3]])
    return [("the right token has p = 1e-30, no smoothing", (z, y, 0.0, -1)),
            ("the right logits lie 1000 below the others", (far, y, 0.0, -1)),
            ("rows far apart", (z + np.array([[0], [-1000], [0], [2000], [-3000]]), y, 0.2, -1)),
            ("padding is -1, no class", (rng.standard_normal((2, 3, 5)), padded, 0.3, -1))]


def by_loss(logits, targets, smoothing, ignore_id):
    return CrossEntropyLoss(smoothing, ignore_id)(logits, targets)


def by_loss_backward(logits, targets, smoothing, ignore_id):
    criterion = CrossEntropyLoss(smoothing, ignore_id)
    criterion(logits, targets)
    return criterion.backward()


def at_padding(inputs, outputs):
    return outputs[0][inputs[1] == inputs[3]]


TOTAL = "np.exp(z).sum(-1, keepdims=True)"
BY_SEQUENCE = """full = np.zeros(targets.shape)
    full[counted] = losses
    return (full.sum(-1) / counted.sum(-1)).mean()"""
AGAIN = "p * (p - q - (p * (p - q)).sum(-1, keepdims=True))"
ONE_MAXIMUM = "One maximum for the whole array: rows far below it become log(0) or 0 / 0. Each row has its own."
UNCOUNTED = "ignore_id is not used: padding takes part as if it were a token."
PER_ROW = "The index [:, y] takes every target's column in every row. One entry a row is wanted: row n, class y[n]."
TWICE = "Softmax is applied twice: the arguments are logits, and one softmax makes them probabilities."
SPREAD = "ε is spread over the V - 1 wrong classes: here all V share it, the right one too."
TOO_MUCH = "ε is added, but not taken from the right class: q sums to 1 + ε."
UNSMOOTHED = "smoothing is not used: the whole of q lies on the right class."

EXERCISES = [
    Exercise(
        "01.3", "Cross-entropy", minutes=20, lines=7,
        solution=cross_entropy, reference=by_loss, inputs=tokens, edges=sure, outputs=("loss",),
        hints=("The loss is a mean over tokens. Which tokens are in it, and which two numbers does each need of log p?",
               "log p_j = z_j - log(sum of exp(z)), with the row maximum subtracted first; p itself, which can become "
               "0, is never needed. The part with ε is a mean over the classes.",
               "losses = -(1 - ε) logp[np.arange(N), y] - ε logp.mean(-1) over the N counted rows; return their mean."),
        mistakes=(
            Mistake("CE-1", {"losses.mean()": "losses.sum()"}, "The losses are summed: the loss is their mean."),
            Mistake("CE-2", {"losses.mean()": "losses.sum() / len(targets)"},
                    "It is divided by the length of the first axis only: the mean is over all tokens that count."),
            Mistake("CE-3a", {"losses.mean()": "losses.sum() / z.shape[-1]"},
                    "It is divided by V, the number of classes: the mean is over tokens."),
            Mistake("CE-3b", {"losses.mean()": "losses.mean() / z.shape[-1]"},
                    "It is divided by N and by V: the mean is over tokens, not over the vocabulary."),
            Mistake("CE-4", {"losses.mean()": "-losses.mean()"},
                    "The sign is reversed: the logarithm of a probability is never positive, the loss never negative."),
            Mistake("CE-5", {"logp[np.arange(len(y)), y]": "logp[:, y].mean(-1)"}, PER_ROW),
            Mistake("CE-8", {f"z - {MAXIMUM}": f"np.exp(z - {MAXIMUM}) / np.exp(z - {MAXIMUM}).sum(-1, keepdims=True)"},
                    TWICE),
            Mistake("CE-9a", {f"z - np.log({TOTAL})": f"np.log2(np.exp(z) / {TOTAL})"},
                    "That is the logarithm to the base 2: the natural one is wanted."),
            Mistake("CE-9b", {f"z - np.log({TOTAL})": f"np.log10(np.exp(z) / {TOTAL})"},
                    "That is the logarithm to the base 10: the natural one is wanted."),
            Mistake("CE-9c", {"np.log(": "np.log2("},
                    "The sum's logarithm is to the base 2: only the natural one undoes exp."),
            Mistake("CE-10a", {f"z - np.log({TOTAL})": f"np.log(np.exp(z) / {TOTAL} + 1e-9)"},
                    "1e-9 is added to p: the loss stops at 20.7 however wrong the model is. Compute log p without p."),
            Mistake("CE-10b", {f"z - np.log({TOTAL})": f"np.log(np.exp(z) / {TOTAL})"},
                    "p is computed first and its logarithm then: a small p becomes 0, and the loss inf. Compute log p "
                    "from the logits."),
            Mistake("CE-11a", {"losses.mean()": "losses.sum() / targets.size"},
                    "N counts the padding: divide by the number of tokens that count."),
            Mistake("CE-11b", {"targets != ignore_id": "np.ones(targets.shape, bool)"}, UNCOUNTED),
            Mistake("CE-11c", {"targets != ignore_id": "targets == ignore_id"},
                    "The comparison is reversed: the mean is over the padding."),
            Mistake("CE-12a", {"logp.mean(-1)": "(logp.sum(-1) - right) / (z.shape[-1] - 1)"}, SPREAD),
            Mistake("CE-12b", {"(1 - smoothing) * right": "right"}, TOO_MUCH),
            Mistake("CE-12c", {"logp.mean(": "logp.sum("},
                    "Every class gets the whole ε: they share it, so that q sums to 1."),
            Mistake("CE-12d", {"(1 - smoothing) * right - smoothing * logp.mean(-1)": "right"}, UNSMOOTHED),
            Mistake("CE-12f", {" - smoothing * logp.mean(-1)": ""},
                    "Only the right class has its share of q. The ε that was taken from it is spread over all classes: "
                    "their log p belong to the loss too."),
            Mistake("CE-13", {"return losses.mean()": BY_SEQUENCE},
                    "Each sequence is averaged first, then the sequences: tokens of short ones weigh more. All tokens "
                    "that count weigh the same."),
            Mistake("SMF-1", {f" - {MAXIMUM}": ""}, OVERFLOW),
            Mistake("SMF-2", {MAXIMUM: "z.max()"}, ONE_MAXIMUM),
            Mistake("SMF-3", {f"z - {MAXIMUM}": "z - z.max(0)", TOTAL: "np.exp(z).sum(0)"},
                    "Softmax runs over the tokens: each token's probabilities, along the last axis, sum to 1."),
        ),
        alternatives={
            "without a shift of one's own": {f"z - np.log({TOTAL})": "z - np.logaddexp.reduce(z, -1, keepdims=True)"},
            "with the whole q": {
                "right = logp[np.arange(len(y)), y]":
                "q = np.full_like(logp, smoothing / z.shape[-1])\n    q[np.arange(len(y)), y] += 1 - smoothing",
                "-(1 - smoothing) * right - smoothing * logp.mean(-1)": "-(q * logp).sum(-1)"}}),
    Exercise(
        "01.4", "Cross-entropy, backward", minutes=20, lines=9,
        solution=cross_entropy_backward, reference=by_loss_backward, inputs=tokens, edges=sure, outputs=("dlogits",),
        invariants=(("rows of dlogits must sum to 0", lambda inputs, outputs: outputs[0].sum(-1)),
                    ("rows of ignored targets must be 0", at_padding)),
        hints=("Raise one logit a little: which probabilities of its row change? For which p would the gradient be 0?",
               "Softmax's backward of dp = -q / p is short: the division by p cancels. The gradient is 0 where p = q.",
               "For each of the N tokens that count, dz = (p - q) / N; all other rows stay 0."),
        mistakes=(
            Mistake("CE-1", {"(p - q) / len(y)": "p - q"}, "The loss is a mean, so its gradient carries 1 / N."),
            Mistake("CE-2", {"/ len(y)": "/ len(targets)"},
                    "It is divided by the length of the first axis only: N is the number of all tokens that count."),
            Mistake("CE-3a", {"/ len(y)": "/ z.shape[-1]"},
                    "It is divided by V, the number of classes: the mean is over tokens."),
            Mistake("CE-3b", {"/ len(y)": "/ p.size"},
                    "It is divided by N and by V: the mean is over tokens, not over the vocabulary."),
            Mistake("CE-4", {"(p - q)": "(q - p)"},
                    "The sign is reversed: a logit whose class has too much probability has a positive gradient."),
            Mistake("CE-5", {"q[np.arange(len(y)), y]": "q[:, y]"}, PER_ROW),
            Mistake("CE-6", {"(p - q)": "(-q / p)"},
                    "That is the gradient of the probabilities: it must still go through softmax to the logits."),
            Mistake("CE-7", {"(p - q)": AGAIN},
                    "The gradient goes through softmax's backward twice: p - q has its Jacobian in it already."),
            Mistake("CE-8", {"q = np": "p = np.exp(p) / np.exp(p).sum(-1, keepdims=True)\n    q = np"}, TWICE),
            Mistake("CE-11a", {"/ len(y)": "/ targets.size"},
                    "N counts the padding: divide by the number of tokens that count."),
            Mistake("CE-11b", {"targets != ignore_id": "np.ones(targets.shape, bool)"}, UNCOUNTED),
            Mistake("CE-11c", {"targets != ignore_id": "np.ones(targets.shape, bool)",
                               "/ len(y)": "/ int((targets != ignore_id).sum())"},
                    "N is right, but the padding gets a gradient too: its rows must be 0."),
            Mistake("CE-12a", {"z.shape[-1])": "(z.shape[-1] - 1))", "+= 1 - smoothing": "= 1 - smoothing"}, SPREAD),
            Mistake("CE-12b", {"+= 1 - smoothing": "+= 1"}, TOO_MUCH),
            Mistake("CE-12c", {"smoothing / z.shape[-1]": "smoothing"},
                    "Every class gets the whole ε: they share it, so that q sums to 1."),
            Mistake("CE-12d", {"smoothing / z.shape[-1]": "0", "+= 1 - smoothing": "= 1"}, UNSMOOTHED),
            Mistake("CE-12e", {"+= 1 - smoothing": "= 1 - smoothing"},
                    "The right class has lost its own share of ε: all V classes have one, and q must sum to 1."),
            Mistake("SMF-1", {f" - {MAXIMUM}": ""}, OVERFLOW),
            Mistake("SMF-2", {MAXIMUM: "z.max()"}, ONE_MAXIMUM),
            Mistake("SMF-3", {MAXIMUM: "z.max(0)", "p.sum(-1, keepdims=True)": "p.sum(0)"},
                    "Softmax runs over the tokens: each token's probabilities, along the last axis, sum to 1."),
        ),
        alternatives={
            "one-hot rows": {"q[np.arange(len(y)), y] += 1 - smoothing":
                             "q += (1 - smoothing) * np.eye(z.shape[-1], dtype=p.dtype)[y]"},
            "through softmax": {"(p - q)": "-(q - p * q.sum(-1, keepdims=True))"}}),
]
