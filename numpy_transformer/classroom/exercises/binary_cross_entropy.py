"""Binary cross-entropy, the loss of a yes-or-no question, and its backward pass."""

import numpy as np

from ...layers import BinaryCrossEntropyLoss
from ..exercise import Exercise, Mistake


def binary_cross_entropy(logits, targets):
    """The loss of a yes-or-no question: the mean of -(t log p + (1 - t) log(1 - p)), where p = 1 / (1 + exp(-z)).

    logits: z, any shape. They may be as large as several thousand or as small as minus several thousand; the loss must
        be finite and exact for all of them.
    targets: t, the same shape, numbers from 0 to 1, most of them 0 or 1.
    Return loss: one number, the mean over all entries. log is the natural logarithm.
    """
    softplus = np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))
    return (softplus - targets * logits).mean()


def binary_cross_entropy_backward(logits, targets):
    """The gradient of the loss of exercise 11.3, the mean of -(t log p + (1 - t) log(1 - p)), p = 1 / (1 + exp(-z)).

    logits: z, any shape. They may be as large as several thousand or as small as minus several thousand.
    targets: t, the same shape, numbers from 0 to 1, most of them 0 or 1.
    Return dlogits: dL/dz, in the shape and dtype of logits, finite for all of them.
    """
    p = (1 + np.tanh(logits / 2)) / 2
    return (p - targets) / logits.size


def questions(rng, n):
    certain = rng.integers(0, 2, n.lead).astype(float)
    return 2 * rng.standard_normal(n.lead), np.where(rng.random(n.lead) < 0.3, rng.random(n.lead), certain)


def confident(rng):
    """The logits are at least as large as these: exp(40) + 1 is exp(40) in float64, and exp(710) overflows."""
    cases = [("confident and right", [40.0, -40, 2000, -2000, 1.5], [1.0, 0, 1, 0, 1]),
             ("confident and wrong, large negative logits for yes", [[-3000, 0.5], [1, -900]], [[1.0, 1], [0.25, 1]]),
             ("confident and wrong, a large positive logit for no", [[3000, 0.5, -1]], [[0.0, 0, 0.75]])]
    return [(note, (logits * rng.uniform(1, 1.3, np.shape(logits)), np.array(targets)))
            for note, logits, targets in cases]


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
ROUNDED = "You round the targets. A target of 0.3 is a probability, and both terms of the loss count for it."

