"""Cross-entropy with label smoothing and ignored targets: the loss."""

import numpy as np

from ...layers import CrossEntropyLoss
from .definition import Exercise, Mistake
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


TOTAL = "np.exp(z).sum(-1, keepdims=True)"
BY_SEQUENCE = """full = np.zeros(targets.shape)
    full[counted] = losses
    return (full.sum(-1) / counted.sum(-1)).mean()"""
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
]
