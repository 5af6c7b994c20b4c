"""Binary cross-entropy, the loss of a yes-or-no question, forward and backward."""

import numpy as np

from ...layers import BinaryCrossEntropyLoss
from ..exercise import Exercise, Mistake


def binary_cross_entropy(logits, targets):
    """The loss of a yes-or-no question: the mean of -(t log p + (1 - t) log(1 - p)), p = 1 / (1 + exp(-z)).

    logits: z, any shape; they may be in the thousands, positive and negative: the loss stays finite and exact.
    targets: t, the same shape, numbers from 0 to 1, most of them 0 or 1.
    Return loss: one number, the mean over all entries. log is the natural logarithm.
    """
    softplus = np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))
    return (softplus - targets * logits).mean()


def binary_cross_entropy_backward(logits, targets):
    """The gradient of the loss of exercise 11.3: the mean of -(t log p + (1 - t) log(1 - p)), p = 1 / (1 + exp(-z)).

    logits: z, any shape; they may be in the thousands, positive and negative.
    targets: t, the same shape, numbers from 0 to 1, most of them 0 or 1.
    Return dlogits: the shape and dtype of logits, dL/dz, finite for all of them.
    """
    p = (1 + np.tanh(logits / 2)) / 2
    return (p - targets) / logits.size


def questions(rng, n):
    certain = rng.integers(0, 2, n.lead).astype(float)
    return 2 * rng.standard_normal(n.lead), np.where(rng.random(n.lead) < 0.3, rng.random(n.lead), certain)


def sure(rng):
    return [("sure and right", (np.array([40.0, -40, 2000, -2000, 1.5]), np.array([1.0, 0, 1, 0, 1]))),
            ("sure and wrong, yes too low", (np.array([[-3000.0, 0.5], [1, -900]]), np.array([[1.0, 1], [0.25, 1]]))),
            ("sure and wrong, no too high", (np.array([[3000.0, 0.5, -1]]), np.array([[0.0, 0, 0.75]])))]


def by_loss_backward(logits, targets):
    criterion = BinaryCrossEntropyLoss()
    criterion(logits, targets)
    return criterion.backward()


SOFTPLUS = "np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))"
LOSSES = "(softplus - targets * logits)"
P = "    p = 1 / (1 + np.exp(-logits))\n"
WHOLE = f"    softplus = {SOFTPLUS}\n    return {LOSSES}"
BY_P = "(targets * np.log(p) + (1 - targets) * np.log(1 - p))"
SIGMOID = "(1 + np.tanh(logits / 2)) / 2"
ROUNDED = "The targets are rounded. One of 0.3 is a probability, and pulls to both sides."

