"""Cross-entropy with label smoothing and ignored targets: the loss and its gradient."""

import numpy as np

from ...layers import CrossEntropyLoss
from ..exercise import Exercise, Mistake
from .softmax import MAXIMUM, OVERFLOW


def cross_entropy(logits, targets, smoothing, ignore_id):
    """Computes the cross-entropy with label smoothing: the mean of -sum_j q_j log p_j over the counted tokens.

    p is the softmax of a token's logits, and q is its smoothed target distribution. log is the natural logarithm.

    logits: (..., V); they may be in the thousands.
    targets: (...), integers, the correct class of each token.
    smoothing: a number ε with 0 <= ε < 1. To obtain q, the correct class gets 1 - ε, and then ε is spread evenly over
        all V classes, including the correct one, so that q sums to 1.
    ignore_id: tokens with this target are padding and are not counted. It may be one of the classes, or another number
        such as -1. At least one token is counted.
    Return loss: one number.
    """
    counted = targets != ignore_id
    z, y = logits[counted], targets[counted]
    z = z - z.max(-1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    right = logp[np.arange(len(y)), y]
    losses = -(1 - smoothing) * right - smoothing * logp.mean(-1)
    return losses.mean()


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


def tokens(rng, n):
    """Padding is class 0 and occurs anywhere. Every sequence has a token that counts, and classes repeat."""
    targets = np.where(rng.random(n.lead) < 0.3, 0, rng.integers(1, n.V, n.lead))
    targets[..., 1], targets[..., -1] = 0, n.V - 1
    return rng.standard_normal((*n.lead, n.V)), targets, round(float(rng.uniform(0.1, 0.4)), 3), 0


def edge_cases(rng):
    """Padding that is not one of the classes, no smoothing, and logits of any size."""
    ordinary, y = rng.standard_normal((5, 6)), np.array([3, 0, -1, 3, 4])
    z = ordinary.copy()
    z[np.arange(5), y] += np.array([2, -69, 0, 1, -60])
    far = z - 1000 * (np.arange(6) == y[:, None])
    inner = np.array([3, 0, 5, 3, 4])           # on both sides of the ignored class
    near = z + 3000 * (np.arange(6) == inner[:, None])
    apart = np.array([[0], [-1000], [0], [2000], [-3000]]) + 720 * np.eye(5, 6)
    padded = np.array([[3, -1, 0], [-1, 3, 3]])
    return [("the correct token has p = 1e-30, no smoothing", (z, y, 0.0, -1)),
            ("the correct logits are 1000 below the others", (far, y, 0.0, -1)),
            ("rows far apart, in each of them one logit 720 above", (ordinary + apart, y, 0.2, -1)),
            ("padding is class 4, and the correct logits are 3000 above the others", (near, inner, 0.2, 4)),
            ("padding is -1, which is not a class", (rng.standard_normal((2, 3, 5)), padded, 0.3, -1))]


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
ONE_MAXIMUM = ("You subtract one maximum for the whole array, so rows far below it become log(0) or 0 / 0. Each row "
               "needs its own maximum.")
UNCOUNTED = "Your code does not use ignore_id, so padding takes part in the loss like any other token."
SEPARATE_MAXIMUM = ("You subtract something other than the row's maximum. A logit far above that number still "
                    "overflows. After the shift, no logit may exceed 0.")
CONSTANT_PADDING = ("You assume which target marks padding. It is an argument, ignore_id, which may be one of the "
                    "classes or another number.")
COLUMNS = ("You subtract the maximum over the tokens. A token whose logits are far below it becomes log(0) or 0 / 0. "
           "Each token needs its own maximum.")
ALL_SHARE = ("Your q sums to more than 1. The ε that the correct class loses is what all V classes share, so each of "
             "them gets ε / V.")
SWAPPED = ("You have swapped ε and 1 - ε: the correct class gets the small share, and all classes together get the "
           "large one.")
FIRST_AXIS_ONLY = ("np.arange(len(targets)) counts along the first axis only, so this index works only if targets has "
                   "one axis. The tokens may have any number of leading axes.")
LIMITED = ("You limit p from below by a small number, so the loss cannot exceed the limit's logarithm, however wrong "
           "the model is. Compute log p without computing p.")
FIRST_P = ("You compute p first and then take its logarithm. A small p becomes 0, and the loss infinite. "
           "Compute log p directly from the logits.")
PER_ROW = ("An index such as [:, targets] selects the columns of all targets in every row. You need one entry per row, "
           "that of its own target.")
TWICE = ("You apply softmax twice. The arguments are logits, which a single softmax turns into probabilities.")
SPREAD = ("You spread ε over the V - 1 wrong classes. In this exercise all V classes share it, including the correct "
          "one.")
TOO_MUCH = "You add ε to the classes without taking it from the correct one, so q sums to 1 + ε."
UNSMOOTHED = "Your code does not use smoothing: q is 1 at the correct class and 0 elsewhere."

EXERCISES = [
    Exercise(
        "01.3", "Cross-entropy", minutes=20, lines=7,
        solution=cross_entropy, reference=by_loss, inputs=tokens, edges=edge_cases, outputs=("loss",),
        hints=("The loss is a mean over tokens. Which tokens does it count, and which two numbers does it need from "
               "the log p of each of them?",
               "Subtract the maximum of each row first; then log p_j = z_j - log(sum of exp(z)). You never need p "
               "itself, which can underflow to 0. The term with ε is a mean over the classes.",
               "losses = -(1 - ε) logp[np.arange(N), y] - ε logp.mean(-1) over the N counted rows; return their mean."),
        mistakes=(
            Mistake("CE-1", {"losses.mean()": "losses.sum()"},
                    "You add up the losses of the tokens. The loss is their mean."),
            Mistake("CE-2", {"losses.mean()": "losses.sum() / len(targets)"},
                    "You divide by the length of the first axis only. The mean is over all counted tokens."),
            Mistake("CE-3a", {"losses.mean()": "losses.sum() / z.shape[-1]"},
                    "You divide by V, the number of classes. The mean is over tokens."),
            Mistake("CE-3b", {"losses.mean()": "losses.mean() / z.shape[-1]"},
                    "You divide by N and also by V. The mean is over tokens, not over the vocabulary."),
            Mistake("CE-4", {"losses.mean()": "-losses.mean()"},
                    "Your loss has the wrong sign. The logarithm of a probability is never positive, so the loss is "
                    "never negative."),
            Mistake("CE-5", {"logp[np.arange(len(y)), y]": "logp[:, y].mean(-1)"}, PER_ROW),
            Mistake("CE-8", {f"z - {MAXIMUM}": f"np.exp(z - {MAXIMUM}) / np.exp(z - {MAXIMUM}).sum(-1, keepdims=True)"},
                    TWICE),
            Mistake("CE-9a", {f"z - np.log({TOTAL})": f"np.log2(np.exp(z) / {TOTAL})"},
                    "You use the logarithm to base 2. The loss is defined with the natural logarithm."),
            Mistake("CE-9b", {f"z - np.log({TOTAL})": f"np.log10(np.exp(z) / {TOTAL})"},
                    "You use the logarithm to base 10. The loss is defined with the natural logarithm."),
            Mistake("CE-9c", {"np.log(": "np.log2("},
                    "You take the logarithm of the sum to base 2. Only the natural logarithm is the inverse of exp."),
            Mistake("CE-10a", {f"z - np.log({TOTAL})": f"np.log(np.exp(z) / {TOTAL} + 1e-9)"},
                    "You add 1e-9 to p, so the loss never exceeds 20.7 however wrong the model is. Compute log p "
                    "without computing p."),
            Mistake("CE-10b", {f"z - np.log({TOTAL})": f"np.log(np.exp(z) / {TOTAL})"},
                    FIRST_P),
            Mistake("CE-11a", {"losses.mean()": "losses.sum() / targets.size"},
                    "Your N includes the padding. Divide by the number of counted tokens."),
            Mistake("CE-11b", {"targets != ignore_id": "np.ones(targets.shape, bool)"}, UNCOUNTED),
            Mistake("CE-11c", {"targets != ignore_id": "targets == ignore_id"},
                    "Your comparison with ignore_id is reversed, so the mean is over the padding."),
            Mistake("CE-12a", {"logp.mean(-1)": "(logp.sum(-1) - right) / (z.shape[-1] - 1)"}, SPREAD),
            Mistake("CE-12b", {"(1 - smoothing) * right": "right"}, TOO_MUCH),
            Mistake("CE-12c", {"logp.mean(": "logp.sum("},
                    "You give each class the whole ε. The classes share it, so that q sums to 1."),
            Mistake("CE-12d", {"(1 - smoothing) * right - smoothing * logp.mean(-1)": "right"}, UNSMOOTHED),
            Mistake("CE-12f", {" - smoothing * logp.mean(-1)": ""},
                    "Only the correct class contributes to your loss. The ε that was taken from it is spread over all "
                    "classes, so the log p of every class contributes too."),
            Mistake("CE-13", {"return losses.mean()": BY_SEQUENCE},
                    "You average each sequence first and then the sequences, so tokens of short sequences weigh more. "
                    "All counted tokens must have the same weight."),
            Mistake("SMF-1", {f" - {MAXIMUM}": ""}, OVERFLOW),
            Mistake("SMF-2", {MAXIMUM: "z.max()"}, ONE_MAXIMUM),
            Mistake("SMF-3", {f"z - {MAXIMUM}": "z - z.max(0)", TOTAL: "np.exp(z).sum(0)"},
                    "Your softmax normalizes over the tokens. The probabilities of each token, along the last axis, "
                    "must sum to 1."),
            Mistake("SMF-2b", {MAXIMUM: "z.max(0, keepdims=True)"}, COLUMNS),
            Mistake("SMF-7a", {MAXIMUM: "z.mean(-1, keepdims=True)"}, SEPARATE_MAXIMUM),
            Mistake("SMF-7b", {MAXIMUM: "z.min(-1, keepdims=True)"}, SEPARATE_MAXIMUM),
            Mistake("CE-10c", {
                    f"z - np.log({TOTAL})": f"np.log(np.exp(z) / {TOTAL})",
                    "smoothing * logp.mean(-1)": "np.nan_to_num(smoothing * logp.mean(-1), nan=0, neginf=-np.inf)"},
                    FIRST_P),
            Mistake("CE-10d", {f"z - np.log({TOTAL})": f"np.log(np.exp(z) / {TOTAL} + 1e-12)"}, LIMITED, twin="CE-10e"),
            Mistake("CE-10e", {f"z - np.log({TOTAL})": f"np.log(np.clip(np.exp(z) / {TOTAL}, 1e-12, 1))"},
                    LIMITED, twin="CE-10d"),
            Mistake("CE-11d", {"targets != ignore_id": "targets != 0"}, CONSTANT_PADDING),
            Mistake("CE-11e", {"targets != ignore_id": "targets >= 0"}, CONSTANT_PADDING),
            Mistake("CE-12g", {"- smoothing * logp": "+ smoothing * logp"},
                    "The smoothing term has the wrong sign. The log p of every class is negative and adds to the "
                    "loss."),
            Mistake("CE-12h", {"(1 - smoothing) * right - smoothing *": "smoothing * right - (1 - smoothing) *"},
                    SWAPPED),
            Mistake("CE-12i", {"logp.mean(-1)": "logp.sum(-1) / (z.shape[-1] - 1)"}, ALL_SHARE),
            Mistake("CE-12j", {
                    "right = logp[np.arange(len(y)), y]":
                    "p = (1 - smoothing) * np.exp(logp) + smoothing / z.shape[-1]\n    right = "
                    "np.log(p[np.arange(len(y)), y])", "(1 - smoothing) * right - smoothing * logp.mean(-1)": "right"},
                    "You smooth the probabilities p. It is the target distribution q that is smoothed, and the loss "
                    "stays linear in log p."),
            Mistake("CE-14", {"right = logp": "logp = np.exp(logp)\n    right = logp"},
                    "The logarithm is missing: your loss is a mean of -q p."),
            Mistake("CE-15", {"return losses": "return np.exp(losses", "mean()": "mean())"},
                    "You return the perplexity, exp of the loss."),
            Mistake("CE-16", {"logp[np.arange(len(y)), y]": "logp.max(-1)"},
                    "Your loss does not depend on the targets: it takes the largest p of each token instead of that "
                    "of its correct class."),
            Mistake("CE-17", {
                    "logits[counted], targets[counted]": "logits, targets", "losses.mean()": "losses[counted].mean()"},
                    FIRST_AXIS_ONLY),
            Mistake("SMF-5", {TOTAL: "np.exp(z).sum(-1)"},
                    "You sum each row without keepdims=True. The result has lost the last axis, so NumPy no longer "
                    "aligns it with the rows."),
        ),
        alternatives={
            "with logaddexp": {f"z - np.log({TOTAL})": "z - np.logaddexp.reduce(z, -1, keepdims=True)"},
            "with the whole q": {
                "right = logp[np.arange(len(y)), y]":
                "q = np.full_like(logp, smoothing / z.shape[-1])\n    q[np.arange(len(y)), y] += 1 - smoothing",
                "-(1 - smoothing) * right - smoothing * logp.mean(-1)": "-(q * logp).sum(-1)"}}),
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