LOSS = (
    Mistake("BCE-1", {f"{LOSSES}.mean()": f"{LOSSES}.sum()"},
            "You return the sum of the losses instead of their mean."),
    Mistake("BCE-2", {f"{LOSSES}.mean()": f"{LOSSES}.sum() / len(logits)"},
            "You divide by the length of the first axis only. The mean is over all entries."),
    Mistake("BCE-3", {WHOLE: f"{P}    return -{BY_P}"},
            "For a large logit, p becomes exactly 0 or 1 and its logarithm is -inf, or you get 0 times -inf. Simplify "
            "on paper first: log p and log(1 - p) are simple functions of z."),
    Mistake("BCE-4a", {WHOLE: f"{P}    p = np.clip(p, 1e-12, 1 - 1e-12)\n    return -{BY_P}"},
            "You clip p to avoid log(0). The loss then cannot exceed 28, and its gradient is 0 where the model is most "
            "confident and wrong. Computed from the logits, the loss needs no clipping."),
    Mistake("BCE-4b", {WHOLE: f"{P}    p = np.clip(p, 1e-7, 1 - 1e-7)\n    return -{BY_P}"},
            "You clip p to avoid log(0). The loss then cannot exceed 17, and its gradient is 0 where the model is most "
            "confident and wrong. Computed from the logits, the loss needs no clipping."),
    Mistake("BCE-5", {SOFTPLUS: "np.log1p(np.exp(logits))"},
            "exp overflows above about 709 in float64 and 88 in float32. Move the large part out of the logarithm "
            "first, as softmax does when it subtracts the maximum."),
    Mistake("BCE-6", {f"return {LOSSES}": f"return -{LOSSES}"},
            "Your sign is reversed. This loss is never negative."),
    Mistake("BCE-7", {"targets * logits": "(1 - targets) * logits"},
            "You swapped yes and no. For t = 1, a larger logit must give a smaller loss."),
    Mistake("BCE-8", {LOSSES: "(targets * (softplus - logits))"},
            "You compute -t log p only, so the model learns nothing where t = 0. The term -(1 - t) log(1 - p) is "
            "missing."),
    Mistake("BCE-9", {f"{LOSSES}.mean()": LOSSES}, "You return one loss per entry. The loss is their mean."),
    Mistake("BCE-10", {f"{LOSSES}.mean()": f"{LOSSES}.mean() / np.log(2)"},
            "Your loss is in bits, because you use log2. This loss uses the natural logarithm."),
    Mistake("BCE-11", {WHOLE: f"    p = logits\n    return -{BY_P}"},
            "You use the logits as probabilities, and the logarithm of a negative number is NaN. p is the sigmoid of "
            "the logit."),
    Mistake("BCE-12", {"np.exp(-np.abs(logits))": "np.exp(-logits)"},
            "You compute exp(-z) instead of exp(-|z|). For negative z the large part is then counted twice, and below "
            "about -709 exp overflows."),
    Mistake("BCE-13", {"np.maximum(logits, 0) + ": ""},
            "The term max(z, 0) is missing. log(1 + exp(-|z|)) equals log(1 + exp(z)) for negative z only."),
    Mistake("BCE-14", {"    softplus =": "    logits = (1 + np.tanh(logits / 2)) / 2\n    softplus ="},
            "You apply the sigmoid twice. The formula in terms of z already contains it."),
    Mistake("BCE-15", {" + np.log1p(np.exp(-np.abs(logits)))": ""},
            "The logarithm is missing. max(z, 0) approximates log(1 + exp(z)) only far from 0."),
    Mistake("BCE-16", {LOSSES: "np.logaddexp(0, -targets * logits)"},
            "log(1 + exp(-t z)) is the loss for targets of -1 and 1. Here the target for no is 0."),
    Mistake("BCE-17", {"targets * logits": "np.round(targets) * logits"}, ROUNDED),
)
LOSS_BACKWARD = (
    Mistake("BCB-1", {" / logits.size": ""},
            "You do not divide the gradient by the number of entries, although the loss is their mean."),
    Mistake("BCB-2", {"logits.size": "len(logits)"},
            "You divide by the length of the first axis only. The mean is over all entries."),
    Mistake("BCB-3", {"p - targets": "targets - p"},
            "Your sign is reversed. Where p is above the target, a larger logit gives a larger loss."),
    Mistake("BCB-4", {"(p - targets)": "(p - targets) * p * (1 - p)"},
            "You multiply by p (1 - p), as for a squared error of a sigmoid. In this loss the derivative of the "
            "logarithm cancels that factor, so a model that is confident and wrong has a large gradient."),
    Mistake("BCB-5", {"(p - targets)": "(p - targets) / (p * (1 - p))"},
            "You return the gradient with respect to p. Continue through the sigmoid to the logit."),
    Mistake("BCB-6", {SIGMOID: "np.exp(logits) / (1 + np.exp(logits))"},
            "exp overflows above about 709 in float64 and 88 in float32, and inf / inf is NaN. Other forms of the "
            "sigmoid avoid this quotient."),
    Mistake("BCB-7", {SIGMOID: "np.exp(logits - logits.max(-1, keepdims=True))\n    p = p / p.sum(-1, keepdims=True)"},
            "You use softmax, which makes the entries compete. Each entry is a separate question and needs a sigmoid."),
    Mistake("BCB-8", {SIGMOID: "logits"},
            "You subtract the target from the logit itself, as for a squared error. The sigmoid is missing."),
    Mistake("BCB-9", {"p - targets": "p - (1 - targets)"},
            "You swapped yes and no. For t = 1, a larger logit must give a smaller loss."),
    Mistake("BCB-10", {SIGMOID: "np.round((1 + np.tanh(logits / 2)) / 2)"},
            "You round p to 0 or 1. A model that is right but uncertain then learns nothing; the loss depends on p "
            "itself."),
    Mistake("BCB-11", {"(p - targets)": "targets * (p - 1)"},
            "You return the gradient of -t log p only, which is 0 where t = 0. The gradient of -(1 - t) log(1 - p) is "
            "missing."),
    Mistake("BCB-12", {"p - targets": "p - np.round(targets)"}, ROUNDED),
    Mistake("BCB-13", {"logits / 2": "logits"},
            "(1 + tanh(z)) / 2 is the sigmoid of 2 z, not of z."),
    Mistake("BCB-14", {"logits.size": "logits.shape[-1]"},
            "You divide by the length of the last axis only. The mean is over all entries."),
    Mistake("BCB-15", {SIGMOID: "np.tanh(logits / 2)"},
            "You use tanh, which is between -1 and 1. A probability is between 0 and 1."),
    Mistake("BCB-16", {f"    p = {SIGMOID}": "    logits /= 2\n    p = (1 + np.tanh(logits)) / 2"},
            "logits /= 2 writes into the caller's array. logits / 2 makes a new one."),
)