LOSS = (
    Mistake("BCE-1", {f"{LOSSES}.mean()": f"{LOSSES}.sum()"}, "The losses are summed: the loss is their mean."),
    Mistake("BCE-2", {f"{LOSSES}.mean()": f"{LOSSES}.sum() / len(logits)"},
            "It is divided by the length of the first axis only: the mean is over all entries."),
    Mistake("BCE-3", {WHOLE: f"{P}    return -{BY_P}"},
            "p becomes exactly 0 or 1 where a logit is large, and its logarithm -inf, or 0 times that. Take the "
            "logarithm by hand before you compute: log p and log(1 - p) are simple in z."),
    Mistake("BCE-4a", {WHOLE: f"{P}    p = np.clip(p, 1e-12, 1 - 1e-12)\n    return -{BY_P}"},
            "p is clipped to keep log away from 0. Then no loss exceeds 28, and a model that is sure and wrong learns "
            "nothing from it. With the logits no clipping is needed."),
    Mistake("BCE-4b", {WHOLE: f"{P}    p = np.clip(p, 1e-7, 1 - 1e-7)\n    return -{BY_P}"},
            "p is clipped to keep log away from 0. Then no loss exceeds 17, and a model that is sure and wrong learns "
            "nothing from it. With the logits no clipping is needed."),
    Mistake("BCE-5", {SOFTPLUS: "np.log1p(np.exp(logits))"},
            "exp overflows above about 709 (float64) or 88 (float32). Take the large part out of the logarithm first, "
            "as softmax does with its maximum."),
    Mistake("BCE-6", {f"return {LOSSES}": f"return -{LOSSES}"},
            "The sign is reversed: a loss of this kind is never negative."),
    Mistake("BCE-7", {"targets * logits": "(1 - targets) * logits"},
            "Yes and no are swapped: t = 1 must pull the logit up."),
    Mistake("BCE-8", {LOSSES: "(targets * (softplus - logits))"},
            "Only the part -t log p is there. Where t = 0 nothing is learned: add -(1 - t) log(1 - p)."),
    Mistake("BCE-9", {f"{LOSSES}.mean()": LOSSES}, "One loss for each entry is returned: the loss is their mean."),
    Mistake("BCE-10", {f"{LOSSES}.mean()": f"{LOSSES}.mean() / np.log(2)"},
            "That is in bits, with log2: the loss takes the natural logarithm."),
    Mistake("BCE-11", {WHOLE: f"    p = logits\n    return -{BY_P}"},
            "The logits are taken for probabilities, and log of a negative number is NaN. p is the sigmoid of the "
            "logit."),
    Mistake("BCE-12", {"np.exp(-np.abs(logits))": "np.exp(-logits)"},
            "exp(-z) stands where exp(-|z|) belongs: for negative z its part is counted twice, and below about -709 it "
            "overflows."),
    Mistake("BCE-13", {"np.maximum(logits, 0) + ": ""},
            "max(z, 0) is missing: log(1 + exp(-|z|)) alone is log(1 + exp(z)) for negative z only."),
    Mistake("BCE-14", {"    softplus =": "    logits = (1 + np.tanh(logits / 2)) / 2\n    softplus ="},
            "The sigmoid is applied twice: the formula in z contains it already."),
    Mistake("BCE-15", {" + np.log1p(np.exp(-np.abs(logits)))": ""},
            "The logarithm is missing: max(z, 0) is what remains of log(1 + exp(z)) far from 0 only."),
    Mistake("BCE-16", {LOSSES: "np.logaddexp(0, -targets * logits)"},
            "log(1 + exp(-t z)) is the loss for targets -1 and 1. Here \"no\" is 0."),
    Mistake("BCE-17", {"targets * logits": "np.round(targets) * logits"}, ROUNDED),
)
LOSS_BACKWARD = (
    Mistake("BCB-1", {" / logits.size": ""},
            "The gradient is not divided by the number of entries, though the loss is their mean."),
    Mistake("BCB-2", {"logits.size": "len(logits)"},
            "It is divided by the length of the first axis only: the mean is over all entries."),
    Mistake("BCB-3", {"p - targets": "targets - p"},
            "The sign is reversed: where p lies above the target, a larger logit makes the loss larger."),
    Mistake("BCB-4", {"(p - targets)": "(p - targets) * p * (1 - p)"},
            "There is a factor p (1 - p), as for a squared error behind a sigmoid. Here log takes it out again, and a "
            "model that is sure and wrong has a large gradient."),
    Mistake("BCB-5", {"(p - targets)": "(p - targets) / (p * (1 - p))"},
            "That is the gradient in p. Go on through the sigmoid, to the logit."),
    Mistake("BCB-6", {SIGMOID: "np.exp(logits) / (1 + np.exp(logits))"},
            "exp overflows above about 709 (float64) or 88 (float32), and inf / inf is NaN. Another form of the "
            "sigmoid has no such quotient."),
    Mistake("BCB-7", {SIGMOID: "np.exp(logits - logits.max(-1, keepdims=True))\n    p = p / p.sum(-1, keepdims=True)"},
            "That is softmax: it makes the entries compete. Each one is a question of its own, and has a sigmoid."),
    Mistake("BCB-8", {SIGMOID: "logits"},
            "The target is subtracted from the logit itself, as for a squared error. The sigmoid is missing."),
    Mistake("BCB-9", {"p - targets": "p - (1 - targets)"}, "Yes and no are swapped: t = 1 must pull the logit up."),
    Mistake("BCB-10", {SIGMOID: "np.round((1 + np.tanh(logits / 2)) / 2)"},
            "p is rounded to yes or no. Then nothing is learned from answers that are right by a hair, and the loss "
            "knew p itself."),
    Mistake("BCB-11", {"(p - targets)": "targets * (p - 1)"},
            "Only the gradient of -t log p is there. Where t = 0 it is 0: the part of -(1 - t) log(1 - p) is missing."),
    Mistake("BCB-12", {"p - targets": "p - np.round(targets)"}, ROUNDED),
    Mistake("BCB-13", {"logits / 2": "logits"},
            "(1 + tanh(z)) / 2 is the sigmoid of 2 z."),
    Mistake("BCB-14", {"logits.size": "logits.shape[-1]"},
            "It is divided by the length of the last axis only: the mean is over all entries."),
    Mistake("BCB-15", {SIGMOID: "np.tanh(logits / 2)"},
            "tanh lies between -1 and 1. A probability lies between 0 and 1."),
    Mistake("BCB-16", {f"    p = {SIGMOID}": "    logits /= 2\n    p = (1 + np.tanh(logits)) / 2"},
            "logits /= 2 writes into the caller's array: logits / 2 makes a new one."),
)

EXERCISES = [
    Exercise(
        "11.3", "Binary cross-entropy", minutes=15, lines=2,
        solution=binary_cross_entropy, reference=lambda logits, targets: BinaryCrossEntropyLoss()(logits, targets),
        inputs=questions, edges=sure, outputs=("loss",), mistakes=LOSS,
        invariants=(("the loss must not be negative", lambda inputs, outputs: np.minimum(outputs[0], 0)),),
        hints=("Write -log p and -log(1 - p) with z in place of p, on paper. What is their difference?",
               "-log(1 - p) = log(1 + exp(z)), and -log p is that minus z. Where z is large, exp(z) overflows, but "
               "log(1 + exp(z)) is nearly z.",
               "log(1 + exp(z)) = max(z, 0) + log(1 + exp(-|z|)), with np.log1p; subtract t z and take the mean."),
        alternatives={"logaddexp": {SOFTPLUS: "np.logaddexp(0, logits)"},
                      "two logarithms": {LOSSES: "(targets * np.logaddexp(0, -logits) + (1 - targets) * "
                                                 "np.logaddexp(0, logits))"},
                      "two branches": {SOFTPLUS: "np.where(logits > 0, logits + np.log1p(np.exp(-abs(logits))), "
                                                 "np.log1p(np.exp(-abs(logits))))"}}),
    Exercise(
        "11.4", "Binary cross-entropy, backward", minutes=10, lines=2,
        solution=binary_cross_entropy_backward, reference=by_loss_backward, inputs=questions, edges=sure,
        outputs=("dlogits",), mistakes=LOSS_BACKWARD,
        invariants=(("no entry of dlogits can be larger than 1 / N",
                     lambda inputs, outputs: np.maximum(abs(outputs[0]) * outputs[0].size - 1, 0)),),
        hints=("In z the loss of one entry is log(1 + exp(z)) - t z. What are the two slopes?",
               "The slope of log(1 + exp(z)) is p, the sigmoid. It must not overflow into NaN where z is large.",
               "(p - t) divided by the number of entries, with p = (1 + tanh(z / 2)) / 2, which never overflows."),
        alternatives={"exp, which overflows to p = 0": {SIGMOID: "1 / (1 + np.exp(-logits))"},
                      "two branches": {SIGMOID: "np.where(logits > 0, 1, np.exp(-abs(logits))) / "
                                                "(1 + np.exp(-abs(logits)))"}}),
]