EXERCISES = [
    Exercise(
        "11.3", "Binary cross-entropy", minutes=15, lines=2,
        solution=binary_cross_entropy, reference=lambda logits, targets: BinaryCrossEntropyLoss()(logits, targets),
        inputs=questions, edges=confident, outputs=("loss",), mistakes=LOSS,
        invariants=(("the loss must not be negative", lambda inputs, outputs: np.minimum(outputs[0], 0)),),
        hints=("On paper, replace p by its formula in -log p and -log(1 - p). What is their difference?",
               "-log(1 - p) = log(1 + exp(z)), and -log p is the same minus z. For large z, exp(z) overflows, although "
               "log(1 + exp(z)) is almost equal to z.",
               "log(1 + exp(z)) = max(z, 0) + log(1 + exp(-|z|)), with np.log1p; subtract t z and take the mean."),
        alternatives={"logaddexp": {SOFTPLUS: "np.logaddexp(0, logits)"},
                      "two logarithms": {LOSSES: "(targets * np.logaddexp(0, -logits) + (1 - targets) * "
                                                 "np.logaddexp(0, logits))"},
                      "two branches": {SOFTPLUS: "np.where(logits > 0, logits + np.log1p(np.exp(-abs(logits))), "
                                                 "np.log1p(np.exp(-abs(logits))))"}}),
    Exercise(
        "11.4", "Binary cross-entropy, backward", minutes=10, lines=2,
        solution=binary_cross_entropy_backward, reference=by_loss_backward, inputs=questions, edges=confident,
        outputs=("dlogits",), mistakes=LOSS_BACKWARD,
        invariants=(("no entry of dlogits may exceed 1 / N in size",
                     lambda inputs, outputs: np.maximum(abs(outputs[0]) * outputs[0].size - 1, 0)),),
        hints=("In terms of z, the loss of one entry is log(1 + exp(z)) - t z. What are the derivatives of the two "
               "terms?",
               "The derivative of log(1 + exp(z)) is p, the sigmoid. For large z it must not become NaN by overflow.",
               "(p - t) divided by the number of entries, with p = (1 + tanh(z / 2)) / 2, which never overflows."),
        alternatives={"exp, which overflows where p is 0": {SIGMOID: "1 / (1 + np.exp(-logits))"},
                      "two branches": {SIGMOID: "np.where(logits > 0, 1, np.exp(-abs(logits))) / "
                                                "(1 + np.exp(-abs(logits)))"}}),
]
